"""The same stream on other loops and Pythons: uvloop where it is installed, eager tasks from 3.12 on."""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator
from typing import Any

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


def version() -> str:
    """Of this Python, as "3.13.0", or "3.13.0t" of a build without the lock."""
    return platform.python_version() + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")


def of_other(python: str, events: int, rounds: int) -> Iterator[dict[str, Any]]:
    """The figures of another Python, in which this package and its dependencies are installed.

    raises: CalledProcessError if it cannot run the benchmark
    """
    command = [python, "-m", "benchmarks", "loops", "--json", f"--events={events}", f"--rounds={rounds}"]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    for line in shown.splitlines():
        figure: dict[str, Any] = json.loads(line)
        del figure["section"]
        yield figure
