"""Conversations of other programs: exports of ChatGPT and Claude. Those of simonw/llm are in
`importing_llm.py`.

Each becomes a conversation whose name begins with its source. One that is already in the store is not
imported again, so an import may be repeated.

Sources: exports of ChatGPT (seen 2026-03) and of Claude (seen 2026-03): `conversations.json` in a zip file.
"""

from __future__ import annotations

import datetime
import json
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from llmstream.chats.content import Document, Part, Reasoning, Text
from llmstream.chats.message import Message, Role
from llmstream.dialects.json_text import encodable_value
from llmstream.errors import InvalidRequest
from llmstream.store import conversations
from llmstream.store.database import Connection
from llmstream.store.rows import Link, add_message
from llmstream.store.store import Store
from llmstream.usage import Usage

__all__ = ["Imported", "Node", "add", "import_file", "read_file", "seconds"]

_JSON: Final = "conversations.json"
# A zip file of some kilobytes can unpack to terabytes.
_MAX_BYTES: Final = 4_000_000_000


class Node(msgspec.Struct):
    """A message of another program.

    parent: index of the one before it, -1 for none
    model:  "provider:model" that wrote it, "" for a person
    at:     seconds since 1970
    """

    parent: int
    message: Message
    at: float
    model: str = ""
    usage: Usage = Usage()
    total_s: float | None = None


class Imported(msgspec.Struct):
    """A conversation of another program; `current` is the index of the node at its end."""

    name: str
    title: str
    nodes: list[Node]
    current: int


def import_file(store: Store, path: Path) -> tuple[int, int]:
    """Imports a file of any supported form; returns how many conversations were added, and how many it has.

    raises: InvalidRequest if it is no known export; StoreError; what came before it is in the store
    """
    added = found = 0
    for conversation in read_file(path):
        found += 1
        added += add(store, conversation)
    return added, found


