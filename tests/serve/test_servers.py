"""A body on real web servers, below every framework: each promise of `serve` as a client sees it."""

from __future__ import annotations

import socket
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from importlib.util import find_spec
from typing import Any

import pytest

import llmstream as ls
from llmstream import grammar
from llmstream.events import Event, decode

ASGI_SERVERS = ("uvicorn-httptools", "uvicorn-h11", "hypercorn", "granian")
ASGI_FRAMEWORKS = {
    "plain": "llmstream",
    "starlette": "starlette",
    "middleware": "starlette",
    "fastapi": "fastapi",
    "litestar": "litestar",
    "django": "django",
}
EXHAUSTIVE = (pytest.mark.slow, pytest.mark.exhaustive)
IDLE = ("worker_serve.<locals>._server_callback", "EventWrapper.wait", "TCPServer._idle_timeout")  # hypercorn
WSGI_SERVERS = ("gunicorn-gthread", "waitress")
WSGI_FRAMEWORKS = {"plain-wsgi": "llmstream", "flask": "flask", "django-wsgi": "django"}


def combinations() -> Iterator[object]:
    """Every framework on every server; the quick run has each of them once."""
    yield pytest.param(("aiohttp", "aiohttp"), id="aiohttp")
    for servers, frameworks in ((ASGI_SERVERS, ASGI_FRAMEWORKS), (WSGI_SERVERS, WSGI_FRAMEWORKS)):
        for server in servers:
            for number, framework in enumerate(frameworks):
                slow = server != servers[0] and number
                marks = [pytest.mark.slow] if slow else []
                yield pytest.param((server, framework), marks=marks, id=f"{server}-{framework}")


class Site:
    """A framework on a server."""

    def __init__(self, server, framework: str) -> None:
        self.server, self.framework = server, framework
        self.clients = ExitStack()
        self.is_wsgi = framework in WSGI_FRAMEWORKS

    def path(self, case: str, prompt: str) -> str:
        return f"/{self.framework}/{case}?prompt={prompt}"

    def get(self, case: str, prompt: str, method: str = "GET") -> Any:
        return self.server.get(self.path(case, prompt), method)

    def connect(self, case: str, prompt: str, **options: int):
        return self.clients.enter_context(closing(self.server.connect(self.path(case, prompt), **options)))


@pytest.fixture(params=combinations())
def site(request: pytest.FixtureRequest, started) -> Iterator[Site]:
    name, framework = request.param
    package = (ASGI_FRAMEWORKS | WSGI_FRAMEWORKS).get(framework, framework)
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed (extra: test)")
    site = Site(started(name), framework)
    with site.clients:
        yield site


def frames_of(data: bytes) -> list[Event]:
    *frames, end, rest = data.decode().split("\n\n")
    assert (end, rest) == ("event: end\ndata: {}", "")
    return [decode(frame.splitlines()[1].removeprefix("data: ")) for frame in frames]


def test_complete_response_arrives(site: Site, prompt) -> None:
    response = site.get("ask", prompt("hello"))
    assert response.status == 200
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"
    assert not response.is_cut
    events = frames_of(response.data)
    assert grammar.check(events) == []
    text = "".join(event.delta for event in events if isinstance(event, ls.TextDelta))
    assert text == "Once upon a time there was a stream. " * 50


def test_refusal_is_a_status(site: Site, prompt) -> None:
    response = site.get("ask", prompt("refused"))
    assert response.status == 429
    assert response.headers["retry-after"] == "7"
    data = response.data
    assert b'"code":"rate-limited"' in data
    assert b"10.0.0.7" not in data


def test_plain_bodies_are_sent(site: Site) -> None:
    response = site.get("plain", "text")
    assert (response.status, response.data) == (409, b"Reload the page.")
    response = site.get("plain", "empty")
    assert (response.status, response.data, response.is_cut) == (204, b"", False)


def test_early_defect_is_a_status(site: Site) -> None:
    response = site.get("failing", "early")
    assert response.status == 500
    assert b"stream-start" not in response.data


def test_later_defect_cuts_connection(site: Site, prompt) -> None:
    """Not a clean end: half a response must not pass for a complete one."""
    response = site.get("failing", prompt("late"))
    assert response.status == 200
    assert response.is_cut


