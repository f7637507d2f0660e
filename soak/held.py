"""What the process holds at a quiet moment: memory, descriptors, tasks, threads."""

from __future__ import annotations

import asyncio
import gc
import os
import resource
import sys
import threading

import msgspec

from llmstream.transport.sessions import close_session

_WANTED_DESCRIPTORS = 8192


class Held(msgspec.Struct, frozen=True):
    """Counts.

    blocks:   objects that Python's allocator has given out
    rss_kb:   resident memory
    """

    descriptors: int
    tasks: int
    threads: int
    blocks: int
    rss_kb: int


async def held() -> Held:
    """What is held once kept connections are closed and garbage is collected."""
    await close_session()
    for _ in range(3):
        await asyncio.sleep(0.1)
        gc.collect()
    return Held(
        descriptors=len(os.listdir("/proc/self/fd")),
        tasks=len(asyncio.all_tasks()),
        threads=threading.active_count(),
        blocks=sys.getallocatedblocks(),
        rss_kb=_rss_kb(),
    )


def allow_descriptors() -> None:
    """Raises the soft limit as far as it goes, for a thousand sockets and more."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = _WANTED_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(_WANTED_DESCRIPTORS, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def _rss_kb() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024
