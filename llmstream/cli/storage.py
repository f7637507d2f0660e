"""What the commands store between two runs: the prompt history, conversations.

All of it is in a folder that only its owner can read:

    $XDG_STATE_HOME/llmstream, else ~/.local/state/llmstream; %LOCALAPPDATA%\\llmstream on Windows
    history.jsonl  prompts, one JSON string per line
    chats.db       the store of conversations; or $LLMSTREAM_LOG

LLMSTREAM_LOG=off stores no conversations, LLMSTREAM_HISTORY=off neither these nor prompts. With
LLMSTREAM_LOG_CONTENT=off only models, tokens, cost and times of conversations are stored.
source: XDG Base Directory Specification 0.8
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from llmstream.chats import Chat, Message
from llmstream.cli.errors import error_message
from llmstream.cli.terminal import print_message
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError
from llmstream.files import replace_file
from llmstream.prices import estimated_price

if TYPE_CHECKING:
    from llmstream.store import Store, TreeNode

__all__ = [
    "OFF",
    "PromptHistory",
    "Saving",
    "branch_end",
    "branch_ends",
    "check_free",
    "is_disabled",
    "is_off",
    "last_chat",
    "load_chat",
    "name_of",
    "note_model",
    "open_chats",
    "state_file",
    "store_path",
    "stored_chat",
]

_MODEL: Final = "llmstream.model"


@dataclass
class Saving:
    """Writes a conversation to a file after each turn.

    path:  of the file, or None
    model: model to store in it, so that it continues with the same; "" to store none
    """

    path: str | None = None
    model: str = ""

    def save(self, chat: Chat) -> None:
        """Writes the conversation.

        raises: InvalidRequest if the file at `path` cannot be written
        """
        if self.path is not None:
            if self.model and len(chat):
                *before, last = chat.messages()
                chat = Chat(*before, last.with_meta(_MODEL, self.model))
            try:
                chat.save(self.path)
            except OSError as error:
                raise InvalidRequest(f"cannot write {self.path}: {error.strerror or error}") from None


def check_free(path: str, *, force: bool, remedy: str = "") -> None:
    """Checks that a file can be written, before any request is sent.

    remedy: advice for a file that exists, in place of that for `llmstream chat`
    raises: InvalidRequest if it cannot be written, or is not empty and `force` is not given
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidRequest(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise InvalidRequest(f"cannot write {path}: it is a folder, or its folder is not writable")
    if not force and os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path)):
        remedy = remedy or f"To continue it: --continue {path}. To overwrite it: add --force."
        raise InvalidRequest(f"{path} already exists. {remedy}")


def load_chat(path: str | Path) -> tuple[list[Message], str]:
    """Loads a saved conversation and the name of its model ("" if none is stored).

    raises: InvalidRequest if the file cannot be read or holds no conversation
    """
    try:
        messages = Chat.load(path).messages()
    except FileNotFoundError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}. --continue takes the file of "
            f"a conversation; -c continues the last one. To save a new one there: --save {path}."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise InvalidRequest(error.message) from None
    metadata = (message.metadata or {} for message in reversed(messages))
    model = next((found[_MODEL] for found in metadata if isinstance(found.get(_MODEL), str)), "")
    return messages, model


OFF: Final = ("off", "0", "no", "false")
# Past these limits the older half is dropped: the file is read completely at the start of a conversation.
_MAX_ENTRIES: Final = 2000
_MAX_BYTES: Final = 4_000_000


def state_file(name: str) -> Path | None:
    """Returns the path of a file in the folder, creating the folder; None if storing is disabled."""
    if is_disabled():
        return None
    folder = _base() / "llmstream"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    # A read-only home must not prevent an answer.
    except OSError:
        return None
    return folder / name


def is_disabled() -> bool:
    """Whether the user disabled storing."""
    return os.environ.get("LLMSTREAM_HISTORY", "").strip().lower() in OFF


