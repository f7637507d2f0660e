"""Imports: the three generations of simonw/llm, and the exports of ChatGPT and Claude."""

from __future__ import annotations

import io
import json
import sqlite3
import zipfile

import pytest

import llmstream as ls
from llmstream.chats.content import Reasoning, ToolCall, ToolResult
from llmstream.store.importing import import_file

FIRST = """
create table log (provider text, system text, prompt text, chat_id integer, response text,
    model text, timestamp text);
insert into log values ('openai', 'Be brief', 'Hi', null, 'Ho', 'gpt-4', '2023-04-01 10:00:00');
insert into log values ('openai', null, 'More', 1, 'Sure', 'gpt-4', '2023-04-01 10:01:00');
"""
SECOND = """
create table conversations (id text primary key, name text, model text);
create table responses (id text primary key, model text, prompt text, system text, prompt_json text,
    options_json text, response text, response_json text, conversation_id text, duration_ms integer,
    datetime_utc text, input_tokens integer, output_tokens integer);
create table attachments (id text primary key, type text, path text, url text, content blob);
create table prompt_attachments (response_id text, attachment_id text, "order" integer);
create table tool_calls (id integer primary key, response_id text, tool_id integer, name text, arguments text,
    tool_call_id text);
create table tool_results (id integer primary key, response_id text, tool_id integer, name text, output text,
    tool_call_id text);
insert into conversations values ('c1', 'A talk', 'gpt-4o');
insert into attachments values ('a1', 'image/png', null, null, x'89504e47');
insert into prompt_attachments values ('r1', 'a1', 0);
insert into responses values ('r1', 'gpt-4o', 'See', 'Be brief', null, null, 'I look', null, 'c1', 1500,
    '2024-05-01T10:00:00', 7, 3);
insert into tool_calls values (1, 'r1', 1, 'look', '{"a": 1}', 'k1');
insert into responses values ('r2', 'gpt-4o', '', null, null, null, 'Seen', null, 'c1', 500,
    '2024-05-01T10:00:05', 9, 2);
insert into tool_results values (1, 'r2', 1, 'look', 'a cat', 'k1');
"""
THIRD = """
create table messages (hash text primary key, parent_hash text, role text, provider_metadata text);
create table parts (id integer primary key, message_hash text, position integer, type text, tool_name text,
    text text, payload text);
create table attachments (id text primary key, type text, path text, url text, content blob);
create table part_attachments (part_id integer, attachment_id text, "order" integer);
create table threads (id text primary key, name text, tip_message_hash text, forked_from text,
    datetime_utc text);
create table turns (id text primary key, thread_id text, parent_message_hash text, tip_message_hash text,
    model text, resolved_model text, options_json text, input_tokens integer, output_tokens integer,
    duration_ms integer, datetime_utc text);
insert into attachments values ('a1', 'image/png', null, null, x'89504e47');
insert into part_attachments values (2, 'a1', 0);
insert into messages values ('m1', null, 'user', null), ('m2', 'm1', 'assistant', null),
    ('m3', 'm2', 'tool', null), ('m4', 'm3', 'assistant', null);
insert into parts values (1, 'm1', 0, 'text', null, 'See', null),
    (2, 'm1', 1, 'attachment', null, null, '{}'),
    (3, 'm2', 0, 'reasoning', null, 'Hm', null),
    (4, 'm2', 1, 'tool_call', 'look', null, '{"name": "look", "arguments": {"a": 1}, "tool_call_id": "k1"}'),
    (5, 'm3', 0, 'tool_result', 'look', null, '{"name": "look", "output": "a cat", "tool_call_id": "k1"}'),
    (6, 'm4', 0, 'text', null, 'Seen', null);
insert into threads values ('t1', 'A thread', 'm4', null, '2026-09-01 10:00:00+00:00');
insert into turns values
    ('u1', 't1', 'm1', 'm2', 'gpt-5', 'gpt-5-2025', null, 7, 3, 1500, '2026-09-01T10:00:00+00:00'),
    ('u2', 't1', 'm3', 'm4', 'gpt-5', null, null, 9, 2, 500, '2026-09-01T10:00:05+00:00');
"""
CHATGPT = [
    {
        "conversation_id": "g1",
        "title": "A trip",
        "create_time": 1700000000.0,
        "current_node": "d",
        "mapping": {
            "root": {"id": "root", "message": None, "parent": None, "children": ["a"]},
            "a": {"parent": "root", "message": {"author": {"role": "user"}, "create_time": 1700000001.0,
                "content": {"content_type": "text", "parts": ["Where to?"]}}},
            "b": {"parent": "a", "message": {"author": {"role": "assistant"}, "create_time": 1700000002.0,
                "content": {"content_type": "text", "parts": ["Oslo."]},
                "metadata": {"model_slug": "gpt-4o"}}},
            "c": {"parent": "a", "message": {"author": {"role": "system"}, "content": {"parts": [""]}}},
            "d": {"parent": "c", "message": {"author": {"role": "assistant"}, "create_time": 1700000003.0,
                "content": {"content_type": "text", "parts": ["Rome."]},
                "metadata": {"model_slug": "gpt-4o"}}},
        },
    }
]  # fmt: skip
CLAUDE = [
    {
        "uuid": "u1",
        "name": "A poem",
        "created_at": "2025-01-01T10:00:00Z",
        "chat_messages": [
            {"sender": "human", "text": "Write", "created_at": "2025-01-01T10:00:00Z",
                "attachments": [{"file_name": "a.txt", "extracted_content": "words"}]},
            {"sender": "assistant", "created_at": "2025-01-01T10:00:01Z",
                "content": [{"type": "thinking", "thinking": "Hm"}, {"type": "text", "text": "Roses"}]},
        ],
    }
]  # fmt: skip


