"""Detects leaked tasks, sockets and other descriptors, and threads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec

from llmstream.transport.sessions import close_session

__all__ = ["no_leaks"]

# Threads that asyncio and anyio keep for later work.
_POOLS = ("asyncio_", "uvloop_", "AnyIO worker thread")
# libuv holds it open from a loop's first listening socket to the end of the loop, as a reserve
# descriptor; source: libuv, uv__server_io and emfile_fd.
_SPARE = "/dev/null"
# Linux, macOS.
_FOLDERS = ("/proc/self/fd", "/dev/fd")


class _Held(msgspec.Struct, frozen=True):
    tasks: frozenset[asyncio.Task[object]]
    descriptors: dict[str, str]
    threads: frozenset[threading.Thread]


@contextlib.asynccontextmanager
async def no_leaks(within_s: float = 1.0) -> AsyncIterator[None]:
    """Fails if the block leaks a task, a descriptor or a thread.

    Closes idle connections before and after the block. Ignores threads of pools that live as long as
    the loop. Checks nothing if the block raises.

    within_s: how long sockets and tasks may take to close
    raises:   AssertionError that lists the leaks
    """
    await close_session()
    # A socket in a cycle of the test before would be closed within the block.
    gc.collect()
    before = _held()
    yield
    await close_session()
    due = asyncio.get_running_loop().time() + within_s
    while left := _left(before, _held()):
        if asyncio.get_running_loop().time() >= due:
            raise AssertionError("leaked: " + "; ".join(left))
        await asyncio.sleep(0.01)


def _held() -> _Held:
    threads = (t for t in threading.enumerate() if not t.name.startswith(_POOLS))
    return _Held(frozenset(asyncio.all_tasks()), _descriptors(), frozenset(threads))


def _descriptors() -> dict[str, str]:
    """Returns number and target of each open descriptor; empty on systems that do not list them."""
    folder = next((Path(name) for name in _FOLDERS if os.path.isdir(name)), None)
    found: dict[str, str] = {}
    for entry in sorted(folder.iterdir()) if folder is not None else ():
        # The descriptor that listed the folder is closed by now.
        with contextlib.suppress(OSError):
            found[entry.name] = os.readlink(entry)
    return found


def _on_uvloop() -> bool:
    return type(asyncio.get_running_loop()).__module__.partition(".")[0] == "uvloop"


def _left(before: _Held, now: _Held) -> list[str]:
    tasks = [f"task {task.get_name()}" for task in now.tasks - before.tasks if not task.done()]
    files = [
        f"descriptor {number} ({what})"
        for number, what in now.descriptors.items()
        if before.descriptors.get(number) != what
    ]
    if _on_uvloop():
        spare = [file for file in files if file.endswith(f"({_SPARE})")]
        files = [file for file in files if file not in spare[:1]]
    threads = [f"thread {thread.name}" for thread in now.threads - before.threads if thread.is_alive()]
    return [*tasks, *files, *threads]
