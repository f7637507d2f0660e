"""Cancels a stream: the socket closes at once, and the partial message is available.

After `break`, an exception, or a timeout that cancels the task, `async with` ends the request at
once, so no tokens are paid for that nobody reads.
"""

from __future__ import annotations

import asyncio
import time

from _arguments import SCRIPTS, model

import llmstream as ls

PROMPT = "Tell me a long story."


async def leave_by_break(spec: str) -> None:
    started = time.monotonic()
    async with ls.stream(spec, PROMPT) as stream:
        count = 0
        async for _ in stream.text_deltas():
            count += 1
            if count == 5:
                break
    print(f"left after {count} fragments and {time.monotonic() - started:.1f} s")
    print(f"kept: {stream.text!r}")
    print(f"the conversation: {[str(message.role) for message in stream.messages()]}")


async def leave_by_timeout(spec: str) -> None:
    stream = ls.stream(spec, PROMPT)
    try:
        async with asyncio.timeout(0.2), stream:
            async for _ in stream:
                pass
    except TimeoutError:
        print(f"timed out; kept: {len(stream.text)} characters")


async def main(spec: str) -> None:
    await leave_by_break(spec)
    await leave_by_timeout(spec)


if __name__ == "__main__":
    asyncio.run(main(model(__doc__, f"sim:{SCRIPTS / 'long_story.json'}")))
