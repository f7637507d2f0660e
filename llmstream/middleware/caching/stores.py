"""Where answers are stored: a folder with a file for each, a mapping in memory, or a database.

A store may be shared by processes. Then one of them claims a request before sending it and publishes the
events as they arrive; the others read these. A claim ends by `release`, or with the process that has it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, MutableMapping, Sequence
from pathlib import Path
from typing import Final, Protocol, TypeAlias, runtime_checkable

import anyio.to_thread
import msgspec

from llmstream.addresses import is_redis, shown, sqlite_path
from llmstream.errors import InvalidRequest
from llmstream.files import is_at, lock, read_file, replace_file

__all__ = ["CacheStore", "FolderStore", "MappingStore", "SharedStore", "Storage", "Watched", "as_store"]

Storage: TypeAlias = "str | os.PathLike[str] | MutableMapping[str, bytes]"
"""A folder, "sqlite:PATH", "redis://HOST:PORT/DB", or a mapping from keys to stored answers."""

LEASE_S: Final = 3.0
"""How long a claim lives without renewal. A late process only costs a second request."""


class CacheStore(Protocol):
    """Stores answers, as bytes, by key. Methods may raise anything: the request is then sent."""

    async def get(self, key: str) -> bytes | None:
        """The stored answer, or None. It counts as used."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Stores an answer, and removes the least recently used ones."""
        ...


class Watched(msgspec.Struct, frozen=True):
    """The events that another process has published since a position.

    place: where to continue reading
    """

    owner: str
    lines: list[bytes]
    place: int


@runtime_checkable
class SharedStore(CacheStore, Protocol):
    """A store in which processes share requests in progress."""

    async def claim(self, key: str, owner: str) -> bool:
        """Claims a request; False if another process has claimed it."""
        ...

    async def publish(self, key: str, owner: str, lines: Sequence[bytes]) -> bool:
        """Publishes further events, possibly none, and renews the claim; False if it is lost."""
        ...

    async def watch(self, key: str, place: int) -> Watched | None:
        """The events published after a position, 0 for all; None if no process has a claim."""
        ...

    async def release(self, key: str, owner: str) -> None:
        """Ends a claim, and removes the published events."""
        ...


def as_store(storage: Storage, *, ttl_s: float | None = None, max_bytes: int | None = None) -> CacheStore:
    """The store of the caller's argument.

    raises: InvalidRequest for an address of no store
    """
    if isinstance(storage, MutableMapping):
        return MappingStore(storage, max_bytes=max_bytes)
    if isinstance(storage, str):
        if path := sqlite_path(storage):
            from llmstream.middleware.caching.sqlite import SQLiteCache  # not every Python has sqlite3

            return SQLiteCache(path, ttl_s=ttl_s, max_bytes=max_bytes)
        if is_redis(storage):
            from llmstream.middleware.caching.redis import RedisCache

            return RedisCache(storage, ttl_s=ttl_s, max_bytes=max_bytes)
        if storage.startswith("sqlite:") or "://" in storage:
            raise InvalidRequest(
                f"cannot store answers at {shown(storage)!r}. Name a folder, 'sqlite:cache.db' or "
                "'sqlite:/var/lib/app/cache.db' (no slashes before the path), or 'redis://host:6379/0'."
            )
    return FolderStore(Path(storage), ttl_s=ttl_s, max_bytes=max_bytes)


