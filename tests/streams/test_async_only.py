"""What is read by `async for` says so where it is awaited, looped over or entered like other things."""

from __future__ import annotations

from typing import Any

import pytest

import llmstream as ls
from llmstream.streams.options import as_messages


@pytest.fixture(params=["stream", "run"])
def read_by_async_for(request: pytest.FixtureRequest) -> Any:
    return ls.stream("sim:demo", "Hi") if request.param == "stream" else ls.Agent("sim:demo").stream("Hi")


async def test_awaiting_it_names_collect(read_by_async_for) -> None:
    with pytest.raises(TypeError, match=r"await its `collect\(\)`"):
        await read_by_async_for


def test_a_plain_loop_names_the_async_one(read_by_async_for) -> None:
    with pytest.raises(TypeError, match="`async for`"):
        for _ in read_by_async_for:
            pass


def test_a_plain_block_names_the_async_one(read_by_async_for) -> None:
    with pytest.raises(TypeError, match="`async with`"), read_by_async_for:
        pass


def test_it_is_no_prompt(read_by_async_for) -> None:
    with pytest.raises(ls.InvalidRequest, match="a prompt must be a str"):
        as_messages(read_by_async_for)


def test_error_names_missing_asyncio_loop(read_by_async_for) -> None:
    """As under trio, where coroutines are driven by something else."""
    with pytest.raises(RuntimeError, match="requires asyncio"):
        read_by_async_for.collect().send(None)


async def test_a_run_is_read_once() -> None:
    async with ls.Agent("sim:demo").stream("Hi") as run:
        message = await run.collect()
        with pytest.raises(ls.InvalidRequest, match="read only once"):
            aiter(run)
        assert (await run.collect()) == message