def _base() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    # The specification demands that relative paths are ignored.
    if os.path.isabs(given):
        return Path(given)
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path(os.path.expanduser("~")) / ".local" / "state"


class PromptHistory:
    """Prompts, oldest first; a prompt of several lines is one entry.

    path: file to append to; None for a history of this process only
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.entries = self._load()

    def add(self, text: str) -> None:
        """Adds an entry, unless it repeats the last one."""
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        if self._path is None:
            return
        # A full disk must not end a conversation.
        with suppress(OSError):
            # Opened for each entry: two terminals append to one file, and neither loses an entry.
            descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
            with os.fdopen(descriptor, "ab") as file:
                file.write(_line(text))

    def _load(self) -> list[str]:
        if self._path is None:
            return []
        try:
            data = self._path.read_bytes()
        except OSError:
            return []
        entries = []
        for line in data.splitlines():
            # A crash may have left an incomplete line.
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):
                entries.append(msgspec.json.decode(line, type=str))
        if len(entries) > _MAX_ENTRIES or len(data) > _MAX_BYTES:
            entries = entries[len(entries) // 2 :]
            with suppress(OSError):
                replace_file(self._path, b"".join(map(_line, entries)))
        return entries


def _line(text: str) -> bytes:
    # UTF-8 cannot encode lone surrogates.
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"\n"


# Conversations: the store, the settings that turn it off, a command's chat.


_MODEL_NAME: Final = "model"
# Conversations without an answer are rare; this many in a row mean that there is none.
_MAX_CHECKED: Final = 50


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

    to_read: an existing one, read-only if it cannot be written
    raises: InvalidRequest if it is off, or there is none to read; StoreError
    """
    from llmstream.store import open_store

    path = store_path()
    if path is None:
        raise InvalidRequest(
            "conversations are not stored: LLMSTREAM_LOG or LLMSTREAM_HISTORY is off, or the folder for them "
            "cannot be written."
        )
    if (read_only or to_read) and not path.exists():
        raise InvalidRequest("no conversation is stored yet. `llmstream chat` stores each one.")
    if to_read:
        try:
            return open_store(f"sqlite:{path}", price=estimated_price, content=_has_content())
        except LLMStreamError:  # of a newer version, or on a disk that is read-only
            return open_store(f"sqlite:{path}", read_only=True, price=estimated_price)
    return open_store(f"sqlite:{path}", read_only=read_only, price=estimated_price, content=_has_content())


def stored_chat(name: str | None, messages: list[Message]) -> Chat:
    """The chat of a command, with these messages: stored under a name, or under a new one.

    A failure to store it is not an error, because storing was not requested: it is reported, and the chat
    stays in memory.
    """
    if store_path() is None:
        return Chat(*messages)
    try:
        chat = open_chats().chat(name)
        if messages:
            chat.replace(*messages)
    except LLMStreamError as error:
        print_message(f"this conversation is not stored: {error_message(error)}")
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
        # A conversation whose only prompt had no answer is empty.
        name = next(
            (info.id for info in store.conversations(limit=_MAX_CHECKED) if info.title and info.messages),
            None,
        )
        if name is None and branch is None:
            return _from_before()
        if name is None:
            raise InvalidRequest("there is no last conversation to continue.")
    chat = store.chat(name)
    if branch is not None:
        return name, chat.messages_of(branch_end(store, name, branch)), store.notes(name).get(_MODEL_NAME, "")
    return name, chat.messages(), store.notes(name).get(_MODEL_NAME, "") if len(chat) else ""


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
    """The name of a chat in the store; None if it is in memory, or not stored yet."""
    from llmstream.store import StoredChat

    if not isinstance(chat, StoredChat) or not chat.store.content:
        return None
    return chat.name if chat.failure is None and len(chat) else None


def note_model(chat: Chat, model: str) -> None:
    """Records the model with which a conversation continues; "" for none."""
    from llmstream.store import StoredChat

    if isinstance(chat, StoredChat):
        chat.store.note(chat.name, **{_MODEL_NAME: model})
