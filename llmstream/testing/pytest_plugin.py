"""The pytest plugin: fixtures and markers for servers, a virtual clock, leak checks and no real requests.

pytest loads it in every run of a project that has llmstream installed, so it imports the package only when
a test uses it. Servers, clock and checks start inside the test's own event loop, just before its first line,
and end after its last, so they work with pytest-asyncio and anyio. For a test that is not async, servers
run in a thread with their own loop; such a test has no clock and no leak checks.
"""

from __future__ import annotations

import functools
import hashlib
import inspect
import os
import re
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from llmstream.testing import in_thread

if TYPE_CHECKING:
    from llmstream.simulator import ScriptLike, Simulator
    from llmstream.testing.cassettes import Cassette
    from llmstream.testing.clock import VirtualClock
    from llmstream.testing.faults import FaultServer

__all__ = [
    "llm_cassette",
    "llm_fault_server",
    "llm_no_leaks",
    "llm_no_requests",
    "llm_recording",
    "llm_simulator",
    "llm_virtual_clock",
]

# Of the name of a cassette; file systems allow 255.
_MOST_BYTES = 200

_MARKERS = (
    "llm_simulator(*turns, **options): answers of the fixture llm_simulator: texts, Turns or one script, "
    "and arguments of Simulator",
    "llm_recording(*paths, speed=None): recordings that the fixture llm_recording plays, "
    "relative to the folder of the test file",
    "llm_fault_server(*scripts): scripts of the fixture llm_fault_server, one per connection",
    "llm_no_leaks(within_s=1.0): the test fails if it leaks tasks, sockets or threads",
    "llm_virtual_clock: the loop's time jumps over waits",
    "cassette(name=None, mode=None, **options): answers of models are recorded in cassettes/FILE/NAME.json "
    "beside the test file, and replayed from then on; the name is that of the test",
    "llm_real_requests: allow real requests in this test although the ini option llm_forbid_requests is on",
)
_CASSETTE = pytest.StashKey["Cassette"]()
_WITHIN = pytest.StashKey[list[tuple[int, "_Context"]]]()
# Order of entering: the leak check includes the servers.
_LEAKS, _CLOCK, _SERVER = range(3)

_Context = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Registers the options."""
    parser.addoption(
        "--llm-cassettes",
        choices=["once", "none", "new", "all"],
        help="mode of all cassettes: record what is missing (once, new) or everything (all), or send nothing",
    )
    parser.addini(
        "llm_forbid_requests",
        "forbid requests of llmstream to other machines",
        type="bool",
        default=False,
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Forbids real requests from the test's first fixture to its last, if the ini option is on."""
    allowed = item.get_closest_marker("llm_real_requests") is not None
    if allowed or not item.config.getini("llm_forbid_requests"):
        return (yield)
    from llmstream.transport.egress import requests_forbidden

    with requests_forbidden():
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Registers the markers."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)
    mode = config.getoption("--llm-cassettes")
    if mode is not None:
        os.environ["LLMSTREAM_CASSETTES"] = mode  # also for cassettes without a marker


# First, so that plugins which run async tests find the wrapped function.
@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Runs the test inside the context managers of its fixtures and markers."""
    contexts = [*item.stash.get(_WITHIN, []), *_marked(item)]
    if item.get_closest_marker("cassette") is not None and _CASSETTE not in item.stash:
        with _cassette(item):
            return (yield from _run(item, contexts))
    return (yield from _run(item, contexts))


def _run(item: pytest.Item, contexts: list[tuple[int, _Context]]) -> Generator[None, object, object]:
    if not contexts or not isinstance(item, pytest.Function):
        return (yield)
    test = item.obj
    # By order only: contexts cannot be compared, and servers start in the order of their fixtures.
    contexts.sort(key=lambda pair: pair[0])
    if inspect.iscoroutinefunction(test):
        # The function is wrapped, because only it runs in the test's own loop with every async plugin.
        item.obj = _inside(test, [context for _, context in contexts])
    else:
        item.obj = _beside(test, contexts)
    try:
        return (yield)
    finally:
        # A plugin that repeats tests would wrap it twice.
        item.obj = test


def _marked(item: pytest.Item) -> list[tuple[int, _Context]]:
    """Returns the context managers of markers without their fixture."""
    found: list[tuple[int, _Context]] = []
    given = getattr(item, "fixturenames", ())
    leaks, clock = item.get_closest_marker("llm_no_leaks"), item.get_closest_marker("llm_virtual_clock")
    if leaks is not None and "llm_no_leaks" not in given:
        from llmstream.testing.leaks import no_leaks

        found.append((_LEAKS, no_leaks(*leaks.args, **leaks.kwargs)))
    if clock is not None and "llm_virtual_clock" not in given:
        from llmstream.testing.clock import VirtualClock

        found.append((_CLOCK, VirtualClock()))
    return found


def _inside(test: Callable[..., Any], contexts: list[_Context]) -> Callable[..., Any]:
    @functools.wraps(test)
    async def run(*args: Any, **kwargs: Any) -> None:
        async with AsyncExitStack() as stack:
            for context in contexts:
                if isinstance(context, AbstractAsyncContextManager):
                    await stack.enter_async_context(context)
                else:
                    stack.enter_context(context)
            await test(*args, **kwargs)

    return run


def _beside(test: Callable[..., Any], contexts: list[tuple[int, _Context]]) -> Callable[..., Any]:
    """Wraps a test that is not async, with its servers in threads."""
    if any(order != _SERVER for order, _ in contexts):
        pytest.fail("llm_no_leaks and llm_virtual_clock need an `async def` test", pytrace=False)

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        with ExitStack() as stack:
            for _, server in contexts:
                stack.enter_context(in_thread(server))  # type: ignore[arg-type]  # servers are async
            test(*args, **kwargs)

    return run


def _enter(request: pytest.FixtureRequest, order: int, context: _Context) -> None:
    """Makes the test run inside a context manager."""
    request.node.stash.setdefault(_WITHIN, []).append((order, context))


def _cassette(item: pytest.Item) -> Cassette:
    """The cassette of a test, as its marker describes it."""
    from llmstream.testing.cassettes import cassette

    marker = item.get_closest_marker("cassette")
    args, options = (marker.args, dict(marker.kwargs)) if marker is not None else ((), {})
    name, *rest = [*args] or [options.pop("name", None)]
    # A folder for each file: tests of two files may have the same name.
    folder = item.path.parent / "cassettes" / item.path.stem
    return cassette(
        name or _file_name(item),
        *rest,
        **{"folder": folder, **options},
    )


def _file_name(item: pytest.Item) -> str:
    """The name of a test's cassette: "test_chat", "TestChat.test_chat", "test_chat-parameter"."""
    classes = [node.name for node in item.listchain() if isinstance(node, pytest.Class)]
    name = ".".join([*classes, item.name])
    plain = name.removesuffix("]").replace("[", "-", 1)
    found = re.sub(r"[^\w.-]+", "-", plain).encode()[:_MOST_BYTES].decode(errors="ignore").strip("-")
    # Parameters such as "Hi!" and "Hi?" must not share a file.
    return found if found == plain else f"{found}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


