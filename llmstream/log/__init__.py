"""Event logs: a run's events in an append-only log, with one producer and any readers, in any process.

    async with ls.open_logs("sqlite:runs.db") as logs:
        await logs.start("answer-7", agent.stream(prompt))
        async for seq, event in logs.follow("answer-7"):
            ...

`logs.py` is the interface, `store.py` what a store does; `memory.py`, `sqlite.py`, `redis.py` and
`postgres.py` are stores. `producer.py` reads a source, `committer.py` writes its frames, `reader.py` reads
them, and `recovery.py` closes what a dead producer left.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from llmstream.log.frames import Frame, Page
from llmstream.log.logs import Logs, open_logs
from llmstream.log.memory import MemoryStore
from llmstream.log.producer import Live
from llmstream.log.store import (
    Acquired,
    Append,
    Batch,
    Claim,
    RunSlice,
    RunState,
    RunStatus,
    Store,
    Swept,
    acquired,
    appended,
    swept,
)

if TYPE_CHECKING:
    from llmstream.log.postgres import PostgresStore
    from llmstream.log.redis import RedisStore
    from llmstream.log.sqlite import SQLiteStore

# Not every Python has sqlite3, and not every log needs it.
_LAZY = {
    "PostgresStore": "llmstream.log.postgres",
    "RedisStore": "llmstream.log.redis",
    "SQLiteStore": "llmstream.log.sqlite",
}

__all__ = [
    "Acquired",
    "Append",
    "Batch",
    "Claim",
    "Frame",
    "Live",
    "Logs",
    "MemoryStore",
    "Page",
    "PostgresStore",
    "RedisStore",
    "RunSlice",
    "RunState",
    "RunStatus",
    "SQLiteStore",
    "Store",
    "Swept",
    "acquired",
    "appended",
    "open_logs",
    "swept",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'llmstream.log' has no attribute {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)