def read_file(path: Path) -> Iterator[Imported]:
    """The conversations in a file.

    raises: InvalidRequest
    """
    try:
        with path.open("rb") as file:
            begin = file.read(16)
        # Detected by first bytes, because users rename these files.
        if begin == b"SQLite format 3\0":
            from llmstream.store.importing_llm import read_llm

            return read_llm(path)
        data = _zipped(path) if begin.startswith(b"PK") else path.read_bytes()
        given = json.loads(data)
    # A RuntimeError is a zip file with a password, or JSON that is nested past the stack.
    except (OSError, EOFError, ValueError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InvalidRequest(
            f"cannot read {path}: {getattr(error, 'strerror', None) or error}. {_KNOWN}"
        ) from None
    return _read(given, path)


_KNOWN: Final = (
    "Known are the database of simonw/llm (`llm logs path`), and the exports of ChatGPT and Claude as zip "
    "files or their conversations.json."
)


def _zipped(path: Path) -> bytes:
    with zipfile.ZipFile(path) as archive:
        names = [name for name in archive.namelist() if name.rpartition("/")[2] == _JSON]
        if not names:
            raise ValueError(f"there is no {_JSON} in it")
        # Checked before unpacking.
        if archive.getinfo(names[0]).file_size > _MAX_BYTES:
            raise ValueError(f"its {_JSON} is too large")
        return archive.read(names[0])


def _read(given: Any, path: Path) -> Iterator[Imported]:
    # Claude has a list; a file of one conversation is an object.
    for one in given if isinstance(given, list) else [given]:
        # A text that its program cut within an emoji has half of a surrogate pair, which no store accepts.
        conversation = encodable_value(one)
        if isinstance(conversation, Mapping) and isinstance(conversation.get("mapping"), Mapping):
            yield _chatgpt(conversation)
        elif isinstance(conversation, Mapping) and isinstance(conversation.get("chat_messages"), list):
            yield _claude(conversation)
        else:
            raise InvalidRequest(f"{path} is not a known export. {_KNOWN}")


def add(store: Store, given: Imported) -> bool:
    """Adds a conversation with all its branches, unless one of its name is there or it is empty."""
    if not store.content:
        raise InvalidRequest("the store has no texts (content=False); import into another one")
    if not given.nodes:
        return False
    with store.database.writing() as db:
        # In the transaction, so that two concurrent imports do not both add it.
        if conversations.find(db, store.owner, given.name) is not None:
            return False
        row = conversations.make(db, store.owner, given.name, min(node.at for node in given.nodes))
        links: list[Link] = []
        for at, node in enumerate(given.nodes):
            above = links[node.parent] if node.parent >= 0 else None
            links.append(add_message(db, row.tree, row.key, row.n, above, node.message, node.at))
            if node.model:
                _add_turn(db, store, row.n, given.name, at, node, above, links[-1])
        title = given.title or conversations.title_of([node.message for node in given.nodes])
        db.execute(
            "update conversations set head = ?, title = ?, updated = ? where n = ?",
            (links[given.current].n, title, max(node.at for node in given.nodes), row.n),
        )
    return True


def _add_turn(
    db: Connection,
    store: Store,
    conversation: int,
    run: str,
    step: int,
    node: Node,
    after: Link | None,
    head: Link,
) -> None:
    provider, _, model = node.model.partition(":")
    usage = node.usage
    db.execute(
        "insert into turns (conversation, after, head, run, step, provider, model, state, finish, "
        "input_tokens, output_tokens, cost, started, total_s, warnings, error, response, log, writer) "
        "values (?, ?, ?, ?, ?, ?, ?, 'done', '', ?, ?, ?, ?, ?, '[]', '', '', '', '')",
        (
            conversation,
            None if after is None else after.n,
            head.n,
            run,
            step,
            provider,
            model,
            usage.input_tokens,
            usage.output_tokens,
            store.cost(node.model, usage),
            node.at,
            node.total_s,
        ),
    )


# ChatGPT: a tree of nodes by id; the path to `current_node` is what the page shows.


def _chatgpt(given: Mapping[str, Any]) -> Imported:
    mapping: Mapping[str, Any] = given["mapping"]
    begun = seconds(given.get("create_time"))
    nodes: list[Node] = []
    places: dict[str, int] = {}  # for a node without a message: its parent's
    for key in _parents_first(mapping):
        node = mapping[key]
        above = places.get(str(node.get("parent")), -1)
        message = _chatgpt_message(node.get("message"))
        if message is None:
            places[key] = above
            continue
        places[key] = len(nodes)
        at = seconds(node["message"].get("create_time")) or begun
        nodes.append(Node(above, message, at, _chatgpt_model(node["message"])))
    current = places.get(str(given.get("current_node")), len(nodes) - 1)
    name = str(given.get("conversation_id") or given.get("id") or begun)
    return Imported(f"chatgpt-{name}"[:200], str(given.get("title") or ""), nodes, current)


def _parents_first(mapping: Mapping[str, Any]) -> Iterator[str]:
    children: dict[str, list[str]] = {}
    roots: list[str] = []
    for key, node in mapping.items():
        parent = str(node.get("parent"))
        (children.setdefault(parent, []) if parent in mapping and parent != key else roots).append(key)
    # A stack and not recursion: a conversation may have thousands of nodes in a row.
    waiting = roots[::-1]
    while waiting:
        key = waiting.pop()
        yield key
        waiting += children.get(key, [])[::-1]


def _chatgpt_message(given: Any) -> Message | None:
    """The message of a node; None if it has no visible content, as usual for system messages."""
    if not isinstance(given, Mapping):
        return None
    role = str((given.get("author") or {}).get("role"))
    content = given.get("content") or {}
    parts: list[Part] = []
    for part in content.get("parts") or [content.get("text") or content.get("content") or ""]:
        if isinstance(part, str) and part.strip():
            parts.append(Reasoning(part) if content.get("content_type") == "thoughts" else Text(part))
        elif isinstance(part, Mapping) and part.get("asset_pointer"):
            parts.append(
                Document(url=str(part["asset_pointer"]), filename=str(part.get("content_type") or ""))
            )
    parts += [
        Reasoning(str(t.get("content") or ""))
        for t in content.get("thoughts") or []
        if isinstance(t, Mapping)
    ]
    hidden = (given.get("metadata") or {}).get("is_visually_hidden_from_conversation")
    if not parts or hidden or role not in (Role.USER, Role.ASSISTANT, Role.SYSTEM, Role.TOOL):
        return None
    if role == Role.TOOL:  # its own tools: their output is text of the answer's turn
        return Message(str((given.get("author") or {}).get("name") or ""), Role.ASSISTANT, tuple(parts))
    return Message("", Role(role), tuple(parts))


def _chatgpt_model(given: Mapping[str, Any]) -> str:
    model = (given.get("metadata") or {}).get("model_slug")
    author = (given.get("author") or {}).get("role")
    return f"chatgpt:{model}" if model and author == Role.ASSISTANT else ""


# Claude: a list of messages.


def _claude(given: Mapping[str, Any]) -> Imported:
    nodes: list[Node] = []
    for message in given["chat_messages"]:
        person = message.get("sender") == "human"
        parts = list(_claude_parts(message))
        if parts:
            role = Role.USER if person else Role.ASSISTANT
            model = "" if person else f"claude.ai:{given.get('model') or 'claude'}"
            at = seconds(message.get("created_at")) or seconds(given.get("created_at"))
            nodes.append(Node(len(nodes) - 1, Message("", role, tuple(parts)), at, model))
    name = f"claude-{given.get('uuid') or given.get('created_at')}"[:200]
    return Imported(name, str(given.get("name") or ""), nodes, len(nodes) - 1)


def _claude_parts(message: Mapping[str, Any]) -> Iterator[Part]:
    for file in _mappings(message.get("attachments")):
        text = str(file.get("extracted_content") or "")
        name = str(file.get("file_name") or "")
        yield Document(data=text.encode(), media_type="text/plain", filename=name)
    for file in _mappings(message.get("files")):
        yield Document(url=f"claude:{file.get('file_name')}", filename=str(file.get("file_name") or ""))
    content = list(_mappings(message.get("content")))
    for part in content:
        written = part.get("text") if part.get("type") == "text" else part.get("thinking")
        if isinstance(written, str) and written.strip():
            yield Text(written) if part.get("type") == "text" else Reasoning(written)
    if not content and str(message.get("text") or "").strip():
        yield Text(str(message["text"]))


def _mappings(given: Any) -> Iterable[Mapping[str, Any]]:
    return [one for one in given or () if isinstance(one, Mapping)] if isinstance(given, list) else []


def seconds(given: Any) -> float:
    """Seconds since 1970 of a number or of a time in ISO 8601; 0 for neither."""
    if isinstance(given, int | float):
        return float(given)
    try:
        found = datetime.datetime.fromisoformat(str(given))
    except ValueError:
        return 0.0
    return (found if found.tzinfo else found.replace(tzinfo=datetime.UTC)).timestamp()
