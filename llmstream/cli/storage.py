"""What `llmstream chat` stores in files: conversations, the prompt history.

The history is in a folder that only its owner can read; LLMSTREAM_HISTORY=off disables it. Beside it is the
store of conversations, see `stored_chats.py`:

    $XDG_STATE_HOME/llmstream, else ~/.local/state/llmstream; %LOCALAPPDATA%\\llmstream on Windows
    history.jsonl  prompts, one JSON string per line

source: XDG Base Directory Specification 0.8
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from llmstream.chats import Chat, Message
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.files import replace_file

__all__ = [
    "OFF",
    "PromptHistory",
    "Saving",
    "check_free",
    "is_disabled",
    "load_chat",
    "state_file",
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
            f"cannot read {path}: {error.strerror}. To save a new conversation there: --save {path}."
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
    # Lone surrogates are no UTF-8.
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"\n"
