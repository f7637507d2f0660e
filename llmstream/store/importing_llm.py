"""Conversations in a database of simonw/llm, of all three generations of its tables.

    log                              before 0.4: a row for each prompt, `chat_id` joins them
    responses, conversations         0.4 to 0.31, with attachments, tools and fragments in tables of their own
    threads, turns, messages, parts  from 0.32 on: a tree of messages by hash

A database that was migrated has rows of several; each conversation is read once.

Source: https://github.com/simonw/llm, `migrations.py` of 0.36 (seen 2026-11)
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from llmstream.chats.content import Audio, Document, Image, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role, as_role
from llmstream.errors import InvalidRequest
from llmstream.store.importing import Imported, Node, seconds
from llmstream.usage import Usage

__all__ = ["read_llm"]

# Its models come from plugins, whose names are not those of our providers.
_PROVIDER: Final = "llm"


def read_llm(path: Path) -> Iterator[Imported]:
    """The conversations of a database.

    raises: InvalidRequest if it is not one of simonw/llm
    """
    try:
        yield from _conversations(path)
    except sqlite3.Error as error:
        raise InvalidRequest(f"cannot read {path}: {error}. Copy it again, or repair it.") from None


def _conversations(path: Path) -> Iterator[Imported]:
    # Read only: the database belongs to another program, which may be running.
    with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as db:
        db.row_factory = sqlite3.Row
        tables = {name for (name,) in db.execute("select name from sqlite_master where type = 'table'")}
        if not tables & {"log", "responses", "threads"}:
            raise InvalidRequest(f"{path} is not a database of simonw/llm")
        if "log" in tables:
            yield from _first(db)
        if {"responses", "conversations"} <= tables:
            yield from _second(db, tables)
        if {"threads", "turns", "messages", "parts"} <= tables:
            yield from _third(db)


# The first tables.


def _first(db: sqlite3.Connection) -> Iterator[Imported]:
    columns = {row["name"] for row in db.execute("pragma table_info(log)")}
    # The oldest form has a timestamp, and no number but that of the row.
    time, number = ("timestamp", "rowid") if "timestamp" in columns else ("datetime_utc", "id")
    chats: dict[str, list[sqlite3.Row]] = {}
    query = f"select rowid as n, *, {time} as at from log order by {number}"  # noqa: S608  # names of columns
    for row in db.execute(query):
        chat = row["chat_id"] if "chat_id" in columns else None
        # Rows without a chat are conversations of one exchange.
        chats.setdefault(str(chat or row["n"]), []).append(row)
    for chat, rows in chats.items():
        nodes: list[Node] = []
        for row in rows:
            _add_exchange(nodes, row, [Text(row["prompt"] or "")], [Text(row["response"] or "")], row["at"])
        yield _imported(f"log-{chat}", "", nodes)


# The second tables: a response has its prompt, and the results of the calls of the response before it.


def _second(db: sqlite3.Connection, tables: set[str]) -> Iterator[Imported]:
    names = {row["id"]: row["name"] for row in db.execute("select id, name from conversations")}
    begun = db.execute(
        # A response may be outside of any conversation.
        "select distinct coalesce(conversation_id, id) as c from responses order by datetime_utc, id"
    ).fetchall()
    for (conversation,) in begun:
        nodes: list[Node] = []
        for row in db.execute(
            "select * from responses where coalesce(conversation_id, id) = ? order by datetime_utc, id",
            (conversation,),
        ).fetchall():
            _add_response(db, tables, nodes, row)
        yield _imported(str(conversation), names.get(conversation) or "", nodes)


def _add_response(db: sqlite3.Connection, tables: set[str], nodes: list[Node], row: sqlite3.Row) -> None:
    asked: list[Part] = []
    if "prompt_attachments" in tables:
        asked += [
            _file(found)
            for found in db.execute(
                "select a.* from prompt_attachments p join attachments a on a.id = p.attachment_id "
                'where p.response_id = ? order by p."order"',
                (row["id"],),
            )
        ]
    if "prompt_fragments" in tables:
        asked += [
            Text(f"{found['content']}\n")
            for found in db.execute(
                "select f.content from prompt_fragments p join fragments f on f.id = p.fragment_id "
                'where p.response_id = ? order by p."order"',
                (row["id"],),
            )
        ]
    if row["prompt"]:
        asked.append(Text(row["prompt"]))
    answer: list[Part] = []
    if "reasoning" in row.keys() and row["reasoning"]:  # noqa: SIM118  # a Row is searched by its values
        answer.append(Reasoning(row["reasoning"]))
    if row["response"]:
        answer.append(Text(row["response"]))
    results: list[ToolResult] = []
    if "tool_calls" in tables:
        answer += [
            ToolCall(str(found["tool_call_id"] or found["id"]), found["name"] or "", found["arguments"] or "")
            for found in db.execute(
                "select * from tool_calls where response_id = ? order by id", (row["id"],)
            )
        ]
        results = [
            ToolResult(
                str(found["tool_call_id"] or found["id"]), found["output"] or "", name=found["name"] or ""
            )
            for found in db.execute(
                "select * from tool_results where response_id = ? order by id", (row["id"],)
            )
        ]
    if results:
        # Before the prompt: results answer the calls of the response before.
        nodes.append(Node(len(nodes) - 1, Message.tool(results), seconds(row["datetime_utc"])))
    _add_exchange(nodes, row, asked, answer, row["datetime_utc"])


def _add_exchange(
    nodes: list[Node], row: sqlite3.Row, asked: list[Part], answer: list[Part], time: Any
) -> None:
    """A prompt and its answer; the system prompt once, at the beginning."""
    at = seconds(time)
    # Each of its rows repeats it.
    if not nodes and row["system"]:
        nodes.append(Node(-1, Message.system(row["system"]), at))
    if asked:
        nodes.append(Node(len(nodes) - 1, Message("", Role.USER, tuple(asked)), at))
    keys = row.keys()
    given = row["input_tokens"] if "input_tokens" in keys else None
    made = row["output_tokens"] if "output_tokens" in keys else None
    total_s = row["duration_ms"] / 1000 if "duration_ms" in keys and row["duration_ms"] else None
    message = Message("", Role.ASSISTANT, tuple(answer))
    model = f"{_PROVIDER}:{row['model'] or 'unknown'}"
    nodes.append(Node(len(nodes) - 1, message, at, model, Usage(given, made), total_s))


# The third tables: a tree, as in our store; a thread is a name for a tip.


def _third(db: sqlite3.Connection) -> Iterator[Imported]:
    turns = {row["tip_message_hash"]: row for row in db.execute("select * from turns order by id")}
    for thread in db.execute("select * from threads order by id").fetchall():
        nodes: list[Node] = []
        at = seconds(thread["datetime_utc"])
        for row in _path(db, thread["tip_message_hash"]):
            message = _message(db, row)
            turn = turns.get(row["hash"])
            # Of a thread's messages those that a model wrote have a turn.
            if turn is None:
                nodes.append(Node(len(nodes) - 1, message, at))
                continue
            at = seconds(turn["datetime_utc"])
            usage = Usage(turn["input_tokens"], turn["output_tokens"])
            total_s = turn["duration_ms"] / 1000 if turn["duration_ms"] else None
            model = f"{_PROVIDER}:{turn['resolved_model'] or turn['model']}"
            nodes.append(Node(len(nodes) - 1, message, at, model, usage, total_s))
        yield _imported(str(thread["id"]), thread["name"] or "", nodes)


def _path(db: sqlite3.Connection, tip: str | None) -> list[sqlite3.Row]:
    found: list[sqlite3.Row] = []
    while tip is not None:
        row = db.execute("select * from messages where hash = ?", (tip,)).fetchone()
        if row is None:
            # A part of the path was deleted; read the rest.
            break
        found.append(row)
        tip = row["parent_hash"]
    return found[::-1]


def _message(db: sqlite3.Connection, row: sqlite3.Row) -> Message:
    parts: list[Part] = []
    query = "select * from parts where message_hash = ? order by position"
    for part in db.execute(query, (row["hash"],)).fetchall():
        parts += _parts(db, part)
    return Message("", as_role(row["role"]), tuple(parts))


def _parts(db: sqlite3.Connection, row: sqlite3.Row) -> Iterator[Part]:
    payload = json.loads(row["payload"] or "{}")
    match row["type"]:
        case "reasoning":
            yield Reasoning(row["text"] or "")
        case "tool_call":
            arguments = json.dumps(payload.get("arguments") or {}, ensure_ascii=False)
            yield ToolCall(
                str(payload.get("tool_call_id") or row["id"]), str(payload.get("name") or ""), arguments
            )
        case "tool_result":
            output = payload.get("output")
            content = output if isinstance(output, str) else json.dumps(output, ensure_ascii=False)
            call_id = str(payload.get("tool_call_id") or row["id"])
            failed = bool(payload.get("exception"))
            yield ToolResult(call_id, content, failed, str(payload.get("name") or ""))
        # Such as text and attachments.
        case _:
            for found in db.execute(
                "select a.* from part_attachments p join attachments a on a.id = p.attachment_id "
                'where p.part_id = ? order by p."order"',
                (row["id"],),
            ):
                yield _file(found)
            if row["text"]:
                yield Text(row["text"])


def _imported(name: str, title: str, nodes: list[Node]) -> Imported:
    return Imported(f"llm-{name}"[:200], title, nodes, len(nodes) - 1)


def _file(row: sqlite3.Row) -> Part:
    media_type, url, data = row["type"] or "", row["url"] or "", row["content"] or b""
    # Attachments may be files of this machine; their content is not copied.
    if not url and not data and row["path"]:
        url = Path(row["path"]).absolute().as_uri()
    match media_type.partition("/")[0]:
        case "image":
            return Image(url, data, media_type)
        case "audio":
            return Audio(url, data, media_type)
    return Document(url, data, media_type, Path(row["path"] or "").name)
