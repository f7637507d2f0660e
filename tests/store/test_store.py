"""The store: lists, search, cost, deletion, copies."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.chats.content import Reasoning, ToolCall, ToolResult
from llmstream.store import StoreError, open_store

in_a_file = pytest.mark.parametrize("address", ["sqlite"], indirect=True)
SCRIPTS = {
    "Latin": ("Der Fjörd liegt im Norden.", "fjord"),
    "Greek": ("Η θάλασσα είναι βαθιά.", "θάλασσα"),
    "Cyrillic": ("Фьорд глубокий.", "фьорд"),
    "Arabic": ("البحر عميق جدا", "عميق"),
    "Hebrew": ("הים עמוק מאוד", "עמוק"),
    "Devanagari": ("समुद्र गहरा है", "गहरा"),
    "Thai": ("ทะเลลึกมาก", "ลึก"),
    "Chinese": ("峡湾很深。", "峡湾"),
    "Japanese": ("フィヨルドは深いです。", "深い"),
    "Korean": ("피오르는 깊습니다.", "깊습"),
    "Georgian": ("ზღვა ღრმაა", "ღრმაა"),
    "Armenian": ("Ծովը խորն է", "խորն"),
}


def said(store, name, *texts):
    store.chat(name).append(*[ls.Message.user(text) for text in texts])


@pytest.mark.parametrize("script", SCRIPTS)
def test_words_are_found_in_each_script(store, script):
    for name, (text, _) in SCRIPTS.items():
        said(store, name, text)
    hits = store.search(SCRIPTS[script][1])
    assert [hit.conversation for hit in hits] == [script]


def test_hits_have_place_and_excerpt(store):
    said(store, "one", "x", "word " * 50 + "deep fjord here " + "word " * 50)
    (hit,) = store.search("fjord")
    assert (hit.conversation, hit.role, hit.index) == ("one", "user", 1)
    assert [hit.excerpt[start:end] for start, end in hit.found] == ["fjord"]
    assert len(hit.excerpt) < 200
    assert hit.excerpt.startswith("…")
    assert hit.excerpt.endswith("…")


def test_reasoning_and_tools_are_found(store):
    store.chat("one").append(
        ls.Message.system("secretprompt"),
        ls.Message.assistant(Reasoning("ponder"), ToolCall("c", "lookup", '{"city":"Zürich"}')),
        ls.Message.tool([ToolResult("c", "snowy")]),
    )
    assert [hit.index for word in ("ponder", "lookup", "zurich", "snowy") for hit in store.search(word)] == [
        1,
        1,
        1,
        2,
    ]
    assert store.search("secretprompt") == []


@pytest.mark.parametrize(
    "query", ['"', "AND", "a OR", "x:y", "NEAR(", "-fjord", "(", "fjord*", '"a b', "ünï^2"]
)
def test_no_query_is_bad_syntax(store, query):
    said(store, "one", "a fjord and near")
    if any(character.isalnum() for character in query):
        assert isinstance(store.search(query), list)
    else:
        with pytest.raises(ls.InvalidRequest, match="no word"):
            store.search(query)


def test_phrases_and_beginnings_are_found(store):
    said(store, "one", "blue deep fjord")
    said(store, "two", "deep blue fjords")
    assert [hit.conversation for hit in store.search('"blue deep"')] == ["one"]
    assert {hit.conversation for hit in store.search("fjor*")} == {"one", "two"}
    assert [hit.conversation for hit in store.search("fjords")] == ["two"]


def test_searches_are_filtered(store):
    said(store, "one", "fjord old")
    time = store.clock()
    store.chat("two").append(ls.Message.assistant("fjord new"))
    assert [hit.conversation for hit in store.search("fjord", since=time)] == ["two"]
    assert [hit.conversation for hit in store.search("fjord", role="user")] == ["one"]
    assert store.search("fjord", model="claude*") == []


async def test_the_model_of_a_hit_is_matched(store):
    await ls.stream("sim:demo", "fjord", chat=store.chat("one")).collect()
    assert {hit.conversation for hit in store.search("fjord", model="dem*")} == {"one"}
    assert {hit.conversation for hit in store.search("fjord", model="sim:*")} == {"one"}
    assert store.search("fjord", model="gpt*") == []


def test_pages_list_the_newest_first(store):
    for name in "abc":
        said(store, name, name)
    said(store, "a", "again")
    first = store.conversations(limit=2)
    assert [info.id for info in first] == ["a", "c"]
    assert [info.id for info in store.conversations(before=first[-1].updated)] == ["b"]
    assert store.last().id == "a"


async def test_turns_have_cost_and_times(opened):
    store = opened(price=lambda model, usage: usage.output_tokens / 10 if model == "sim:demo" else None)
    await ls.stream("sim:demo", "Hi", chat=store.chat("one")).collect()
    await ls.stream("sim:probe", "Hi", chat=store.chat("two")).collect()
    (turn,) = store.turns("one")
    assert (turn.model, turn.state, turn.finish) == ("sim:demo", "done", "stop")
    assert turn.cost == turn.usage.output_tokens / 10
    assert 0 <= turn.first_s <= turn.total_s
    rows = store.costs(["model"])
    assert [(row.group, row.turns, row.cost is None) for row in rows] == [
        (("sim:demo",), 1, False),
        (("sim:probe",), 1, True),
    ]
    assert sum(row.turns for row in store.costs(["day", "chat"], price=lambda model, usage: 1.0)) == 2
    with pytest.raises(ls.InvalidRequest, match="grouped by"):
        store.costs(["colour"])


@in_a_file
def test_a_deleted_word_is_in_no_file(store, path):
    chat = store.chat("one")
    secret = ls.Image(data=b"zebrabytes" * 4000, media_type="image/png")
    chat.append(ls.Message.user("Remember zebrastripes", secret))
    for at in range(20):
        chat.branch(at=1)
        chat.append(ls.Message.assistant(f"zebrafish {at}"))
    said(store, "two", "harmless")
    store.delete("one")
    files = [file for file in path.parent.iterdir() if file.is_file()]
    assert not [file.name for file in files if b"zebra" in file.read_bytes()]
    assert store.search("zebra*") == []
    assert store.search("harmless")
    assert store.check() == []


def test_what_a_fork_shares_survives(store):
    chat = store.chat("one")
    chat.append(ls.Message.user("shared", ls.Image(data=bytes(20_000), media_type="image/png")))
    chat.fork("two")
    chat.append(ls.Message.user("onlyone"))
    store.delete("one")
    assert [message.text for message in store.chat("two")] == ["shared"]
    assert store.search("onlyone") == []
    assert [hit.conversation for hit in store.search("shared")] == ["two"]
    store.delete("two")
    with store.database.reading() as db:
        tables = ("messages", "trees", "files", "message_files", "conversations")
        assert [db.execute(f"select count(*) from {table}").fetchone()[0] for table in tables] == [0] * 5


def test_deleting_an_unknown_deletes_none(store):
    said(store, "one", "A")
    with pytest.raises(StoreError, match="no conversation 'two'"):
        store.delete("one", "two")
    assert [info.id for info in store.conversations()] == ["one"]


def test_pruning_keeps_tagged_and_new(store):
    for name in ("old", "tagged"):
        said(store, name, "A")
    store.rename("tagged", tags=["keep"], title="Mine")
    limit = store.clock()
    said(store, "new", "A")
    assert store.prune(before=limit) == ["old"]
    assert [info.id for info in store.conversations()] == ["new", "tagged"]
    assert store.info("tagged").title == "Mine"
    assert store.info("tagged").tags == ("keep",)
    assert store.prune(before=limit, keep_tagged=False) == ["tagged"]


def test_missing_rows_are_reported(store):
    said(store, "one", "A", "B")
    assert store.check() == []
    with store.database.writing() as db:
        db.execute("delete from messages where parent is not null")
    assert store.check() == ["1 conversations without their end"]


@in_a_file
def test_a_backup_is_a_store(store, tmp_path):
    said(store, "one", "fjord")
    store.backup(tmp_path / "copy.db")
    with open_store(f"sqlite:{tmp_path / 'copy.db'}") as copy:
        assert copy.search("fjord")
        assert copy.check() == []
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600
    with pytest.raises(StoreError, match="already exists"):
        store.backup(tmp_path / "copy.db")


def test_what_says_it_more_often_is_first(store):
    said(store, "one", "A fjord is a fjord: each fjord is deep.", "word " * 200 + "fjord")
    said(store, "two", "Once there was a fjord, and a mountain, and a lake.")
    for hits in (store.search("fjord"), store.search("fjord", all=True)):
        assert [(hit.conversation, hit.index) for hit in hits] == [("one", 0), ("two", 0), ("one", 1)]
    assert len(store.search("fjord", limit=2)) == 2