class MappingStore:
    """The caller's mapping. The order of use is known only for the lifetime of this object."""

    def __init__(self, storage: MutableMapping[str, bytes], *, max_bytes: int | None = None) -> None:
        self._answers = storage
        self._max_bytes = max_bytes
        self._sizes: OrderedDict[str, int] | None = None
        self._bytes = 0

    async def get(self, key: str) -> bytes | None:
        """As in `CacheStore`."""
        found: object = self._answers.get(key)
        # A mapping filled by another program or an earlier version may contain anything.
        if not isinstance(found, bytes | None):
            raise TypeError(f"the mapping holds {type(found).__name__}, not bytes")
        if found is not None and self._sizes is not None and key in self._sizes:
            self._sizes.move_to_end(key)
        return found

    async def put(self, key: str, data: bytes) -> None:
        """As in `CacheStore`."""
        if self._max_bytes is None:
            self._answers[key] = data
            return
        if self._sizes is None:
            self._sizes = OrderedDict((name, len(value)) for name, value in self._answers.items())
            self._bytes = sum(self._sizes.values())
        self._bytes += len(data) - self._sizes.pop(key, 0)
        self._answers[key] = data
        self._sizes[key] = len(data)
        while self._bytes > self._max_bytes and self._sizes:
            oldest, size = self._sizes.popitem(last=False)
            self._bytes -= size
            self._answers.pop(oldest, None)


_ANSWER: Final = ".jsonl"
_LIVE: Final = ".live"
# Temporary files of killed processes are removed after this time, longer than any answer takes.
_ORPHAN_S: Final = 4 * 3600.0


class FolderStore:
    """One file `<key>.jsonl` per answer, written atomically, mode 0600; the folder has mode 0700.

    The time of change of a file is when it was stored, the time of access when it was used. A request in
    progress has a file `<key>.live`, locked by the process that asks: the system ends the claim with the
    process.
    """

    def __init__(self, path: Path, *, ttl_s: float | None = None, max_bytes: int | None = None) -> None:
        self._path = path
        self._ttl_s, self._max_bytes = ttl_s, max_bytes
        self._claims: dict[tuple[str, str], int] = {}
        self._space = _Space(path, ttl_s, max_bytes)

    async def get(self, key: str) -> bytes | None:
        """As in `CacheStore`."""
        return await anyio.to_thread.run_sync(self._get, key)

    def _get(self, key: str) -> bytes | None:
        file = self._file(key)
        try:
            data = read_file(file)
        except FileNotFoundError:
            return None
        if self._max_bytes is not None:
            with contextlib.suppress(OSError):  # removed meanwhile, or owned by another user
                os.utime(file, ns=(time.time_ns(), os.stat(file).st_mtime_ns))
        return data

    async def put(self, key: str, data: bytes) -> None:
        """As in `CacheStore`."""
        await anyio.to_thread.run_sync(self._put, key, data)

    def _put(self, key: str, data: bytes) -> None:
        self._make()
        with self._space.room_for(len(data), self._file(key)):
            # The kernel's timestamp is some milliseconds old, which would confuse the order of use.
            replace_file(self._file(key), data, time.time())

    async def claim(self, key: str, owner: str) -> bool:
        """As in `SharedStore`."""
        return await anyio.to_thread.run_sync(self._claim, key, owner)

    def _claim(self, key: str, owner: str) -> bool:
        self._make()
        path = os.fspath(self._live(key))
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
            try:
                lock(file)
                # Its owner may have removed the file between `open` and `lock`: then the lock is on an
                # unlinked file.
                if is_at(file, path):
                    os.ftruncate(file, 0)
                    os.write(file, owner.encode() + b"\n")
                    self._claims[key, owner] = file
                    return True
            except BlockingIOError:
                os.close(file)
                return False
            except BaseException:
                os.close(file)
                raise
            os.close(file)  # its owner has just removed it

    async def publish(self, key: str, owner: str, lines: Sequence[bytes]) -> bool:
        """As in `SharedStore`."""
        file = self._claims.get((key, owner))
        if file is None:
            return False
        if lines:
            await anyio.to_thread.run_sync(_write_all, file, b"\n".join([*lines, b""]))
        return True

    async def watch(self, key: str, place: int) -> Watched | None:
        """As in `SharedStore`."""
        return await anyio.to_thread.run_sync(self._watch, key, place)

    def _watch(self, key: str, place: int) -> Watched | None:
        try:
            file = os.open(self._live(key), os.O_RDWR)
        except FileNotFoundError:
            return None
        with os.fdopen(file, "rb") as source:
            try:
                lock(source.fileno())
            except BlockingIOError:
                owner = source.readline()
                source.seek(max(place, len(owner)))
                found = source.read()
                # The last line may be incomplete.
                complete = found[: found.rfind(b"\n") + 1]
                place = max(place, len(owner)) + len(complete)
                return Watched(owner.decode("ascii", "replace"), complete.splitlines(), place)
        return None  # the requesting process is dead, or about to begin

    async def release(self, key: str, owner: str) -> None:
        """As in `SharedStore`."""
        file = self._claims.pop((key, owner), None)
        if file is not None:
            await anyio.to_thread.run_sync(self._release, key, file)

    def _release(self, key: str, file: int) -> None:
        try:
            with contextlib.suppress(FileNotFoundError, PermissionError):  # Windows keeps open files
                if is_at(file, os.fspath(self._live(key))):
                    os.unlink(self._live(key))
        finally:
            os.close(file)

    def _make(self) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)

    def _file(self, key: str) -> Path:
        return self._path / f"{key}{_ANSWER}"

    def _live(self, key: str) -> Path:
        return self._path / f"{key}{_LIVE}"


