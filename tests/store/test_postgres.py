"""What is PostgreSQL's own: words, patterns, rights, lost connections, processes. Others run on both."""

from __future__ import annotations

import os
import sqlite3
from concurrent.futures import ThreadPoolExecutor

import pytest

import llmstream as ls
from llmstream.store import StoreError, database, open_store
from llmstream.store.database import Words
from tests.store.drill import emptied
from tests.store.drill import in_a_process as drill
from tests.store.test_chat import BIG, said, texts

postgres = pytest.importorskip("llmstream.store.postgres", reason="the extra `postgres` is not installed")
psycopg = pytest.importorskip("psycopg")

forks = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
slow = pytest.mark.slow


@pytest.fixture
def address(no_store):
    return no_store


@pytest.mark.parametrize(
    "pattern",
    ["claude*", "*-4?5", "g[op]t.5", "g[^o]t", "a]b", "[]]", "", "*", "x\\y", "a|b", "ü?", "(", "$"],
)
def test_patterns_are_those_of_sqlite(pattern):
    import re

    given = ["claude-4.5", "gpt-5", "gpt.5", "got", "gxt", "a]b", "]", "", "x\\y", "a|b", "a", "üx", "(", "$"]
    db = sqlite3.connect(":memory:")
    expected = [one for one in given if db.execute("select ? glob ?", (one, pattern)).fetchone()[0]]
    db.close()
    # Of the regular expressions that are made here, Python's are the same.
    assert [one for one in given if re.search(postgres._regex(pattern), one, re.DOTALL)] == expected


def test_words_are_cut_as_in_sqlite():
    assert postgres._cut("Zürich's /usr/lib 3.14 ada@x.org e_f ÉTÉ") == (
        ["zurich", "s", "usr", "lib", "3", "14", "ada", "x", "org", "e", "f", "ete"]
    )
    assert postgres.vector(Words("b a b", "c", "d")) == "b:1A,3A a:2A c:6 d:9B"
    assert postgres._query(["fjord*", "deep blue", "…"]) == "(fjord:*) & (deep <-> blue)"


@slow
def test_words_of_any_number_are_stored(store):
    huge = " ".join(f"word{n}" for n in range(300_000)) + " x" * 100_000
    store.chat("one").append(ls.Message.user(huge), ls.Message.user("y" * 3_000_000))
    assert [hit.conversation for hit in store.search("word7")] == ["one"]
    assert texts(store.chat("one"))[0] == huge


@slow
def test_characters_without_form_are_kept(store):
    store.chat("one").append(ls.Message.user("a\0b fjord"))
    assert texts(store.chat("one")) == ["a\0b fjord"]
    assert store.info("one").title == "a\ufffdb fjord"
    assert store.search("fjord")


@slow
def test_newer_tables_are_refused(opened):
    store = opened()
    store.chat("one").append(*said("Hi"))
    with store.database.writing() as db:
        db.execute("update meta set value = '99' where name = 'version'")
        db.execute("alter table conversations add column mood text not null default 'good'")
    with pytest.raises(StoreError, match=r"newer llmstream \(tables 99.*Update llmstream, or open"):
        opened()
    reader = opened(read_only=True)
    assert texts(reader.chat("one")) == ["Hi"]
    with pytest.raises(StoreError, match="reading only"):
        reader.chat("one").append(*said("More"))


@slow
def test_older_tables_are_migrated(opened, monkeypatch):
    opened().chat("one").append(*said("Hi"))
    step = "alter table conversations add column mood text;\nnonsense"
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, (step, False)))
    with pytest.raises(StoreError, match="nonsense"):
        opened()
    monkeypatch.undo()
    assert texts(opened().chat("one")) == ["Hi"]
    step = "alter table conversations add column mood text;\nalter table turns add column pace real;\n"
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, (step, True)))
    store = opened()
    with store.database.reading() as db:
        assert db.execute("select mood from conversations").fetchall() == [(None,)]


