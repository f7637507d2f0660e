"""A key put everywhere is found nowhere: threats 1, 2 and 6."""

from __future__ import annotations

import asyncio
import json
import logging
import pickle
import traceback

import pytest

import llmstream as ls
from llmstream.testing import Do, FaultServer, answered, head, record

PLACES = {"x-my-auth": "header-canary-0123456789", "x-api-secret": "second-canary-0123456789"}


def shown(value: object) -> str:
    return f"{value!r} {value!s}"


def traces(error: BaseException) -> str:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    return "".join(lines) + shown(error) + shown(vars(error)) + shown(error.args)


def scripts(wire, key: str):
    echo = json.dumps(
        {"type": "error", "error": {"message": f"bad key {key}, {PLACES}", "code": key, "type": key}}
    ).encode()
    kind = "application/json"
    return {
        "401": answered(echo, status=401, content_type=kind, headers={"x-request-id": key}),
        "in a 200": answered(echo, content_type=kind),
        "first event": answered(b"event: error\ndata: " + echo + b"\n\n"),
        "mid-stream": answered(wire.half, b"event: error\ndata: " + echo + b"\n\n"),
        "defect": answered(wire.half, b"data: {" + key.encode() + b"\n\n", wire.rest),
        "redirect": [head(307, {"location": f"http://{key}.example/?key={key}", "content-length": "0"})],
        "bad frame": [*answered(wire.half, end=False), key.encode(), b"\r\n", Do.HANG],
        "bad status": [key.encode() + b"\r\n\r\n"],
        "coding": answered(wire.whole, headers={"content-encoding": key}),
        "html": answered(b"<html>" + key.encode(), content_type="text/html"),
        "reset": [Do.RESET],
        "whole": answered(wire.whole),
        "silence": [Do.HANG],
    }


NAMES = [
    "401",
    "in a 200",
    "first event",
    "mid-stream",
    "defect",
    "redirect",
    "bad frame",
    "bad status",
    "coding",
    "html",
    "reset",
    "whole",
    "silence",
]


@pytest.mark.parametrize("name", NAMES)
async def test_the_key_is_shown_nowhere(wire, ask, caplog, name) -> None:
    caplog.set_level(logging.DEBUG)
    for logger in ("llmstream", "aiohttp", "asyncio"):
        logging.getLogger(logger).setLevel(logging.DEBUG)
    parts = []
    async with FaultServer(scripts(wire, ask.key)[name]) as server:
        model = ask.model(wire, server, headers=PLACES)
        stream = model.stream("Hi", headers={"x-token": "third-canary-0123456789"})
        try:
            async for event in stream:
                parts += [shown(event), ls.events.encode(event).decode()]
        except ls.LLMStreamError as error:
            parts += [traces(error), shown(error.info), shown(pickle.dumps(error))]
        parts += [shown(model), shown(stream), shown(stream.message), shown(stream.messages())]
        parts += [shown(stream.error), shown(model.request("Hi", headers=PLACES))]
        assert any(ask.key.encode() in request for request in server.requests)
    parts.append(caplog.text)
    text = "\n".join(parts)
    assert [s for s in (ask.key, "third-canary-0123456789", *PLACES.values()) if s in text] == []


async def test_a_cancel_carries_no_key(wire, ask) -> None:
    async with FaultServer([Do.HANG]) as server:
        task = asyncio.create_task(ask.model(wire, server).stream("Hi").collect())
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        lines = traceback.TracebackException.from_exception(caught.value, capture_locals=True).format()
        assert ask.key not in "".join(line for line in lines if "ask =" not in line)


def test_a_model_is_not_pickled(wire, ask) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(ask.model(wire, "http://127.0.0.1:1"))


async def test_a_password_in_the_address_is_refused_and_not_told(wire, ask) -> None:
    with pytest.raises(ls.InvalidRequest) as caught:
        await ask.model(wire, f"http://me:{ask.key}@127.0.0.1:1").stream("Hi").collect()
    assert ask.key not in shown(caught.value)


async def test_the_password_of_a_proxy_is_not_told(wire, ask, monkeypatch, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("no_proxy", "")
    for port in (1, None):
        async with FaultServer([head(407, {"content-length": "0"})]) as server:
            address = server.url.removeprefix("http://") if port is None else f"127.0.0.1:{port}"
            monkeypatch.setenv("https_proxy", f"http://me:proxy-canary@{address}")
            with pytest.raises(ls.TransportError) as caught:
                await ask.model(wire, "https://vendor.invalid").stream("Hi").collect()
            said = traces(caught.value) + caplog.text
            assert [line for line in said.splitlines() if "proxy-canary" in line] == []


# Threat 2
async def test_a_redirect_takes_no_key_along(wire, ask) -> None:
    async with FaultServer(answered(wire.whole)) as other:
        target = {"location": other.url, "content-length": "0"}
        async with FaultServer([head(307, target)]) as server:
            with pytest.raises(ls.RedirectRefused):
                await ask.model(wire, server).stream("Hi").collect()
        assert other.connections == 0


# Threat 6
@pytest.mark.parametrize("bad", ["a\r\nx: y", "a\nb", "a\0", "\u20ac"])
async def test_headers_that_smuggle_are_refused_before_a_connection(wire, ask, bad) -> None:
    async with FaultServer(answered(wire.whole)) as server:
        with pytest.raises(ls.InvalidRequest):
            await ask.model(wire, server).stream("Hi", headers={"x-mine": bad}).collect()
        with pytest.raises(ls.InvalidRequest):
            await ask.model(wire, server, api_key=f"k{bad}").stream("Hi").collect()
        assert server.connections == 0


async def test_a_recording_holds_no_key(wire, ask, tmp_path) -> None:
    echo = wire.text(ask.key)
    async with FaultServer(answered(wire.half, echo, wire.rest)) as server:
        await record(ask.model(wire, server), "Hi", tmp_path)
    kept = b"".join(path.read_bytes() for path in tmp_path.iterdir())
    assert b"Hel" in kept
    assert ask.key.encode() not in kept
