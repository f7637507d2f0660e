"""Where the commands store conversations: the store, the settings that turn it off, a command's chat.

    $XDG_STATE_HOME/llmstream/chats.db, else ~/.local/state/llmstream/chats.db; or $LLMSTREAM_LOG

LLMSTREAM_LOG=off stores no conversations, LLMSTREAM_HISTORY=off neither these nor prompts. With
LLMSTREAM_LOG_CONTENT=off what is stored of them is which models were asked, tokens, cost and times.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llmstream.chats import Chat, Message
from llmstream.cli.errors import error_message
from llmstream.cli.storage import OFF, is_disabled, load_chat, state_file
from llmstream.cli.terminal import print_message
from llmstream.errors import InvalidRequest, LLMStreamError, Unsupported
from llmstream.prices import price as list_price
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.store import Store, TreeNode

__all__ = [
    "branch_end",
    "branch_ends",
    "estimated_price",
    "is_off",
    "last_chat",
    "name_of",
    "note_model",
    "open_chats",
    "store_path",
    "stored_chat",
]

_MODEL: Final = "model"
# Conversations without an answer are rare; so many in a row mean that there is none.
_LOOKED_AT: Final = 50


def is_off() -> bool:
    """Whether the user turned the store off."""
    return is_disabled() or os.environ.get("LLMSTREAM_LOG", "").strip().lower() in OFF


def _has_content() -> bool:
    """Whether texts are stored."""
    return os.environ.get("LLMSTREAM_LOG_CONTENT", "").strip().lower() not in OFF


def store_path() -> Path | None:
    """Returns the path of the store; None if it is off, or its folder cannot be made."""
    if is_off():
        return None
    given = os.environ.get("LLMSTREAM_LOG", "").strip()
    return Path(os.path.expanduser(given)) if given else state_file("chats.db")


def open_chats(*, read_only: bool = False, to_read: bool = False) -> Store:
    """Opens the store.

    to_read: one that is there, for reading only if it cannot be written
    raises: InvalidRequest if it is off, or there is none to read; StoreError
    """
    from llmstream.store import open_store

    path = store_path()
    if path is None:
        raise InvalidRequest(
            "conversations are not kept: LLMSTREAM_LOG or LLMSTREAM_HISTORY is off, or the folder for them "
            "cannot be written."
        )
    if (read_only or to_read) and not path.exists():
        raise InvalidRequest("no conversation is kept yet. `llmstream chat` keeps each one.")
    if to_read:
        try:
            return open_store(f"sqlite:{path}", price=estimated_price, content=_has_content())
        except LLMStreamError:  # of a newer version, or on a disk that is read-only
            return open_store(f"sqlite:{path}", read_only=True, price=estimated_price)
    return open_store(f"sqlite:{path}", read_only=read_only, price=estimated_price, content=_has_content())


def estimated_price(model: str, usage: Usage) -> float | None:
    """Returns the cost by the installed price list; None without one, or without a known price."""
    try:
        return list_price(model, usage)
    except Unsupported:
        return None


def stored_chat(name: str | None, messages: list[Message]) -> Chat:
    """The chat of a command, with these messages: stored under a name, or under a new one.

    One that cannot be stored is no error, because it was not asked for: it is reported, and stays in memory.
    """
    if store_path() is None:
        return Chat(*messages)
    try:
        chat = open_chats().chat(name)
        if messages:
            chat.replace(*messages)
    except LLMStreamError as error:
        print_message(f"this conversation is not kept: {error_message(error)}")
        return Chat(*messages)
    return chat


def last_chat(name: str | None = None, branch: int | None = None) -> tuple[str | None, list[Message], str]:
    """The name, the messages and the model ("" if unknown) of the last conversation, or of that name.

    branch: the number of one, as in `branch_end`; default: the current one
    raises: InvalidRequest if there is none to continue; a name that is not in use begins one
    """
    if store_path() is None:
        raise InvalidRequest("there is no conversation to continue: storing is off (LLMSTREAM_LOG).")
    store = open_chats()
    if name is None:
        # One whose only prompt had no answer begins with nothing.
        name = next(
            (info.id for info in store.conversations(limit=_LOOKED_AT) if info.title and info.messages), None
        )
        if name is None and branch is None:
            return _from_before()
        if name is None:
            raise InvalidRequest("there is no last conversation to continue.")
    chat = store.chat(name)
    if branch is not None:
        return name, chat.messages_of(branch_end(store, name, branch)), store.notes(name).get(_MODEL, "")
    return name, chat.messages(), store.notes(name).get(_MODEL, "") if len(chat) else ""


def branch_ends(nodes: Sequence[TreeNode]) -> list[int]:
    """The last messages of all branches of a tree, in the order in which it is drawn."""
    below: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    waiting, ends = below.get(None, [])[::-1], list[int]()
    while waiting:
        node = waiting.pop()
        children = below.get(node.id, [])
        waiting += children[::-1]
        if not children:
            ends.append(node.id)
    return ends


def branch_end(store: Store, name: str, number: int) -> int:
    """The last message of a branch, by its number in `llmstream logs show --tree`.

    raises: InvalidRequest if there is none of that number; StoreError if there is no such conversation
    """
    ends = branch_ends(store.tree(name))
    if not 1 <= number <= len(ends):
        has = f"branches 1 to {len(ends)}" if len(ends) > 1 else "one branch"
        raise InvalidRequest(
            f"the conversation {name!r} has {has}, not {number}. See: llmstream logs show {name} --tree"
        )
    return ends[number - 1]


def _from_before() -> tuple[None, list[Message], str]:
    """The last conversation of a version that stored one in a file."""
    path = state_file("last.json")
    if path is None or not path.exists():
        raise InvalidRequest(
            "there is no last conversation to continue. Omit -c, or name a file: --continue FILE."
        )
    messages, model = load_chat(path)
    return None, messages, model


def name_of(chat: Chat) -> str | None:
    """The name of a chat in the store; None if it is in memory, or nothing of it is stored."""
    from llmstream.store import StoredChat

    if not isinstance(chat, StoredChat) or not chat.store.content:
        return None
    return chat.name if chat.failure is None and len(chat) else None


def note_model(chat: Chat, model: str) -> None:
    """Notes with which model a conversation goes on; "" for none."""
    from llmstream.store import StoredChat

    if isinstance(chat, StoredChat):
        chat.store.note(chat.name, **{_MODEL: model})
