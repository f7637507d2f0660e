"""Every SQLite file of ours is its owner's alone, and opening one disturbs no other connection."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from llmstream.files import connect_sqlite
from llmstream.log import SQLiteStore
from llmstream.ui.vercel import Conversation, SQLiteConversations
from llmstream.web import ConversationStore


@asynccontextmanager
async def events(path: Path) -> AsyncIterator[None]:
    store = SQLiteStore(path)
    await store.open()
    yield
    await store.aclose()


@asynccontextmanager
async def pages(path: Path) -> AsyncIterator[None]:
    store = SQLiteConversations(path)
    await store.save("a", Conversation())
    yield
    await store.aclose()


@asynccontextmanager
async def web_chat(path: Path) -> AsyncIterator[None]:
    store = ConversationStore(path)
    yield
    store.close()


@contextlib.contextmanager
def with_umask(mask: int) -> Iterator[None]:
    before = os.umask(mask)
    try:
        yield
    finally:
        os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir() if file.is_file()}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o277])
@pytest.mark.parametrize("opened", [events, pages, web_chat])
async def test_only_its_owner_reads_a_file(
    opened: Callable[[Path], AbstractAsyncContextManager[None]], mask: int, tmp_path: Path
) -> None:
    (tmp_path / "files.db-wake").mkdir()  # of the event log; the mask would close it
    with with_umask(mask):
        async with opened(tmp_path / "files.db"):
            found = modes(tmp_path)
    assert found == {"files.db": 0o600, "files.db-wal": 0o600, "files.db-shm": 0o600}


WRITER = """\
import sqlite3, sys
sqlite3.connect(sys.argv[1], timeout=0, isolation_level=None).execute("begin immediate")
"""


async def test_opening_keeps_others_locks(tmp_path: Path) -> None:
    """fcntl(2) drops the locks of a process on a file as soon as it closes any descriptor of it."""
    path = tmp_path / "files.db"
    one = connect_sqlite(path, busy_s=1.0)
    one.execute("begin immediate")
    connect_sqlite(path, busy_s=1.0).close()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", WRITER, str(path), stderr=asyncio.subprocess.PIPE
    )
    _, complaint = await process.communicate()
    one.close()
    assert b"database is locked" in complaint


def test_a_file_keeps_its_permissions(tmp_path: Path) -> None:
    """Whoever shares a file with a group has decided so."""
    path = tmp_path / "files.db"
    path.touch()
    path.chmod(0o640)
    connect_sqlite(path, busy_s=1.0).close()
    assert path.stat().st_mode & 0o777 == 0o640


def test_locked_for_too_long_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "files.db"
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("create table a (b)")
        other.execute("begin exclusive")
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            connect_sqlite(path, busy_s=0.0)
