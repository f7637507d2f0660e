"""The file: versions, migrations, damage, full disks, and processes that die or write at once."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.store import StoreError, database, open_store
from tests.store.drill import in_a_process as drill

HI = ls.Message.user("Hi")
FILLS = """
import resource, sys
import llmstream as ls
from llmstream.store import StoreError, open_store
store = open_store(f"sqlite:{sys.argv[1]}")
chat = store.chat("one")
chat.append(ls.Message.user("before"))
size = 512_000
resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
try:
    for at in range(10_000):
        chat.append(ls.Message.user("x" * 10_000))
except StoreError as error:
    print(len(chat), error)
"""


@pytest.fixture
def address(path):
    return f"sqlite:{path}"


@pytest.fixture
def folder():
    """In memory where there is such a file system: many processes write to it."""
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    found = tempfile.mkdtemp(dir=base)
    yield Path(found)
    shutil.rmtree(found)


def test_files_are_for_their_owner_only(store, path):
    store.chat("one").append(HI)
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir() if file.is_file()}
    assert set(modes.values()) == {0o600}
    assert "chats.db-wal" in modes


def test_a_newer_file_is_refused_unharmed(opened, path):
    opened().chat("one").append(HI)
    with sqlite3.connect(path) as db:
        db.execute("pragma user_version = 99")
        db.execute("alter table conversations add column mood text not null default 'good'")
    db.close()
    with pytest.raises(
        StoreError, match=r"newer llmstream \(tables 99, known 2\). Update llmstream, or open"
    ):
        opened()
    store = opened(read_only=True)
    assert store.chat("one").messages() == [HI]
    assert store.search("hi")[0].conversation == "one"
    with store.database.reading() as db:
        assert db.execute("select mood from conversations").fetchall() == [("good",)]


def test_a_file_is_migrated_after_a_copy(opened, path, monkeypatch):
    opened().chat("one").append(HI)
    step = "alter table conversations add column mood text;\nupdate messages set sender = 'me'"
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, (step, True)))
    assert opened().chat("one").messages() == [HI]
    (copy,) = path.parent.glob("chats.db.before-3-*")
    with sqlite3.connect(copy) as db:
        assert db.execute("pragma user_version").fetchone() == (2,)
    db.close()
    assert copy.stat().st_mode & 0o777 == 0o600


def test_files_of_all_versions_are_opened(opened, path, monkeypatch):
    current = database.MIGRATIONS
    for version in range(1, len(current)):
        monkeypatch.setattr(database, "MIGRATIONS", current[:version])
        opened().chat("one").append(HI)
        monkeypatch.setattr(database, "MIGRATIONS", current)
        store = opened()
        assert store.chat("one").messages() == [HI]
        assert store.turns("one") == []
        store.close()
        path.unlink()


def test_a_broken_migration_changes_nothing(opened, path, monkeypatch):
    opened().chat("one").append(HI)
    step = "alter table conversations add column mood text;\nnonsense"
    monkeypatch.setattr(database, "MIGRATIONS", (*database.MIGRATIONS, (step, False)))
    with pytest.raises(StoreError, match="nonsense"):
        opened()
    monkeypatch.undo()
    assert opened().chat("one").messages() == [HI]


def test_another_programs_file_is_refused(path):
    with sqlite3.connect(path) as db:
        db.execute("create table mine (x)")
    db.close()
    with pytest.raises(StoreError, match="not a store of conversations"):
        open_store(f"sqlite:{path}")
    with pytest.raises(StoreError, match="there is no store"):
        open_store(f"sqlite:{path}.missing", read_only=True)


@pytest.mark.parametrize("address", ["chats.db", "sqlite:", "sqlite:///srv/chats.db", "redis://h"])
def test_other_addresses_are_refused(address):
    with pytest.raises(ls.InvalidRequest, match=r"Write 'sqlite:chats.db'.*no slashes"):
        open_store(address)


def test_another_program_keeps_its_mode(path):
    with sqlite3.connect(path) as db:
        db.execute("create table mine (x)")
    with pytest.raises(StoreError, match="not a store of conversations"):
        open_store(f"sqlite:{path}")
    assert db.execute("pragma journal_mode").fetchone() == ("delete",)
    db.close()


def test_a_damaged_page_is_reported(opened, path):
    store = opened()
    for at in range(50):
        store.chat(f"chat-{at}").append(ls.Message.user(f"fjord {at} " + "deep " * 500))
    store.optimize()
    store.close()
    data = bytearray(path.read_bytes())
    middle = len(data) // 8192 * 4096
    data[middle : middle + 16_384] = b"\xff" * 16_384
    path.write_bytes(data)
    store = opened()
    errors, read = [], 0
    for at in range(50):
        try:
            read += len(store.chat(f"chat-{at}").messages())
        except StoreError as error:
            errors.append(str(error))
    assert errors
    assert all("damaged" in error and ".recover" in error for error in errors)
    assert read > 20
    assert store.check() != []


@pytest.mark.skipif(sys.platform == "win32", reason="no resource limits")
def test_a_full_disk_is_reported_and_unharmed(opened, path):
    done = subprocess.run(
        [sys.executable, "-c", FILLS, str(path)], capture_output=True, text=True, timeout=120
    )
    count, _, error = done.stdout.partition(" ")
    assert "cannot be used" in error, done.stderr
    assert "disk" in error
    store = opened()
    assert len(store.chat("one")) == int(count)
    store.chat("one").append(HI)
    assert store.check() == []


def test_a_closed_store_is_refused(opened):
    store = opened()
    store.close()
    store.close()
    with pytest.raises(StoreError, match="is closed"):
        store.chat("one")


def test_a_store_serves_several_threads(store):
    from concurrent.futures import ThreadPoolExecutor

    def add(at):
        store.chat(f"chat-{at % 4}").append(ls.Message.user(str(at)))

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(add, range(40)))
    with store.database.reading() as db:
        assert db.execute("select count(*) from messages").fetchone() == (40,)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_may_begin_at_once(folder):
    found = drill("open", folder, 6)
    assert found.pop("branches") in range(1, 7)
    assert found == {"failed": 0, "chats": 7, "wrong": []}


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_process_writes_too(folder):
    assert drill("inherit", folder) == {
        "failed": 0,
        "meanwhile": ["open"],
        "ends": {"parent": ["done"], "child": ["done"]},
        "wrong": [],
    }


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_processes_may_write_at_once(folder):
    found = drill("write", folder, 4, 3.0)
    assert (found["failed"], found["lost"], found["wrong"]) == (0, 0, [])
    assert int(str(found["written"])) > 8


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_killed_process_loses_nothing(folder):
    """At each eleventh statement of SQL; `python -m tests.store.drill kill FOLDER` is for all."""
    found = drill("kill", folder, 11)
    assert found["faults"] == []
    assert int(str(found["kills"])) > 20
