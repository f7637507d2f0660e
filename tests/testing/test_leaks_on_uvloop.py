"""`no_leaks` under uvloop: libuv's spare descriptor is no leak, all others are."""

from __future__ import annotations

import asyncio

import pytest

from llmstream.testing import no_leaks

uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")


async def serve_once() -> None:
    server = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.1", 0)
    server.close()
    await server.wait_closed()


def run(main) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def test_first_listening_socket_leaks_none() -> None:
    async def main() -> None:
        async with no_leaks():
            await serve_once()

    run(main)


def test_a_descriptor_that_stays_is_a_leak() -> None:
    async def main() -> None:
        kept = []
        with pytest.raises(AssertionError, match=r"leaked: descriptor \d+ \(/dev/null\)$"):
            async with no_leaks(within_s=0.05):
                await serve_once()
                kept.append(open("/dev/null"))  # noqa: ASYNC230
        kept[0].close()

    run(main)