def test_broken_text_cuts_connection(site: Site, prompt) -> None:
    """Plain text has no other form for an error of the vendor."""
    response = site.get("text", prompt("broken"))
    assert response.status == 200
    assert response.is_cut


def test_leaving_in_silence_closes(site: Site, prompt, vendor, until, record_property) -> None:
    asked = prompt("silent")
    client = site.connect("ask", asked)
    client.read_until(b"Once")
    assert not vendor.was_left(asked)
    left = time.monotonic()
    client.close()
    until(lambda: vendor.was_left(asked), "the vendor's socket is closed")
    record_property("seconds", time.monotonic() - left)


def test_leaving_before_the_head(site: Site, prompt, vendor, until) -> None:
    """The status waits for content that does not come."""
    asked = prompt("mute")
    client = site.connect("ask", asked)
    until(lambda: vendor.request(asked), "the vendor is asked")
    client.close()
    until(lambda: vendor.was_left(asked), "the vendor's socket is closed")


def test_slow_reader_holds_source(site: Site, prompt, until) -> None:
    asked = prompt("flood")
    client = site.connect("flood", asked, window=4096)
    client.read_until(b"xxx")
    seen: list[int] = []

    def stands() -> bool:
        seen.append(site.server.state()["taken"][asked])
        time.sleep(0.1)
        return len(seen) > 3 and seen[-1] == seen[-4]

    until(stands, "the source is held back")
    assert seen[-1] < 40_000_000  # the kernel's buffers; waitress has another 16 MB in a file
    client.close()
    until(lambda: site.server.state()["left"].get(asked), "the source is left")


def test_lost_client_is_given_up(site: Site, prompt, until) -> None:
    """Its machine is off, so that no packet ever says that it has left."""
    asked = prompt("flood")
    client = site.connect("lost", asked, window=4096)
    client.read_until(b"xxx")
    until(lambda: site.server.state()["left"].get(asked), "the source is left")
    if site.server.name != "waitress":  # which has 16 MB to send first
        assert not client.read_to_end().endswith(b"0\r\n\r\n")


@pytest.mark.parametrize(
    "count", [30, pytest.param(150, marks=pytest.mark.slow), pytest.param(1000, marks=EXHAUSTIVE)]
)
def test_aborted_streams_leave_no_task(site: Site, prompt, vendor, until, count: int) -> None:
    if site.is_wsgi:
        pytest.skip("a WSGI server has no tasks of its own")
    site.get("ask", prompt("hello"))
    before = site.server.state()["tasks"]
    asked = []
    for number in range(count):
        asked.append(prompt("silent" if number % 2 else "hello"))
        client = site.connect("ask", asked[-1])
        if number % 3:
            client.read_until(b"data:")
        if number % 5 == 0:  # an abrupt end: RST in place of FIN
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
    until(lambda: not left(site.server.state()["tasks"], before), "all tasks are over")


def left(now: list[str], before: list[str]) -> Counter[str]:
    """Tasks that there are more of, but for those of a server's idle connections."""
    found = Counter(now) - Counter(before)
    return Counter({name: number for name, number in found.items() if name not in IDLE})


def test_head_asks_no_model(site: Site, prompt, vendor) -> None:
    if site.framework not in ("plain", "starlette", "aiohttp"):
        pytest.skip("the framework responds itself")
    asked = prompt("hello")
    response = site.get("ask", asked, "HEAD")
    assert (response.status, response.data) == (200, b"")
    assert response.headers["content-type"] == "text/event-stream"
    assert vendor.request(asked) is None


def test_headers_of_frameworks_are_sent(started, prompt) -> None:
    server = started("uvicorn-httptools")
    response = server.get(f"/middleware/ask?prompt={prompt('hello')}")
    cookies = response.headers.get_all("set-cookie")
    assert [cookie.partition(";")[0] for cookie in cookies] == ["first=1", "second=2"]
    assert response.headers["x-middleware"] == "yes"
    assert response.headers.get_all("content-type") == ["text/event-stream"]


def test_frames_are_not_collected(site: Site, prompt) -> None:
    """The first frames arrive while the vendor is silent."""
    client = site.connect("ask", prompt("silent"))
    assert b"Once" in client.read_until(b"text-delta")
    client.close()
