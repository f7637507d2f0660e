"""Fixtures that the whole suite shares."""

from __future__ import annotations

import asyncio
import functools
import gc
import itertools
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aioresponses.core
import pytest
from aiohttp import ClientResponse, web
from hypothesis import settings

from llmstream.errors import InvalidRequest
from llmstream.streams import attempts
from tests.examples import QUICK
from tests.redis_servers import make_redis, redis_server, short_path  # noqa: F401  # fixtures

SHARED = Path(__file__).resolve().parents[2] / "shared"

# The same examples in every run, and no deadline on a busy machine; LLMSTREAM_EXPLORE=1 looks for new ones.
settings.register_profile("llmstream", derandomize="LLMSTREAM_EXPLORE" not in os.environ, deadline=None)
settings.register_profile("quick", settings.get_profile("llmstream"), max_examples=QUICK)
settings.load_profile("llmstream")

# By default (pyproject.toml) only the quick tests run; `-m ''` and `-m slow` change that.
_QUICK = pytest.StashKey[bool]()
_LEFT_OUT = pytest.StashKey[set[str]]()
_SLOW_MODULE = re.compile(r"^pytestmark = (?:\[\s*)?pytest\.mark\.slow\b", re.MULTILINE)
_TEST = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--loop",
        choices=("asyncio", "uvloop"),
        default="asyncio",
        help="the event loop of async tests; uvloop has to be installed",
    )


class _OnUvloop:
    """A plugin that runs each async test on uvloop."""

    def pytest_asyncio_loop_factories(self) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
        import uvloop

        return {"uvloop": uvloop.new_event_loop}

    @pytest.hookimpl(wrapper=True)
    def pytest_pyfunc_call(self) -> Generator[None, Any, Any]:
        """Skips tests of a virtual clock, which needs asyncio's own loop."""
        try:
            return (yield)
        except InvalidRequest as error:
            if "VirtualClock needs" in str(error):
                pytest.skip("a virtual clock needs asyncio's own event loop")
            raise


def pytest_configure(config: pytest.Config) -> None:
    # Under nohup and in the background of a shell these are ignored, also by the programs that tests start.
    for name in ("SIGHUP", "SIGINT", "SIGQUIT"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if name == "SIGINT" else signal.SIG_DFL)
    if config.getoption("--loop") == "uvloop":
        config.pluginmanager.register(_OnUvloop())
    if sys.version_info >= (3, 14):  # Hypothesis says it of its own generator there
        config.addinivalue_line("filterwarnings", "ignore:It looks like .register_random. was passed:Warning")
    config.stash[_LEFT_OUT] = set()
    if not any(Path(arg).is_dir() for arg in config.args):  # files and tests that are named run complete
        config.option.markexpr = config.option.markexpr.replace("not slow", "")
    config.stash[_QUICK] = config.option.markexpr == "not slow"
    if config.stash[_QUICK] and "LLMSTREAM_EXPLORE" not in os.environ:
        settings.load_profile("quick")
    for size in ("COLUMNS", "LINES"):  # readline sets them, and a worker of pytest-xdist inherits them
        os.environ.pop(size, None)


@pytest.hookimpl(tryfirst=True)
def pytest_make_collect_report(collector: pytest.Collector) -> pytest.CollectReport | None:
    """Leaves a module of slow tests out before it is imported: many import a vendor's client."""
    if not collector.config.stash[_QUICK] or not isinstance(collector, pytest.Module):
        return None
    text = collector.path.read_text(encoding="utf-8")
    if not collector.get_closest_marker("slow") and not _SLOW_MODULE.search(text):
        return None
    names = _TEST.findall(text)
    collector.config.stash[_LEFT_OUT].update(f"{collector.nodeid}::{name}" for name in names)
    return pytest.CollectReport(collector.nodeid, "passed", None, [])


def pytest_pycollect_makeitem(
    collector: pytest.Module | pytest.Class, name: str, obj: object
) -> list[pytest.Item] | None:
    """Leaves a slow test out before its parameters become thousands of tests."""
    if not collector.config.stash[_QUICK] or not collector.funcnamefilter(name):
        return None
    marks = [*collector.iter_markers(), *getattr(obj, "pytestmark", [])]
    if all(mark.name != "slow" for mark in marks):
        return None
    collector.config.stash[_LEFT_OUT].add(f"{collector.nodeid}::{name}")
    return []


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Counts the tests of which only some parameters are slow."""
    slow = [item for item in items if item.get_closest_marker("slow")]
    for item in slow:
        item.config.stash[_LEFT_OUT].add(item.nodeid.partition("[")[0])


def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, "workeroutput"):  # a worker of pytest-xdist; only workers collect
        session.config.workeroutput["left_out"] = sorted(session.config.stash[_LEFT_OUT])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    node.config.stash[_LEFT_OUT].update(getattr(node, "workeroutput", {}).get("left_out", ()))


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    left_out = len(config.stash[_LEFT_OUT])
    if config.stash[_QUICK] and left_out:
        functions = "test function" if left_out == 1 else "test functions"
        terminalreporter.write_line(f"{left_out} slow {functions} not run: scripts/check, or pytest -m ''")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int | None:
    """For `-n auto` one more than the cores: tests wait a lot, for servers and programs."""
    if "PYTEST_XDIST_AUTO_NUM_WORKERS" in os.environ:
        return None
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return cores + 1


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Replaces lone surrogates, which some tests log: a worker of pytest-xdist cannot send them."""
    return _without_surrogates((yield))


def _without_surrogates(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode()
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_without_surrogates, value))
    return value


Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Serve = Callable[[Handler], Awaitable[str]]


@pytest.fixture(scope="session")
def shared_dir() -> Path:
    """The folder of outside cases and recordings; tests over it skip where it is absent."""
    if not SHARED.is_dir():
        pytest.skip("the folder ../shared with outside cases is not here")
    return SHARED


_tests = itertools.count()


@pytest.fixture(autouse=True)
def frozen() -> None:
    """What has gathered by now is not looked at by each of the many collections that leaks are found by."""
    if next(_tests) % 250 == 0:
        gc.collect()
        gc.freeze()


@pytest.fixture(autouse=True)
def retry_budgets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test does not pay for the retries of those before it."""
    monkeypatch.setattr(attempts, "_budgets", {})


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    """Starts real servers on loopback: `await serve(handler)` answers every path and gives the address."""
    runners: list[web.AppRunner] = []

    async def start(handler: Handler) -> str:
        async def answer(request: web.Request) -> web.StreamResponse:
            return await handler(request)

        app = web.Application()
        app.router.add_route("*", "/{path:.*}", answer)
        runner = web.AppRunner(app, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        runners.append(runner)
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return f"http://{host}:{port}"

    yield start
    for runner in runners:
        await runner.cleanup()


@pytest.fixture
def vendors(monkeypatch: pytest.MonkeyPatch) -> Iterator[aioresponses.aioresponses]:
    """Answers for any address, and what was sent there; a body comes in one piece.

    aioresponses 0.7.9 does not know an argument that aiohttp 3.14 requires of a response.
    """
    mended = functools.partial(ClientResponse, stream_writer=Mock())
    monkeypatch.setattr(aioresponses.core, "ClientResponse", mended)
    with aioresponses.aioresponses() as answers:
        yield answers
