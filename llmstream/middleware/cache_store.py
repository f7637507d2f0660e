"""Where answers are kept: a folder with a file for each, or a mapping in memory."""

from __future__ import annotations

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Protocol, TypeAlias

import anyio.to_thread

from llmstream.chats.content import read_whole, write_whole

__all__ = ["CacheStore", "Kept", "as_store"]

Kept: TypeAlias = "str | os.PathLike[str] | MutableMapping[str, bytes]"
"""A folder, or a mapping from keys to the JSON lines of answers."""


class CacheStore(Protocol):
    """Gives what was put under a key."""

    async def get(self, key: str) -> bytes | None:
        """What is there, or None. A mapping of the caller's may raise anything."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Keeps it, in place of what was there. A mapping of the caller's may raise anything."""
        ...


def as_store(kept: Kept) -> CacheStore:
    """The store that a caller named."""
    return _Memory(kept) if isinstance(kept, MutableMapping) else _Folder(Path(kept))


class _Memory:
    def __init__(self, kept: MutableMapping[str, bytes]) -> None:
        self._kept = kept

    async def get(self, key: str) -> bytes | None:
        found: object = self._kept.get(key)
        if not isinstance(found, bytes | None):
            raise TypeError(f"the mapping holds {type(found).__name__}, not bytes")
        return found

    async def put(self, key: str, data: bytes) -> None:
        self._kept[key] = data


class _Folder:
    """One file `<key>.jsonl` an answer, written whole, mode 0600; the folder is made with mode 0700."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self, key: str) -> bytes | None:
        try:
            return await anyio.to_thread.run_sync(read_whole, self._file(key))
        except FileNotFoundError:
            return None

    async def put(self, key: str, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._write, key, data)

    def _write(self, key: str, data: bytes) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._file(key), data)

    def _file(self, key: str) -> Path:
        return self._path / f"{key}.jsonl"
