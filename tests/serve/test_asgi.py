"""The ASGI adapter against servers and frameworks that behave as few do, but may."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from typing import Any

import anyio
import pytest

import llmstream as ls
from llmstream import serve
from llmstream.events import Event, Finish, StreamStart, TextDelta, TextEnd, TextStart
from llmstream.serve import asgi

GET: dict[str, Any] = {"type": "http", "method": "GET"}
TEXT = (StreamStart(), TextStart("0"), TextDelta("Hi", "0"), TextEnd("0"), Finish("stop"))


class Source:
    """Events, then a silence; records whether it was left."""

    def __init__(self, *events: Event, silent: bool = True) -> None:
        self.events, self.silent, self.left = events, silent, False

    async def __aiter__(self) -> AsyncIterator[Event]:
        try:
            for event in self.events:
                yield event
            if self.silent:
                await asyncio.sleep(60)
        finally:
            self.left = True


class Client:
    """The server's half: what it was sent, and a client that stays."""

    def __init__(self) -> None:
        self.sent: list[MutableMapping[str, Any]] = []
        self.begun = asyncio.Event()

    async def receive(self) -> MutableMapping[str, Any]:
        await asyncio.sleep(60)
        return {"type": "http.disconnect"}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        self.sent.append(message)
        if message["type"] == "http.response.body":
            self.begun.set()

    async def gone(self) -> MutableMapping[str, Any]:
        await self.begun.wait()
        return {"type": "http.disconnect"}


@pytest.mark.parametrize("events", [(), TEXT[:3]], ids=["before the head", "in the body"])
async def test_cancel_scope_leaves_the_source(events: tuple[Event, ...]) -> None:
    """A scope of anyio cancels each await below it anew, so also those that clean up."""
    source, client = Source(*events), Client()
    with anyio.move_on_after(0.05) as scope:
        await asgi.respond(source)(GET, client.receive, client.send)
    assert scope.cancelled_caught
    async with asyncio.timeout(30):
        while not source.left:
            await asyncio.sleep(0)


async def test_disconnect_is_no_error() -> None:
    source, client = Source(*TEXT[:3]), Client()
    await asgi.respond(source)(GET, client.gone, client.send)
    assert source.left
    assert client.sent[-1]["more_body"]


async def test_leaving_early_has_a_head() -> None:
    """Else BaseHTTPMiddleware reports each such client as a defect: "No response returned"."""
    client = Client()
    client.begun.set()
    await asgi.respond(Source())(GET, client.gone, client.send)
    assert client.sent[0] == {"type": "http.response.start", "status": 499, "headers": []}
    assert not client.sent[1]["more_body"]


async def test_early_defect_is_raised_alone() -> None:
    """The framework has a response of its own for it."""

    async def failing() -> AsyncIterator[Event]:
        raise ZeroDivisionError("ours")
        yield

    client = Client()
    with pytest.raises(ZeroDivisionError):
        await asgi.respond(failing())(GET, client.receive, client.send)
    assert client.sent == []


async def test_refused_write_is_a_disconnect() -> None:
    """By version 2.4 of the specification, `send` raises OSError."""

    class Gone(Client):
        async def send(self, message: MutableMapping[str, Any]) -> None:
            if message["type"] != first_accepted:
                raise OSError("the client has left")

    for first_accepted in ("http.response.start", None):
        source, client = Source(*TEXT[:3]), Gone()
        await asgi.respond(source)(GET, client.receive, client.send)
        assert source.left


async def test_receive_may_not_tell() -> None:
    """As in a test client that has one message to give: the response is complete nevertheless."""

    async def failing() -> MutableMapping[str, Any]:
        raise RuntimeError("no more messages")

    source, client = Source(*TEXT, silent=False), Client()
    await asgi.respond(source)(GET, failing, client.send)
    assert not client.sent[-1]["more_body"]


async def test_failure_is_shown_to_layers() -> None:
    """A message that nobody knows, for layers that would end the body in order."""
    client = Client()
    body = serve.Body(Source(*TEXT[:3], silent=False), serve.TextWriter())
    with pytest.raises(ls.IncompleteStream):
        await asgi.respond(body)(GET, client.receive, client.send)
    assert [message["type"] for message in client.sent] == [
        "http.response.start",
        "http.response.body",
        "llmstream.response.failed",
    ]


async def test_second_request_has_no_head() -> None:
    """An application that is mounted by mistake, not made for each request."""
    application, client = asgi.respond(Source(*TEXT, silent=False)), Client()
    await application(GET, client.receive, client.send)
    client.sent.clear()
    with pytest.raises(ls.InvalidRequest, match="sent once"):
        await application(GET, client.receive, client.send)
    assert client.sent == []
