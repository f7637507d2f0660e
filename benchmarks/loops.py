"""The same stream on other event loops and Pythons: uvloop where it is installed, eager tasks from 3.12 on.

Each interpreter is a process of its own. They take turns, one round each, so that a machine that has become
slower meanwhile is slower for all of them; a ratio is of one turn, and the median of the turns is shown.

    python -m benchmarks.loops BASE EVENTS

measures one turn of this interpreter and prints JSON.
"""

from __future__ import annotations

import asyncio
import json
import platform
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Sequence
from random import sample
from statistics import median
from typing import Any, Final

from benchmarks.arguments import arguments
from benchmarks.cpu import MODES, measure

__all__ = ["rows"]

LoopFactory = Callable[[], asyncio.AbstractEventLoop]
Turn = dict[str, dict[str, float]]
"""Microseconds of CPU an event of floor and library, by loop and kind of writes."""

_PLAIN: Final = "asyncio"
# A difference below it is noise: repeated runs of one ratio differ by as much.
_NOISE: Final = 0.05


def _loops() -> dict[str, LoopFactory]:
    """What there is here, by name."""
    found: dict[str, LoopFactory] = {_PLAIN: asyncio.new_event_loop}
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


def _version() -> str:
    """Of this Python, as "3.13.0", or "3.13.0t" of a build without the lock."""
    return platform.python_version() + ("t" if sysconfig.get_config_var("Py_GIL_DISABLED") else "")


def _turn(base: str, events: int) -> Turn:
    """One round on each loop, in random order, after a warm-up round that is not counted."""
    found: Turn = {}
    for writes in MODES:
        loops = _loops()
        _measured(loops[_PLAIN], writes, base, events)
        taken = {
            name: _measured(loops[name], writes, base, events) for name in sample(list(loops), len(loops))
        }
        found |= {f"{name}/{writes}": taken[name] for name in loops}
    return found


def _measured(factory: LoopFactory, writes: str, base: str, events: int) -> dict[str, float]:
    with asyncio.Runner(loop_factory=factory) as runner:
        taken = runner.run(measure("openai-chat", writes, base, events, 1))
    return {reader: taken[reader] for reader in ("floor", "message")}


def _turn_of(python: str, base: str, events: int) -> tuple[str, Turn]:
    """Version and turn of another process.

    raises: CalledProcessError if it cannot run the benchmark
    """
    command = [python, "-m", "benchmarks.loops", base, str(events)]
    shown = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    version, turn = json.loads(shown.splitlines()[-1])
    return version, turn


def rows(pythons: Sequence[str], base: str, events: int, rounds: int) -> Iterator[dict[str, Any]]:
    """A row for each interpreter, loop and kind of writes; at last what they recommend.

    pythons: besides this one; llmstream's dependencies are installed in each
    """
    turns: dict[str, list[Turn]] = {}
    for _ in range(rounds):
        for python in dict.fromkeys([sys.executable, *pythons]):
            version, turn = _turn_of(python, base, events)
            turns.setdefault(version, []).append(turn)
    first = turns[_version()]
    best: dict[str, float] = {}
    for version, own in turns.items():
        for name in own[0]:
            loop, _, writes = name.rpartition("/")
            us = {reader: median(turn[name][reader] for turn in own) for reader in ("floor", "message")}
            over = median(turn[name]["message"] / turn[name]["floor"] for turn in own)
            plain = f"{_PLAIN}/{writes}"
            of_loop = median(turn[name]["message"] / turn[plain]["message"] for turn in own)
            of_first = median(
                turn[plain]["message"] / one[plain]["message"] for turn, one in zip(own, first, strict=True)
            )
            best[loop] = max(best.get(loop, 0.0), of_loop)
            beside = {"of asyncio here": of_loop, f"asyncio here, of {_version()}": of_first}
            row = {"python": version, "loop": loop, "writes": writes, "us_per_event": us}
            yield {**row, "ratio": {"message": over}, "times": beside}
    yield {"recommendation": _recommendation(best)}


def _recommendation(worst: dict[str, float]) -> str:
    """worst: of each loop, the highest of its times of asyncio, over all Pythons and kinds of writes."""
    saving = [name for name, times in worst.items() if times < 1 - _NOISE]
    harmful = [name for name, times in worst.items() if times > 1 + _NOISE]
    told = f"{saving[0]} saves CPU on each Python" if saving else "no loop saves CPU everywhere: use asyncio"
    return told + (f"; {', '.join(harmful)} cost more somewhere" if harmful else "")


if __name__ == "__main__":
    address, count = arguments("BASE EVENTS", __doc__)
    print(json.dumps([_version(), _turn(address, int(count))]))
