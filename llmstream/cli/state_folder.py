"""What stays between two runs of a command: one folder, its owner's alone.

    $XDG_STATE_HOME/llmstream, else ~/.local/state/llmstream; %LOCALAPPDATA%\\llmstream on Windows
    history.jsonl  what was typed at the prompt of `llmstream chat`, a JSON string a line
    last.json      the last conversation, as `Chat.save` writes it

LLMSTREAM_HISTORY=off switches both off. source: XDG Base Directory Specification 0.8
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from llmstream.chats.content import write_whole

__all__ = ["PromptHistory", "last_conversation", "state_file"]

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
