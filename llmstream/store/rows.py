"""Messages as rows: their ids, their files, and the words by which they are found.

The id of a message is a keyed hash of its saved form and of its parent's id. So a message that is added again
is not stored again, and a hash reveals nothing about the words without the tree's key.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from llmstream.chats.content import Document, Part, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.chats.saved import message_from_json, message_to_json
from llmstream.store.database import Connection, Words

__all__ = [
    "Link",
    "add_message",
    "delete_messages",
    "path_to",
    "read_message",
    "spaced",
    "texts_of",
    "words_of",
]

# Larger files are stored once, by their hash, beside the messages.
_INLINE_BYTES: Final = 16_384

_PATH: Final = """
with recursive path (n, parent, id, files, body) as (
    select n, parent, id, files, body from messages where n = ?
    union all select m.n, m.parent, m.id, m.files, m.body from messages m join path on m.n = path.parent
) select n, id, files, body from path
"""


class Link(NamedTuple):
    """A message's place: row, id, and how many messages are before it."""

    n: int
    id: bytes
    depth: int


def add_message(
    db: Connection,
    tree: int,
    key: bytes,
    conversation: int,
    parent: Link | None,
    message: Message,
    at: float,
) -> Link:
    """Adds a message below its parent, unless it is there."""
    full = message_to_json(message)
    above = b"" if parent is None else parent.id
    # 16 bytes: a collision within one tree is out of reach, and each message stores its id in an index.
    message_id = hashlib.blake2b(above + full, digest_size=16, key=key).digest()
    depth = 0 if parent is None else parent.depth + 1
    row = db.execute("select n from messages where tree = ? and id = ?", (tree, message_id)).fetchone()
    if row is not None:
        return Link(row[0], message_id, depth)
    short, files = _detached(message)
    body = message_to_json(short) if files else full
    added = db.execute(
        "insert into messages (tree, id, parent, depth, conversation, role, sender, created, files, body) "
        "values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (tree, id) do nothing returning n",
        (
            tree,
            message_id,
            None if parent is None else parent.n,
            depth,
            conversation,
            str(message.role),
            message.sender,
            at,
            len(files),
            body,
        ),
    ).fetchone()
    if added is None:  # another process has added it meanwhile, to a fork
        return add_message(db, tree, key, conversation, parent, message, at)
    (n,) = added
    for place, data in files:
        # All conversations share a file by this hash, so that a collision would show another's.
        digest = hashlib.blake2b(data, digest_size=32).digest()
        db.execute("insert into files values (?, ?, ?) on conflict do nothing", (digest, len(data), data))
        db.execute("insert into message_files values (?, ?, ?)", (n, place, digest))
    found = words_of(message)
    if any(found):
        db.add_words(n, found)
    return Link(n, message_id, depth)


def path_to(db: Connection, head: int | None) -> tuple[list[Link], list[Message]]:
    """The messages from the first one to `head`."""
    if head is None:
        return [], []
    rows = db.execute(_PATH, (head,)).fetchall()
    rows.reverse()
    links = [Link(n, message_id, depth) for depth, (n, message_id, _, _) in enumerate(rows)]
    return links, [read_message(db, n, files, body) for n, _, files, body in rows]


def read_message(db: Connection, n: int, files: int, body: bytes) -> Message:
    """The message of a row, with its files."""
    message = message_from_json(body)
    if files:
        rows = db.execute(
            "select place, bytes from message_files join files using (hash) where message = ?", (n,)
        ).fetchall()
        message.parts = _attached(message.parts, dict(rows))
    return message


def delete_messages(db: Connection, rows: Iterable[int]) -> None:
    """Deletes messages with their words, and the files that no other message has."""
    for n in rows:
        files, body = db.execute("select files, body from messages where n = ?", (n,)).fetchone()
        # As they were added: a contentless index removes a message only if given its own words.
        found = words_of(message_from_json(body))
        if any(found):
            db.remove_words(n, found)
        if files:
            digests = db.execute("select hash from message_files where message = ?", (n,)).fetchall()
            db.execute("delete from message_files where message = ?", (n,))
            db.executemany(
                "delete from files where hash = ? "
                # Another message may have the file too.
                "and not exists (select 1 from message_files where message_files.hash = files.hash)",
                digests,
            )
        db.execute("delete from messages where n = ?", (n,))


# Files: those of a message, and those of a tool's result in it, by place ("2", "2.0").


def _detached(message: Message) -> tuple[Message, list[tuple[str, bytes]]]:
    files: list[tuple[str, bytes]] = []
    parts = tuple([_without_data(part, str(at), files) for at, part in enumerate(message.parts)])
    return (msgspec.structs.replace(message, parts=parts), files) if files else (message, files)


def _without_data(part: Any, place: str, files: list[tuple[str, bytes]]) -> Any:
    if isinstance(part, ToolResult) and part.parts:
        inner = tuple([_without_data(one, f"{place}.{at}", files) for at, one in enumerate(part.parts)])
        return msgspec.structs.replace(part, parts=inner)
    data = getattr(part, "data", None)
    if not isinstance(data, bytes) or len(data) <= _INLINE_BYTES:
        return part
    files.append((place, data))
    return msgspec.structs.replace(part, data=b"")


def _attached(parts: Sequence[Part], files: dict[str, bytes]) -> tuple[Part, ...]:
    return tuple([_with_data(part, str(at), files) for at, part in enumerate(parts)])


def _with_data(part: Any, place: str, files: dict[str, bytes]) -> Any:
    if isinstance(part, ToolResult) and part.parts:
        inner = tuple([_with_data(one, f"{place}.{at}", files) for at, one in enumerate(part.parts)])
        return msgspec.structs.replace(part, parts=inner)
    return msgspec.structs.replace(part, data=files[place]) if place in files else part


# Words. `delete_messages` removes the same words from the index, so a change here needs a migration.

# Scripts without spaces between words: each character is a word, and a search looks for them in a row.
# Thai and Lao, Burmese, Khmer, kana, Han and Hangul.
_SPACELESS: Final = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
    "\uf900-\ufaff\U00020000-\U0003ffff])"
)


def spaced(text: str) -> str:
    """The text with spaces around characters of scripts that have none between words."""
    return text if text.isascii() else _SPACELESS.sub(r" \1 ", text)


def words_of(message: Message) -> Words:
    """The indexed words of a message; none for system prompts."""
    # The same long prompt is in every conversation, and would match each of its words.
    if message.role == Role.SYSTEM:
        return Words("", "", "")
    words, reasoning, tools = list[str](), list[str](), list[str]()
    for part in message.parts:
        match part:
            case Text(text):
                words.append(text)
            case Reasoning(text):
                reasoning.append(text)
            case ToolCall():
                tools += [part.name, part.arguments]
            case ToolResult():
                tools += [part.name, part.content]
            case Document():
                words.append(part.filename)
            case _:
                pass
    return Words(*[spaced(" ".join(filter(None, texts))) for texts in (words, reasoning, tools)])


def texts_of(message: Message) -> Iterator[str]:
    """The texts in which a found word stands, for excerpts."""
    for part in message.parts:
        match part:
            case Text(text) | Reasoning(text):
                yield text
            case ToolCall():
                yield f"{part.name} {part.arguments}"
            case ToolResult():
                yield part.content
            case Document():
                yield part.filename
            case _:
                pass