@pytest.fixture
def llm_cassette(request: pytest.FixtureRequest) -> Generator[Cassette]:
    """The `Cassette` of the test, as `@pytest.mark.cassette` describes it, from its first fixture on."""
    item = request.node
    item.stash[_CASSETTE] = _cassette(item)
    with item.stash[_CASSETTE] as tape:
        yield tape


@pytest.fixture
def llm_simulator(request: pytest.FixtureRequest) -> Simulator:
    """A running `Simulator` with the script of `@pytest.mark.llm_simulator`.

    Without the marker it is `sim:demo`, which calls the tools of the request.
    """
    from llmstream.simulator import Script, Simulator, Turn

    marker = request.node.get_closest_marker("llm_simulator")
    turns: tuple[Any, ...] = marker.args if marker is not None else ()
    options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    script: ScriptLike | None = None
    if all(isinstance(turn, str | Turn) for turn in turns):
        scripted = tuple(Turn(text=turn) if isinstance(turn, str) else turn for turn in turns)
        script = Script(scripted) if scripted else None
    elif len(turns) > 1:
        raise pytest.UsageError("the marker llm_simulator takes texts and turns, or one script alone")
    else:
        script = turns[0]
    simulator = Simulator(script, **options)
    _enter(request, _SERVER, simulator)
    return simulator


@pytest.fixture
def llm_recording(request: pytest.FixtureRequest) -> Simulator:
    """A running `Simulator` that plays the recordings of `@pytest.mark.llm_recording("hello")`, in order.

    A path is a folder that `record` wrote, or the file of a body, relative to the folder of the test file.
    Recordings play without delay unless the marker sets `speed`.
    """
    from llmstream.simulator import Recording, Simulator

    marker = request.node.get_closest_marker("llm_recording")
    if marker is None or not marker.args:
        raise pytest.UsageError('llm_recording needs the marker @pytest.mark.llm_recording("path")')
    folder = Path(request.path).parent
    recordings = [Recording.load(folder / path) for path in marker.args]
    # Tests should not wait as their recording did.
    simulator = Simulator(recordings=recordings, **{"speed": None, **marker.kwargs})
    _enter(request, _SERVER, simulator)
    return simulator


@pytest.fixture
def llm_fault_server(request: pytest.FixtureRequest) -> FaultServer:
    """A running `FaultServer` with the scripts of `@pytest.mark.llm_fault_server`."""
    from llmstream.testing.faults import FaultServer

    marker = request.node.get_closest_marker("llm_fault_server")
    if marker is None or not marker.args:
        raise pytest.UsageError(
            "llm_fault_server needs the marker @pytest.mark.llm_fault_server(script, ...)"
        )
    server = FaultServer(*marker.args)
    _enter(request, _SERVER, server)
    return server


@pytest.fixture
def llm_no_requests() -> Generator[None]:
    """Forbids requests to other machines while the test runs; see `requests_forbidden`."""
    from llmstream.transport.egress import requests_forbidden

    with requests_forbidden():
        yield


@pytest.fixture
def llm_no_leaks(request: pytest.FixtureRequest) -> None:
    """Fails the test if it leaks a task, a descriptor or a thread; see `no_leaks`."""
    from llmstream.testing.leaks import no_leaks

    marker = request.node.get_closest_marker("llm_no_leaks")
    args, kwargs = (marker.args, marker.kwargs) if marker is not None else ((), {})
    _enter(request, _LEAKS, no_leaks(*args, **kwargs))


@pytest.fixture
def llm_virtual_clock(request: pytest.FixtureRequest) -> VirtualClock:
    """A `VirtualClock` for the test and the servers of the other fixtures."""
    from llmstream.testing.clock import VirtualClock

    clock = VirtualClock()
    _enter(request, _CLOCK, clock)
    return clock
