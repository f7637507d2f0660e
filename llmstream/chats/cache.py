"""Conversations in a folder, one file for each id."""

from __future__ import annotations

import errno
import os
import string
import time
from collections.abc import Callable
from contextlib import suppress

from llmstream.chats.chat import Chat
from llmstream.errors import InvalidRequest
from llmstream.files import replace_file

_ID_CHARACTERS = frozenset(string.ascii_letters + string.digits + "._-")

# With the suffix well below the 255 bytes that file systems allow.
_MAX_ID_CHARACTERS = 128

__all__ = ["ChatCache"]


class ChatCache:
    """Chats by id in a private folder (mode 0700, made at the first write; files 0600).

    folder:    where the files are
    max_age_s: an entry this old is gone; None keeps every one
    clock:     Unix time in seconds; entries are dated by it
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        max_age_s: float | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._folder = os.fspath(folder)
        self._max_age_s = max_age_s
        self._clock = clock

    def read(self, id: str) -> Chat:
        """The chat of an id.

        raises: FileNotFoundError where there is none or it has expired (its file is then removed),
                InvalidRequest for an id that cannot be one, DecodeError for a damaged file
        """
        path = self._path(id)
        if self._has_expired(path):
            with suppress(FileNotFoundError):  # another reader found it expired first
                os.unlink(path)
            raise FileNotFoundError(errno.ENOENT, f"the chat has expired after {self._max_age_s:g} s", path)
        return Chat.load(path)

    def write(self, id: str, chat: Chat) -> None:
        """Store a chat under an id, replacing an earlier one; its age starts again at 0.

        raises: InvalidRequest for an id that cannot be one or a chat that JSON cannot hold,
                OSError where the folder cannot be written
        """
        path, data = self._path(id), chat.to_json()
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        replace_file(path, data, modified_at_s=self._clock())

    def delete(self, id: str) -> None:
        """Remove the chat of an id.

        raises: FileNotFoundError where there is none, InvalidRequest for an id that cannot be one
        """
        os.unlink(self._path(id))

    def _path(self, id: str) -> str:
        # No dot first: "..", hidden files, and the temporary ones that are written here.
        if not 0 < len(id) <= _MAX_ID_CHARACTERS or id[0] == "." or not _ID_CHARACTERS.issuperset(id):
            raise InvalidRequest(
                f"{id[:40]!r} cannot be the id of a cached chat. Use 1 to {_MAX_ID_CHARACTERS} "
                "ASCII letters, digits, '.', '_' or '-', not starting with '.'."
            )
        return os.path.join(self._folder, f"{id}.json")

    def _has_expired(self, path: str) -> bool:
        if self._max_age_s is None:
            return False
        return self._clock() - os.stat(path).st_mtime >= self._max_age_s
