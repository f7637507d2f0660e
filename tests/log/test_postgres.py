"""PostgreSQL servers: what a producer that is paused in the middle of a commit may hold up."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.log import Append, Claim, PostgresStore
from llmstream.log.postgres import _locked
from tests.log.conftest import emptied


@pytest.mark.slow
async def test_a_paused_commit_frees_its_run(postgres_database: str) -> None:
    """The server ends the connection that sleeps with a lock, before others give up waiting for it."""
    address = emptied(postgres_database)
    paused, other = PostgresStore(address), PostgresStore(address)
    await paused.open()
    await other.open()
    try:
        run = (await paused.acquire(Claim("run", "me", "new", 60.0, 0.0, 600.0, None))).status
        append = Append("run", run.epoch, 0, 1, b"{}", "open", 60.0)
        with pytest.raises(ls.LogUnavailable):
            async with paused._writing.transaction() as statement:
                await _locked(statement, "run")
                (status,) = await other.append([append])  # waits for the lock
                await statement("select 1")
        assert status is not None
        assert status.tail == 0
        (status,) = await paused.append([append])  # on a new connection, and refused
        assert status is not None
        assert status.tail == 0
    finally:
        await paused.aclose()
        await other.aclose()
