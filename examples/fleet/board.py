"""Shows what every worker does, from the records and event logs of the runs, so it works from any machine."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

import llmstream as ls
from llmstream.durable import RunInfo, Runs
from llmstream.events import RetryNotice, StepStart

_LOOK_S: Final = 0.25


@dataclass
class Order:
    """One run, as its reader sees it."""

    info: RunInfo | None = None
    step: int = 0
    doing: str = "waits for a worker"


class Board:
    """Follows runs, and shows them: on a terminal as a table that changes, else by a line for each change."""

    def __init__(self, runs: Runs, orders: list[str]) -> None:
        self.orders = {order: Order() for order in orders}
        self.living, self.dead = set[str](), set[str]()
        self.counts = Counter[str]()
        self._runs = runs
        self._news = deque[str](maxlen=6)
        self._began = time.monotonic()
        self._console = Console(highlight=False)

    def say(self, line: str) -> None:
        """Something of note."""
        line = f"{time.monotonic() - self._began:5.1f} s  {line}"
        if self._console.is_terminal:
            self._news.append(line)
        else:
            print(line, flush=True)

    def owned(self, owner: str) -> list[str]:
        """The orders that a worker has."""
        return [name for name, order in self.orders.items() if order.info and _owner(order.info) == owner]

    async def show(self) -> None:
        """Shows the runs until all are over."""
        async with asyncio.TaskGroup() as tasks:
            for name in self.orders:
                tasks.create_task(self._follow(name))
            if self._console.is_terminal:
                with Live(self.table(), console=self._console, auto_refresh=False) as live:
                    while not await self._look():
                        live.update(self.table(), refresh=True)
                        await asyncio.sleep(_LOOK_S)
                    live.update(self.table(), refresh=True)
            else:
                while not await self._look():  # noqa: ASYNC110  # it reads a database
                    await asyncio.sleep(_LOOK_S)

    async def _look(self) -> bool:
        """Reads the records, and returns whether all runs are over."""
        for info in await self._runs.list(limit=10_000):
            if (order := self.orders.get(info.run)) is None:
                continue
            before, order.info = order.info, info
            if _owner(info) and before and _owner(before) not in ("", _owner(info)):
                self.counts["taken over"] += 1
                self.say(f"{info.run}: {_owner(info)} takes over from {_owner(before)}")
            if info.is_over and not (before and before.is_over):
                self.say(f"{info.run}: {info.state}: {info.text or info.error}")
        return all(order.info and order.info.is_over for order in self.orders.values())

    async def _follow(self, name: str) -> None:
        order = self.orders[name]
        async for _, event in self._runs.logs.follow(name, wait_s=600, errors="events"):
            match event:
                case StepStart(step):
                    order.step, order.doing = step, "asks the model"
                case ls.TextDelta(text):
                    said = order.doing.removeprefix("asks the model")
                    order.doing = (said if said.startswith("says") else "says ") + text
                case ls.ToolCall(tool, given):
                    order.doing = f"{tool}({given})"
                case ls.ToolResult(result, tool_name=tool, preliminary=True):
                    order.doing = f"{tool}: {result}"
                case ls.ToolResult(result, tool_name=tool, is_error=failed):
                    self.counts["from the cache"] += "from the cache" in str(result)
                    self.counts[f"{tool} interrupted" if failed else tool] += 1
                    order.doing = f"{tool}: {result}"
                case RetryNotice(reason):
                    self.counts[f"again: {reason}"] += 1
                    order.doing = f"step {order.step} begins again: {reason}"
                case ls.Finish():
                    order.doing = "is over"
                case _:
                    pass

    def table(self) -> Group:
        """The workers and what they do, what has come of it, and the latest news."""
        states = Counter(order.info.state if order.info else "running" for order in self.orders.values())
        owners = {_owner(order.info) for order in self.orders.values() if order.info} - {""}
        table = Table("worker", "order", "step", "does", expand=True, title="The fleet", title_justify="left")
        table.columns[3].overflow, table.columns[3].no_wrap, table.columns[3].ratio = "ellipsis", True, 1
        for owner in sorted(owners | self.living):
            style = "red" if owner in self.dead else ""
            shown = f"{owner} †" if owner in self.dead else owner
            for name in self.owned(owner):
                order = self.orders[name]
                doing = "(its worker is dead)" if owner in self.dead else order.doing
                table.add_row(Text(shown), name, str(order.step), Text(doing), style=style)
                shown = ""
            if shown:
                table.add_row(shown, "", "", "idle")
            table.add_section()
        taken = sum(bool(order.info and order.info.owner) for order in self.orders.values())
        queued, passed_s = len(self.orders) - taken - states["done"], time.monotonic() - self._began
        summary = f"{states['done']} of {len(self.orders)} done, {queued} queued, {passed_s:.0f} s"
        counts = ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()) if count)
        return Group(table, Text(summary, style="bold"), Text(counts), *map(Text, self._news))


def _owner(info: RunInfo) -> str:
    return info.owner if info.state == "running" else ""
