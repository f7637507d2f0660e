"""The same stream on other event loops: uvloop where it is installed, and eager tasks from Python 3.12 on."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

from benchmarks.cpu import measure

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def loops() -> dict[str, LoopFactory]:
    """What there is here, by name."""
    found: dict[str, LoopFactory] = {"asyncio": asyncio.new_event_loop}
    if sys.version_info >= (3, 12):
        found["asyncio, eager tasks"] = _eager
    try:
        import uvloop
    except ImportError:
        pass
    else:
        found["uvloop"] = uvloop.new_event_loop
    return found


def _eager() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined,unused-ignore]
    return loop


def us_per_event(factory: LoopFactory, base: str, writes: str, events: int, rounds: int) -> dict[str, float]:
    """As the section cpu, for chat completions, on a loop of the factory."""
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(measure("openai-chat", writes, base, events, rounds))
