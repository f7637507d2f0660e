"""Where a conversation is written: its own file, and the last one of all. Nothing is overwritten unasked."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import msgspec

from llmstream.chats import Chat, Message
from llmstream.chats.content import write_whole
from llmstream.errors import DecodeError, InvalidRequest, LLMStreamError

__all__ = ["PromptHistory", "Saving", "check_free", "last_conversation", "load_chat", "state_file"]

_MODEL: Final = "llmstream.model"


@dataclass
class Saving:
    """Writes a conversation after each turn.

    path:  its own file; None where it has none
    model: whom it is with, noted in it, so that it goes on with the same; "" where that is not to be noted
    """

    path: str | None = None
    model: str = ""

    def save(self, chat: Chat) -> None:
        """Writes the conversation.

        raises: InvalidRequest where its own file cannot be written
        """
        if self.model and len(chat):
            *before, last = chat.messages()
            chat = Chat(*before, last.with_meta(_MODEL, self.model))
        last_path = last_conversation()
        if last_path is not None:
            try:
                chat.save(last_path)
            except (OSError, LLMStreamError):  # nobody asked for it
                pass
        if self.path is not None:
            try:
                chat.save(self.path)
            except OSError as error:
                raise InvalidRequest(f"cannot write {self.path}: {error.strerror or error}") from None


def check_free(path: str, *, force: bool, how: str = "") -> None:
    """Checks a file that is to be written, before anyone is asked anything.

    how:    another remedy where the file is there already
    raises: InvalidRequest where it cannot be written, or holds something and `force` is not given
    """
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder):
        raise InvalidRequest(f"cannot write {path}: there is no folder {folder}")
    if os.path.isdir(path) or not os.access(folder, os.W_OK):
        raise InvalidRequest(f"cannot write {path}: it is a folder, or its folder is not yours to write")
    if not force and os.path.exists(path) and (not os.path.isfile(path) or os.path.getsize(path)):
        remedy = how or f"Go on with it: --continue {path}. Replace it: add --force."
        raise InvalidRequest(f"{path} exists already. {remedy}")


def load_chat(path: str | Path) -> tuple[list[Message], str]:
    """A saved conversation, and the model it was with; "" where that is not noted.

    raises: InvalidRequest where there is none
    """
    try:
        messages = Chat.load(path).messages()
    except FileNotFoundError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}. A new conversation is saved with --save {path}."
        ) from None
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from None
    except DecodeError as error:
        raise InvalidRequest(error.message) from None
    notes = (message.metadata or {} for message in reversed(messages))
    model = next((note[_MODEL] for note in notes if isinstance(note.get(_MODEL), str)), "")
    return messages, model


_OFF: Final = ("off", "0", "no", "false")
_MOST_ENTRIES: Final = 2000
_MOST_BYTES: Final = 4_000_000
"""Past that the older half goes: a history is read as a whole when a conversation begins."""


def state_file(name: str) -> Path | None:
    """A file of that name in the folder, which is made if need be; None where nothing is to be stored."""
    if os.environ.get("LLMSTREAM_HISTORY", "").strip().lower() in _OFF:
        return None
    folder = _base() / "llmstream"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written is no reason not to answer
        return None
    return folder / name


def last_conversation() -> Path | None:
    """Where the last conversation is; None where none is to be stored."""
    return state_file("last.json")


def _base() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    if os.path.isabs(given):  # the specification has relative ones ignored
        return Path(given)
    if sys.platform == "win32" and os.environ.get("LOCALAPPDATA"):
        return Path(os.environ["LOCALAPPDATA"])
    return Path(os.path.expanduser("~")) / ".local" / "state"


class PromptHistory:
    """What was typed at the prompt, oldest first; texts of several lines stay one entry.

    path: None keeps it for this process only
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self.entries = self._load()

    def add(self, text: str) -> None:
        """Adds an entry, unless it is the last one again."""
        if not text.strip() or (self.entries and self.entries[-1] == text):
            return
        self.entries.append(text)
        if self._path is None:
            return
        with suppress(OSError):  # a full disk is no reason to end a conversation
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
            with suppress(msgspec.MsgspecError, UnicodeDecodeError):  # of a line that a crash cut
                entries.append(msgspec.json.decode(line, type=str))
        if len(entries) > _MOST_ENTRIES or len(data) > _MOST_BYTES:
            entries = entries[len(entries) // 2 :]
            with suppress(OSError):
                write_whole(self._path, b"".join(map(_line, entries)))
        return entries


def _line(text: str) -> bytes:
    return msgspec.json.encode(text.encode("utf-8", "replace").decode()) + b"\n"
