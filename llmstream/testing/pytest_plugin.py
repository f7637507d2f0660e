"""The pytest plugin: servers, a clock and leak checks, by fixture and marker; and no real requests.

pytest loads it in every run of a project that has llmstream, so it imports nothing of it before a test asks.
What a fixture gives is started inside the test's own loop, just before its first line, and ended after its
last: so it works with pytest-asyncio and with anyio alike. Of a test that is not async, servers run in a
thread with a loop of their own; a clock and leak checks are of the test's loop, so such a test has none.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Generator
from contextlib import AbstractAsyncContextManager, AbstractContextManager, AsyncExitStack, ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from llmstream.simulator import ScriptLike, Simulator
    from llmstream.testing.clock import VirtualClock
    from llmstream.testing.faults import FaultServer

__all__ = [
    "llm_fault_server",
    "llm_no_leaks",
    "llm_no_requests",
    "llm_recording",
    "llm_simulator",
    "llm_virtual_clock",
]

_MARKERS = (
    "llm_simulator(*turns, **options): what the fixture llm_simulator says: texts, Turns or one script, "
    "and arguments of Simulator",
    "llm_recording(*paths, speed=None): the recordings that the fixture llm_recording plays, "
    "from the folder of the test's file",
    "llm_fault_server(*scripts): what each connection of the fixture llm_fault_server gets",
    "llm_no_leaks(within_s=1.0): the test fails where it leaves tasks, sockets or threads behind",
    "llm_virtual_clock: the loop's time jumps over waits",
    "llm_real_requests: the test may send real requests where the ini option llm_forbid_requests says no",
)
_WITHIN = pytest.StashKey[list[tuple[int, "_Context"]]]()
_LEAKS, _CLOCK, _SERVER = range(3)  # entered in this order: nothing of a server may be left

_Context = AbstractAsyncContextManager[Any] | AbstractContextManager[Any]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Makes the ini option known."""
    parser.addini(
        "llm_forbid_requests", "llmstream sends no request to another machine", type="bool", default=False
    )


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """Forbids real requests, from the test's first fixture to its last, where the project wants that."""
    allowed = item.get_closest_marker("llm_real_requests") is not None
    if allowed or not item.config.getini("llm_forbid_requests"):
        return (yield)
    from llmstream.transport.forbidding import requests_forbidden

    with requests_forbidden():
        return (yield)


def pytest_configure(config: pytest.Config) -> None:
    """Makes the markers known."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Has the test run inside of what its fixtures gave."""
    contexts = [*item.stash.get(_WITHIN, []), *_marked(item)]
    if not contexts or not isinstance(item, pytest.Function):
        return (yield)
    test = item.obj
    contexts.sort(key=lambda pair: pair[0])
    if inspect.iscoroutinefunction(test):
        item.obj = _inside(test, [context for _, context in contexts])
    else:
        item.obj = _beside(test, contexts)
    try:
        return (yield)
    finally:
        item.obj = test


def _marked(item: pytest.Item) -> list[tuple[int, _Context]]:
    """What markers ask for by themselves."""
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
    """A test that is not async, with its servers in threads."""
    if any(order != _SERVER for order, _ in contexts):
        pytest.fail("llm_no_leaks and llm_virtual_clock are for tests that are `async def`", pytrace=False)

    @functools.wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        from llmstream.testing.in_thread import in_thread

        with ExitStack() as stack:
            for _, server in contexts:
                stack.enter_context(in_thread(server))  # type: ignore[arg-type]  # servers are async
            test(*args, **kwargs)

    return run


def _enter(request: pytest.FixtureRequest, order: int, context: _Context) -> None:
    """The test will run inside of it."""
    request.node.stash.setdefault(_WITHIN, []).append((order, context))


@pytest.fixture
def llm_simulator(request: pytest.FixtureRequest) -> Simulator:
    """A `Simulator` that runs while the test does; `@pytest.mark.llm_simulator` has its script.

    Without the marker it is `sim:demo`, which uses the tools it is offered.
    """
    from llmstream.simulator import Script, Simulator, Turn

    marker = request.node.get_closest_marker("llm_simulator")
    turns: tuple[Any, ...] = marker.args if marker is not None else ()
    options: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    script: ScriptLike | None = None
    if all(isinstance(turn, str | Turn) for turn in turns):
        said = tuple(Turn(text=turn) if isinstance(turn, str) else turn for turn in turns)
        script = Script(said) if said else None
    elif len(turns) > 1:
        raise pytest.UsageError("llm_simulator takes texts and turns, or one script alone")
    else:
        script = turns[0]
    simulator = Simulator(script, **options)
    _enter(request, _SERVER, simulator)
    return simulator


@pytest.fixture
def llm_recording(request: pytest.FixtureRequest) -> Simulator:
    """A `Simulator` that plays the recordings of `@pytest.mark.llm_recording("hello")`, in order.

    A path is a folder that `record` wrote, or the file of a body; it counts from the folder of the test's
    file. Played at once, unless the marker's `speed` says otherwise.
    """
    from llmstream.simulator import Recording, Simulator

    marker = request.node.get_closest_marker("llm_recording")
    if marker is None or not marker.args:
        raise pytest.UsageError('llm_recording plays what @pytest.mark.llm_recording("path") names')
    folder = Path(request.path).parent
    recordings = [Recording.load(folder / path) for path in marker.args]
    simulator = Simulator(recordings=recordings, **{"speed": None, **marker.kwargs})
    _enter(request, _SERVER, simulator)
    return simulator


@pytest.fixture
def llm_fault_server(request: pytest.FixtureRequest) -> FaultServer:
    """A `FaultServer` that runs while the test does; its scripts are in `@pytest.mark.llm_fault_server`."""
    from llmstream.testing.faults import FaultServer

    marker = request.node.get_closest_marker("llm_fault_server")
    if marker is None or not marker.args:
        raise pytest.UsageError("llm_fault_server plays what @pytest.mark.llm_fault_server(script, ...) has")
    server = FaultServer(*marker.args)
    _enter(request, _SERVER, server)
    return server


@pytest.fixture
def llm_no_requests() -> Generator[None]:
    """No request leaves this machine while the test runs; see `requests_forbidden`."""
    from llmstream.transport.forbidding import requests_forbidden

    with requests_forbidden():
        yield


@pytest.fixture
def llm_no_leaks(request: pytest.FixtureRequest) -> None:
    """The test fails where it leaves a task, a descriptor or a thread behind; see `no_leaks`."""
    from llmstream.testing.leaks import no_leaks

    marker = request.node.get_closest_marker("llm_no_leaks")
    args, kwargs = (marker.args, marker.kwargs) if marker is not None else ((), {})
    _enter(request, _LEAKS, no_leaks(*args, **kwargs))


@pytest.fixture
def llm_virtual_clock(request: pytest.FixtureRequest) -> VirtualClock:
    """A `VirtualClock` by which the test runs, and so do the servers of the other fixtures."""
    from llmstream.testing.clock import VirtualClock

    clock = VirtualClock()
    _enter(request, _CLOCK, clock)
    return clock
