"""Synchronous bodies: one loop for the process, in a thread that forks, exits and defects do not harm."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextvars import ContextVar

import pytest

import llmstream as ls
from llmstream import serve
from llmstream.events import Event, Finish, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.serve import wsgi

TEXT = (StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"), Finish("stop"))


async def text() -> AsyncIterator[Event]:
    for event in TEXT:
        yield event


def body() -> serve.Body:
    return serve.Body(text(), serve.TextWriter())


def test_threads_share_one_loop() -> None:
    """Also at first use, when all of them look for it at once."""
    wsgi._forked()
    barrier = threading.Barrier(8)

    def ask(_: int) -> bytes:
        barrier.wait()
        return b"".join(wsgi.respond(body))

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == [b"Hi"] * 8
    assert sum(thread.name == "llmstream-serve" for thread in threading.enumerate()) <= 2


def test_tool_that_exits_ends_no_others() -> None:
    """asyncio lets SystemExit through the loop, to the thread of all streams."""

    async def leave() -> str:
        """Leave."""
        sys.exit("from a tool")

    other = wsgi.respond(body)
    run = wsgi.respond(lambda: serve.Body(ls.Agent("sim:demo", tools=[leave]).stream("Leave, please")))
    with pytest.raises(SystemExit, match="from a tool"):
        list(run)
    assert b"".join(other) == b"Hi"
    assert b"".join(wsgi.respond(body)) == b"Hi"


def test_ended_thread_is_replaced() -> None:
    """As after the end of another test or a reloader, in the same process."""
    first = wsgi.loop_thread()
    assert b"".join(wsgi.respond(body)) == b"Hi"
    first.stop()
    assert b"".join(wsgi.respond(body)) == b"Hi"
    assert wsgi.loop_thread() is not first


def test_end_of_thread_frees_the_view() -> None:
    """A call in progress is cancelled, not left waiting."""

    async def silent() -> AsyncIterator[Event]:
        for event in TEXT[:3]:
            yield event
        loop.call_soon(stopping.set)
        await asyncio.sleep(60)

    def make() -> AsyncIterator[Event]:
        nonlocal loop
        loop = asyncio.get_running_loop()
        return silent()

    loop: asyncio.AbstractEventLoop
    stopping = threading.Event()
    chunks = iter(wsgi.respond(make))
    next(chunks)
    stopping.wait(30)
    threading.Timer(0.1, wsgi.loop_thread().stop).start()
    with pytest.raises((CancelledError, ls.IncompleteStream)):
        next(chunks)


def test_no_task_begins_while_the_thread_ends() -> None:
    """It would be destroyed unfinished, with a warning at some later time."""
    begun: list[str] = []

    async def late() -> None:
        begun.append("late")
        await asyncio.sleep(60)

    async def first() -> None:
        begun.append("first")
        try:
            running.set()
            await asyncio.sleep(60)
        finally:
            thread.start(late)

    running = threading.Event()
    thread = wsgi.LoopThread()
    thread.start(first)
    assert running.wait(30)
    thread.stop()
    assert begun == ["first"]


def test_defect_reaches_the_view() -> None:
    async def failing() -> AsyncIterator[Event]:
        yield StreamStart()
        raise ZeroDivisionError("ours")

    with pytest.raises(ZeroDivisionError):
        wsgi.respond(failing)


def test_view_lends_its_context() -> None:
    """Flask's `request` and the current span are context variables."""
    asked = ContextVar[str]("asked")
    asked.set("in the view")
    seen = []

    async def source() -> AsyncIterator[Event]:
        seen.append(asked.get())
        for event in TEXT:
            yield event

    def make() -> AsyncIterator[Event]:
        seen.append(asked.get())
        return source()

    list(wsgi.respond(make))
    assert seen == ["in the view"] * 2


def test_stream_is_not_a_function() -> None:
    with pytest.raises(ls.InvalidRequest, match="takes a function"):
        wsgi.respond(ls.stream("sim:demo", "Hello"))


def test_server_that_cannot_cut_is_named(caplog: pytest.LogCaptureFixture) -> None:
    """granian's WSGI: its client takes half a response for a complete one."""
    wsgi._warn_of_granian.cache_clear()
    for _ in range(2):
        assert b"".join(wsgi.respond(body, {"SERVER_SOFTWARE": "Granian"})) == b"Hi"
    assert [record.getMessage().partition(" ")[0] for record in caplog.records] == ["granian's"]


def test_client_that_left_is_noticed() -> None:
    """A silent response has no write that would fail; the server's socket tells."""
    ours, theirs = socket.socketpair()
    left = threading.Event()

    async def silent() -> AsyncIterator[Event]:
        try:
            for event in TEXT[:3]:
                yield event
            await asyncio.sleep(60)
        finally:
            left.set()

    with ours, theirs:
        sent = wsgi.respond(silent, {"gunicorn.socket": ours})
        chunks = iter(sent)
        assert b"Hi" in next(chunks)
        theirs.close()
        assert list(chunks) == []
    assert left.wait(30)


FORKING = """
import os, sys
sys.path.insert(0, {here!r})
import test_wsgi as tests
from llmstream.serve import wsgi

assert b"".join(wsgi.respond(tests.body)) == b"Hi"
open_one = wsgi.respond(tests.body)
child = os.fork()
if not child:
    assert b"".join(wsgi.respond(tests.body)) == b"Hi"
    sys.exit(7)  # runs the child's atexit functions
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
assert b"".join(open_one) == b"Hi"
assert b"".join(wsgi.respond(tests.body)) == b"Hi"
print("both", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_forked_child_has_its_own_loop(tmp_path) -> None:
    """The parent's goes on, and neither hangs as it ends."""
    program = FORKING.format(here=os.path.dirname(__file__))
    environment = os.environ | {"PYTHONPATH": os.getcwd(), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "both\n", "")


ENDING = """
import sys
sys.path.insert(0, {here!r})
import llmstream as ls
from llmstream import serve
from llmstream.serve import wsgi
from llmstream.testing import Pace, Script, Simulator, Turn, in_thread

with in_thread(Simulator(Script((Turn(text="a b c " * 100, pace=Pace(delta_s=5)),)))) as simulator:
    model = ls.Model("openai:m", base_url=simulator.url + "/v1", api_key="k")
    chunks = iter(wsgi.respond(lambda: serve.Body(model.stream("Hi"))))
    print(len(next(chunks)) > 0, flush=True)
"""


@pytest.mark.slow
def test_process_ends_with_open_streams() -> None:
    program = ENDING.format(here=os.path.dirname(__file__))
    environment = os.environ | {"PYTHONPATH": os.getcwd()}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