@pytest.fixture
def database(tmp_path):
    """`database(*scripts)` makes an SQLite file."""

    def make(*scripts: str):
        path = tmp_path / "logs.db"
        with sqlite3.connect(path) as db:
            for script in scripts:
                db.executescript(script)
        db.close()
        return path

    return make


def test_the_first_tables_are_read(store, database):
    assert import_file(store, database(FIRST)) == (1, 1)
    assert [m.text for m in store.chat("llm-log-1")] == ["Be brief", "Hi", "Ho", "More", "Sure"]
    assert [turn.model for turn in store.turns("llm-log-1")] == ["llm:gpt-4"] * 2


def test_the_second_tables_are_read(store, database):
    assert import_file(store, database(SECOND)) == (1, 1)
    assert store.info("llm-c1").title == "A talk"
    assert store.chat("llm-c1").messages() == [
        ls.Message.system("Be brief"),
        ls.Message.user(ls.Image(data=b"\x89PNG", media_type="image/png"), "See"),
        ls.Message.assistant("I look", ToolCall("k1", "look", '{"a": 1}')),
        ls.Message.tool([ToolResult("k1", "a cat", name="look")]),
        ls.Message.assistant("Seen"),
    ]
    assert [(t.usage.input_tokens, t.usage.output_tokens, t.total_s) for t in store.turns("llm-c1")] == [
        (7, 3, 1.5),
        (9, 2, 0.5),
    ]


def test_the_third_tables_are_read(store, database):
    assert import_file(store, database(THIRD)) == (1, 1)
    assert store.chat("llm-t1").messages() == [
        ls.Message.user("See", ls.Image(data=b"\x89PNG", media_type="image/png")),
        ls.Message.assistant(Reasoning("Hm"), ToolCall("k1", "look", '{"a": 1}')),
        ls.Message.tool([ToolResult("k1", "a cat", name="look")]),
        ls.Message.assistant("Seen"),
    ]
    assert [turn.model for turn in store.turns("llm-t1")] == ["llm:gpt-5-2025", "llm:gpt-5"]


def test_importing_again_adds_nothing(store, database):
    path = database(FIRST, SECOND)
    assert import_file(store, path) == (2, 2)
    assert import_file(store, path) == (0, 2)
    assert len(store.conversations()) == 2


def test_branches_of_chatgpt_are_kept(store, tmp_path):
    path = tmp_path / "export.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("folder/conversations.json", json.dumps(CHATGPT))
    assert import_file(store, path) == (1, 1)
    chat = store.chat("chatgpt-g1")
    assert [m.text for m in chat] == ["Where to?", "Rome."]
    assert [branch.text for branch in chat.branches(at=1)] == ["Oslo.", "Rome."]
    assert store.info("chatgpt-g1").title == "A trip"
    assert store.info("chatgpt-g1").model == "chatgpt:gpt-4o"


def test_text_cut_in_an_emoji_is_imported(store, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(CLAUDE).replace("A poem", "A poem \\ud83d").replace("Roses", "Roses \\ud83d"))
    assert import_file(store, path) == (1, 1)
    assert store.chat("claude-u1").messages()[1].text == "Roses \ufffd"
    assert store.info("claude-u1").title == "A poem \ufffd"


def test_attachments_of_claude_are_kept(store, tmp_path):
    path = tmp_path / "conversations.json"
    path.write_text(json.dumps(CLAUDE))
    assert import_file(store, path) == (1, 1)
    user, answer = store.chat("claude-u1").messages()
    assert user.parts[0] == ls.Document(data=b"words", media_type="text/plain", filename="a.txt")
    assert (user.text, answer.reasoning, answer.text) == ("Write", "Hm", "Roses")


def with_password() -> bytes:
    """A zip file with the marks of one whose content is encrypted."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr("conversations.json", json.dumps(CHATGPT))
    data = bytearray(made.getvalue())
    data[6] |= 1  # the flags before the file, and in the directory
    data[data.rindex(b"PK\x01\x02") + 8] |= 1
    return bytes(data)


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b'[{"a": 1}]',
        b"PK\x03\x04",
        b"SQLite format 3\0",
        b"\xff\xfe",
        b"[" * 200_000,
        pytest.param(with_password(), id="password"),
    ],
)
def test_other_files_are_refused(store, tmp_path, data):
    path = tmp_path / "file"
    path.write_bytes(data)
    with pytest.raises(ls.InvalidRequest):
        import_file(store, path)


def test_another_database_is_refused(store, database):
    with pytest.raises(ls.InvalidRequest, match="not a database of simonw/llm"):
        import_file(store, database("create table x (y)"))