def _write_all(file: int, data: bytes) -> None:
    while data:
        data = data[os.write(file, data) :]


class _Space:
    """Removes answers from a folder that are too old, or too many.

    Scanning a folder of 100,000 files takes a second, so it is done rarely: the files then form a queue, by
    time of last use, and each is checked again before it is removed. Files that other processes have stored
    meanwhile are counted at the next scan, at the latest after an eighth of the limit.
    """

    def __init__(self, path: Path, ttl_s: float | None, max_bytes: int | None) -> None:
        self._path, self._ttl_s, self._max_bytes = path, ttl_s, max_bytes
        self._lock = threading.Lock()
        self._queue: Iterator[tuple[int, str]] = iter(())
        self._bytes = 0
        self._written = 0
        self._looked: float | None = None

    @contextlib.contextmanager
    def room_for(self, size: int, file: Path) -> Iterator[None]:
        """Counts the file that the block writes, and then makes room for it."""
        if self._ttl_s is None and self._max_bytes is None:
            yield
            return
        with self._lock:
            if self._looked is None:
                self._look()
            before = _size(file)
            yield
            self._bytes += size - before
            self._written += size
            if self._is_stale():
                self._look()
            if self._max_bytes is not None:
                self._evict(self._max_bytes)

    def _is_stale(self) -> bool:
        assert self._looked is not None
        if self._max_bytes is not None and self._written > self._max_bytes / 8:
            return self._bytes > self._max_bytes / 2
        return self._ttl_s is not None and time.monotonic() - self._looked > max(self._ttl_s, 1.0)

    def _look(self) -> None:
        """Counts all answers, and removes those that have expired."""
        now, found, total = time.time(), list[tuple[int, str]](), 0
        for entry in os.scandir(self._path):
            with contextlib.suppress(FileNotFoundError):
                state = entry.stat(follow_symlinks=False)
                age_s = now - state.st_mtime
                if entry.name.endswith(_ANSWER):
                    if self._ttl_s is not None and age_s > self._ttl_s:
                        os.unlink(entry.path)
                        continue
                    found.append((max(state.st_atime_ns, state.st_mtime_ns), entry.path))
                    total += state.st_size
                elif entry.name.endswith((".tmp", _LIVE)) and age_s > _ORPHAN_S:
                    os.unlink(entry.path)
        self._queue = iter(sorted(found))
        self._bytes, self._written, self._looked = total, 0, time.monotonic()

    def _evict(self, max_bytes: int) -> None:
        looked = False
        while self._bytes > max_bytes:
            oldest = next(self._queue, None)
            if oldest is None:
                if looked:
                    return
                self._look()
                looked = True
                continue
            used, path = oldest
            with contextlib.suppress(FileNotFoundError):
                state = os.lstat(path)
                # Used since the scan: it gets a new position in the queue.
                if max(state.st_atime_ns, state.st_mtime_ns) <= used:
                    os.unlink(path)
                    self._bytes -= state.st_size


def _size(file: Path) -> int:
    try:
        return os.lstat(file).st_size
    except FileNotFoundError:
        return 0
