"""A pytest plugin that reports the CPU time of tests: `python -m pytest -q -n 2 -p tests.cpu_times`.

CPU time is that of the workers and of the programs that they have waited for; a busy machine does not
distort it. It is reported for the start, the collection and the tests, by folder, file, function and fixture.
The column `waited` is the time in which a test slept or waited for a program.
LLMSTREAM_CPU_TIMES=FILE stores the seconds of each function and fixture as JSON.
"""

from __future__ import annotations

import json
import os
import resource
import time
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

PHASES = ("setup", "call", "teardown")
_SCHEDULED = Path("/proc/self/schedstat")
# How many files, functions and fixtures are printed.
_LONGEST = 60

Seconds = defaultdict[str, float]


def used_s() -> float:
    """CPU time of this process and of its programs that have ended, in seconds."""
    programs = resource.getrusage(resource.RUSAGE_CHILDREN)
    return time.process_time() + programs.ru_utime + programs.ru_stime


def waited_s() -> float:
    """Time in which the main thread neither ran nor queued for a core: it slept or waited for others."""
    if not _SCHEDULED.exists():  # Linux has it
        return 0.0
    ran, queued, _ = map(int, _SCHEDULED.read_text().split())
    return time.monotonic() - (ran + queued) / 1e9


def add(into: Seconds, more: Mapping[str, float]) -> None:
    for name, seconds in more.items():
        into[name] += seconds


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(CpuTimes(), "llmstream-cpu-times")


class CpuTimes:
    """Counts in each worker; the controller adds what the workers have counted, and prints it."""

    def __init__(self) -> None:
        self.tests: defaultdict[str, Seconds] = defaultdict(lambda: defaultdict(float))
        self.fixtures, self.uses, self.process = Seconds(float), Seconds(float), Seconds(float)
        self._inner: list[float] = []  # what the fixtures took that the current ones requested

    def _phase(self, item: pytest.Item, phase: str) -> Generator[None, Any, Any]:
        began, waited = used_s(), waited_s()
        try:
            return (yield)
        finally:
            used = {phase: used_s() - began, "waited": waited_s() - waited}
            add(self.tests[item.nodeid.partition("[")[0]], used)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self.tests[item.nodeid.partition("[")[0]]["number"] += 1
        return (yield from self._phase(item, "setup"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._phase(item, "call"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, Any, Any]:
        return (yield from self._phase(item, "teardown"))

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: Any) -> Generator[None, Any, Any]:
        """A fixture pays for itself, not for those that it requests."""
        began = used_s()
        self._inner.append(0.0)
        try:
            return (yield)
        finally:
            took = used_s() - began
            name = f"{fixturedef.baseid or 'plugin'}::{fixturedef.argname}"
            add(self.fixtures, {name: took - self._inner.pop()})
            self.uses[name] += 1
            if self._inner:
                self._inner[-1] += took

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_collection(self) -> Generator[None, Any, Any]:
        began = self.process["start"] = used_s()
        try:
            return (yield)
        finally:
            self.process["collection"] = used_s() - began

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            self.process["all"] = used_s()
            tests = {name: dict(phases) for name, phases in self.tests.items()}
            rest = [dict(counted) for counted in (self.fixtures, self.uses, self.process)]
            session.config.workeroutput["cpu_times"] = [tests, *rest]  # execnet sends plain dicts only

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        tests, *rest = getattr(node, "workeroutput", {}).get("cpu_times", ({}, {}, {}, {}))
        for name, phases in tests.items():
            add(self.tests[name], phases)
        for mine, workers in zip((self.fixtures, self.uses, self.process), rest, strict=True):
            add(mine, workers)

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        # The controller's programs are the workers, which have counted themselves.
        workers = self.process["all"]
        self.process["all"] = workers + time.process_time() if workers else used_s()
        if path := os.environ.get("LLMSTREAM_CPU_TIMES"):
            Path(path).write_text(json.dumps([self.tests, self.fixtures, self.uses, self.process]))
        for line in self._report():
            terminalreporter.write_line(line)

    def _report(self) -> Iterable[str]:
        process = {name: f"{seconds:.1f}" for name, seconds in self.process.items()}
        in_tests = sum(phases[phase] for phases in self.tests.values() for phase in PHASES)
        yield f"CPU seconds: {process['all']} in all; start {process['start']}, collection"
        yield f"{process['collection']}, tests {in_tests:.1f}; the rest is pytest's own, between the tests"
        yield from self._table("folder", lambda name: "/".join(name.partition("::")[0].split("/")[:2]))
        yield from self._table("file", lambda name: name.partition("::")[0])
        yield from self._table("function", lambda name: name)
        yield f"{'seconds':>9}{'uses':>8}  fixture"
        for name in sorted(self.fixtures, key=self.fixtures.__getitem__, reverse=True)[:_LONGEST]:
            yield f"{self.fixtures[name]:9.2f}{self.uses[name]:8.0f}  {name}"

    def _table(self, title: str, row_of: Callable[[str], str]) -> Iterable[str]:
        rows: defaultdict[str, Seconds] = defaultdict(lambda: defaultdict(float))
        for name, phases in self.tests.items():
            add(rows[row_of(name)], phases)
        totals = {name: sum(phases[phase] for phase in PHASES) for name, phases in rows.items()}
        yield f"{'seconds':>9}{'setup':>8}{'call':>8}{'end':>8}{'waited':>8}{'tests':>7}  {title}"
        for name in sorted(totals, key=totals.__getitem__, reverse=True)[:_LONGEST]:
            columns = "".join(f"{rows[name][phase]:8.2f}" for phase in (*PHASES, "waited"))
            yield f"{totals[name]:9.2f}{columns}{rows[name]['number']:7.0f}  {name}"