@slow
def test_a_missing_store_is_not_made(opened):
    with pytest.raises(StoreError, match="no tables of a store"):
        opened(read_only=True)


def test_errors_show_no_password():
    with pytest.raises(StoreError, match="Check that the server runs") as caught:
        open_store("postgresql://ada:hunter2@127.0.0.1:1/chats")
    assert "hunter2" not in str(caught.value)
    with pytest.raises(ls.InvalidRequest, match="USER@HOST") as refused:
        open_store("postgresql://ada:hunter2@[h/chats")
    assert "hunter2" not in str(refused.value)


@slow
def test_missing_rights_are_explained(address):
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("drop role if exists guest")
        connection.execute("create role guest login")
    with pytest.raises(StoreError, match="create schema llmstream_store authorization"):
        open_store(address.replace("test@", "guest@"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute("create schema llmstream_store authorization guest")
    with open_store(address.replace("test@", "guest@")) as store:
        store.chat("one").append(*said("Hi"))
    emptied(address)


@slow
def test_a_lost_connection_is_made_anew(store, address):
    chat = store.chat("one")
    chat.append(*said("A"))
    with psycopg.connect(address, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() "
            "and datname = current_database() and backend_type = 'client backend'"
        )
    chat.append(*said("B"))
    assert texts(store.chat("one")) == ["A", "B"]


@slow
async def test_a_writer_that_was_cut_off_appears(store, opened, address):
    await ls.stream("sim:demo", "Hi", chat=store.chat("one")).collect()
    first = store.writer.id
    store.writer._link.raw.close()
    await ls.stream("sim:demo", "Hi", chat=store.chat("two")).collect()
    assert store.writer.id != first
    assert opened().writer.is_alive(store.writer.id)
    assert [turn.state for turn in store.turns("two")] == ["done"]


@slow
def test_deleting_leaves_no_file_behind(opened, address):
    """Threads add and delete messages with the same file."""
    part = ls.Image(data=BIG, media_type="image/png")

    def work(at):
        with open_store(address) as store:
            for n in range(8):
                store.chat(f"chat-{at}").append(ls.Message.user(str(n), part))
                store.delete(f"chat-{at}", optimize=False)
            store.chat(f"chat-{at}").append(ls.Message.user("last", part))
            return store.chat(f"chat-{at}").last().parts[1].data == BIG

    with ThreadPoolExecutor(4) as threads:
        assert all(threads.map(work, range(4)))
    store = opened()
    with store.database.reading() as db:
        assert db.execute("select count(*), sum(size) from files").fetchone() == (1, len(BIG))
        assert db.execute("select count(*) from trees").fetchone() == (4,)


@slow
def test_backups_are_the_servers(store, tmp_path):
    with pytest.raises(StoreError, match="pg_dump --schema=llmstream_store"):
        store.backup(tmp_path / "copy.sql")
    store.optimize()
    assert store.check() == []


@slow
@forks
def test_processes_may_begin_at_once(address):
    found = drill("open", address, 6)
    assert found.pop("branches") in range(1, 7)
    assert found == {"failed": 0, "chats": 7, "wrong": []}


@slow
@forks
def test_a_forked_process_writes_too(address):
    assert drill("inherit", address) == {
        "failed": 0,
        "meanwhile": ["open"],
        "ends": {"parent": ["done"], "child": ["done"]},
        "wrong": [],
    }


@slow
@forks
def test_processes_may_write_at_once(address):
    found = drill("write", address, 4, 2.0)
    assert (found["failed"], found["lost"], found["wrong"]) == (0, 0, [])
    assert found["written"] > 8


@slow
@forks
def test_a_killed_process_loses_nothing(address):
    """At each eleventh statement of SQL; `python -m tests.store.drill kill ADDRESS` is for all."""
    found = drill("kill", address, 11)
    assert found["faults"] == []
    assert found["kills"] > 10
