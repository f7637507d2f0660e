"""A key put everywhere is found nowhere, whatever goes wrong, on every wire: threats 1, 2, 6 and 19."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import pickle
import traceback
import warnings

import pytest
from faultmatrix.asking import KEY, ONCE, PATIENT, QUICK, answered
from faultmatrix.wires import WIRES

import llmstream as ls
from llmstream.chats.saved import dump_messages
from llmstream.testing import Do, FaultServer, head, record

PLACES = {"x-my-auth": "header-canary-0123456789", "x-api-secret": "second-canary-0123456789"}
THIRD = "third-canary-0123456789"
SECRETS = (KEY, THIRD, *PLACES.values())
JSON = "application/json"


@pytest.fixture(params=WIRES.values(), ids=str)
def wire(request):
    return request.param


def model(wire, server, **options) -> ls.Model:
    url = server if isinstance(server, str) else server.url
    return wire.model(url, **{"api_key": KEY, "retry": ONCE, "deadlines": QUICK, **options})


def shown(value: object) -> str:
    return f"{value!r} {value!s}"


def traces(error: BaseException) -> str:
    lines = traceback.TracebackException.from_exception(error, capture_locals=True).format()
    return "".join(lines) + shown(error) + shown(vars(error)) + shown(error.args)


def found_in(text: str) -> list[str]:
    return [secret for secret in SECRETS if secret in text]


def echo(key: str = KEY) -> bytes:
    error = {"message": f"bad key {key}, {PLACES}", "code": key, "type": key, "reason": key, "status": key}
    return json.dumps({"type": "error", "error": error, "message": key, "request_id": key}).encode()


SCRIPTS = {
    "401": lambda wire: answered(
        wire, echo(), status=401, content_type=JSON, headers={"x-request-id": KEY, "retry-after": KEY}
    ),
    "500 as a page": lambda wire: answered(
        wire, f"<title>{KEY}</title>".encode(), status=500, content_type="text/html"
    ),
    "in a 200": lambda wire: answered(wire, echo(), content_type=JSON),
    "first event": lambda wire: answered(wire, wire.frame(echo(), "error")),
    "mid-stream": lambda wire: answered(wire, wire.half, wire.frame(echo(), "error")),
    "defect": lambda wire: answered(wire, wire.half, wire.frame(b"{" + KEY.encode()), wire.rest),
    "redirect": lambda wire: [
        head(307, {"location": f"http://{KEY}.example/?key={KEY}", "content-length": "0"})
    ],
    "bad frame": lambda wire: [*answered(wire, wire.half, end=False), KEY.encode(), b"\r\n", Do.HANG],
    "bad status": lambda wire: [KEY.encode() + b"\r\n\r\n"],
    "bad header": lambda wire: [b"HTTP/1.1 200 OK\r\n" + KEY.encode() + b"\r\n\r\n"],
    "coding": lambda wire: answered(wire, wire.whole, headers={"content-encoding": KEY}),
    "html": lambda wire: answered(wire, b"<html>" + KEY.encode(), content_type="text/html"),
    "reset": lambda wire: [Do.RESET],
    "whole": lambda wire: answered(wire, wire.whole),
    "silence": lambda wire: [Do.HANG],
}


@pytest.fixture
def everything_logged(caplog):
    caplog.set_level(logging.DEBUG)
    for name in ("llmstream", "aiohttp", "asyncio", "aiohttp.client"):
        caplog.set_level(logging.DEBUG, logger=name)  # restored at the end
    return caplog


# Long enough for a busy machine to send the request, which the test looks for.
SILENT = {"bad frame", "silence"}
SOON = ls.Deadlines(first_event_s=1.0, idle_s=1.0)


async def played(wire, server, name) -> list[str]:
    """All that a run shows of itself."""
    asyncio.get_running_loop().set_debug(True)
    parts: list[str] = []
    seen: list[object] = []
    deadlines = SOON if name in SILENT else PATIENT
    asked = model(wire, server, headers=PLACES, observe=seen.append, deadlines=deadlines)
    stream = asked.stream("Hi", headers={"x-token": THIRD})
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            async for event in stream:
                parts += [shown(event), ls.events.encode(event).decode(), shown(pickle.dumps(event))]
        except ls.LLMStreamError as error:
            again = pickle.loads(pickle.dumps(error))
            parts += [traces(error), shown(error.info), shown(pickle.dumps(error)), traces(again)]
        parts += [shown(asked), shown(stream), shown(stream.message), shown(stream.messages())]
        parts += [shown(stream.error), shown(stream.accumulator), shown(asked.request("Hi", headers=PLACES))]
        parts += [shown(ls.Chat(*stream.messages())), dump_messages(stream.messages()).decode()]
        await stream.aclose()
        gc.collect()
    parts += [str(warning.message) for warning in said]
    parts += [shown(observation) for observation in seen]
    return parts


@pytest.mark.threat(1)
@pytest.mark.parametrize("name", SCRIPTS)
async def test_the_key_is_shown_nowhere(wire, everything_logged, name) -> None:
    async with FaultServer(SCRIPTS[name](wire)) as server:
        parts = await played(wire, server, name)
        assert any(KEY.encode() in request for request in server.requests)
    assert found_in("\n".join([*parts, everything_logged.text])) == []


@pytest.mark.threat(1)
async def test_a_cancel_carries_no_key(wire) -> None:
    async with FaultServer([Do.HANG]) as server:
        task = asyncio.create_task(model(wire, server).stream("Hi").collect())
        await asyncio.sleep(0.05)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert found_in(traces(caught.value)) == []


@pytest.mark.threat(1)
async def test_tool_stack_trace_shows_no_key(wire) -> None:
    @ls.tool
    def look() -> str:
        """Looks."""
        raise ValueError("dark")

    async with FaultServer(answered(wire, wire.calls("{}")), answered(wire, wire.whole)) as server:
        async with model(wire, server).stream("Hi", tools=[look]) as stream:
            statuses = await stream.call_tools()
            await stream.collect()
        exception = statuses[0].exception
        assert exception is not None
        assert found_in(traces(exception) + shown(statuses) + shown(stream.messages())) == []


@pytest.mark.threat(1)
def test_a_model_is_not_pickled(wire) -> None:
    with pytest.raises(TypeError):
        pickle.dumps(model(wire, "http://127.0.0.1:1"))


@pytest.mark.threat(1)
async def test_password_in_address_refused_unshown(wire) -> None:
    with pytest.raises(ls.InvalidRequest) as caught:
        await model(wire, f"http://me:{KEY}@127.0.0.1:1").stream("Hi").collect()
    assert found_in(shown(caught.value)) == []


@pytest.mark.threat(1)
async def test_the_password_of_a_proxy_is_not_told(wire, monkeypatch, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "")
    for port in (1, None):
        async with FaultServer([head(407, {"content-length": "0"})]) as server:
            address = server.url.removeprefix("http://") if port is None else f"127.0.0.1:{port}"
            for name in ("https_proxy", "HTTPS_PROXY"):
                monkeypatch.setenv(name, f"http://me:proxy-canary@{address}")
            with pytest.raises(ls.TransportError) as caught:
                await model(wire, "https://vendor.invalid").stream("Hi").collect()
            said = traces(caught.value) + caplog.text
            assert [line for line in said.splitlines() if "proxy-canary" in line] == []


@pytest.mark.threat(1)
async def test_a_recording_holds_no_key(wire, tmp_path) -> None:
    said = wire.text(KEY)
    async with FaultServer(answered(wire, wire.half, said, wire.rest, headers={"x-echo": KEY})) as server:
        await record(model(wire, server, headers=PLACES), "Hi", tmp_path)
    kept = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file())
    assert b"Hel" in kept
    assert found_in(kept.decode("latin-1")) == []


@pytest.mark.threat(2)
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_a_redirect_takes_no_key_along(wire, status) -> None:
    async with FaultServer(answered(wire, wire.whole)) as other:
        target = {"location": other.url, "content-length": "0"}
        async with FaultServer([head(status, target)]) as server:
            with pytest.raises(ls.RedirectRefused):
                await model(wire, server).stream("Hi").collect()
        assert other.connections == 0


@pytest.mark.threat(6)
@pytest.mark.parametrize("bad", ["a\r\nx: y", "a\nb", "a\rb", "a\0", "\u20ac", "a\u2028b", "a\x85b", "\x7f"])
async def test_smuggled_headers_refused_offline(wire, bad) -> None:
    """No connection is opened."""
    async with FaultServer(answered(wire, wire.whole)) as server:
        for asking in (
            model(wire, server).stream("Hi", headers={"x-mine": bad}),
            model(wire, server, headers={"x-mine": bad}).stream("Hi"),
            model(wire, server).stream("Hi", headers={f"x-{bad}": "a"}),
            model(wire, server, api_key=f"k{bad}").stream("Hi"),
            model(wire, server, api_key=lambda: f"k{bad}").stream("Hi"),
        ):
            with pytest.raises(ls.InvalidRequest):
                await asking.collect()
        assert server.connections == 0


@pytest.mark.threat(19)
async def test_server_text_is_one_log_line_only(wire, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    words = "no\\nERROR forged\\r\\nx\\u2028y\\u001b[31m"
    body = f'{{"error":{{"message":"{words}","code":"{words}"}},"message":"{words}"}}'.encode()
    fields = {"x-request-id": "a b"}
    async with FaultServer(answered(wire, body, status=500, content_type=JSON, headers=fields)) as server:
        with pytest.raises(ls.ServerError):
            await model(wire, server).stream("Hi").collect()
    lines = [r.getMessage() for r in caplog.records if r.name.startswith("llmstream")]
    assert lines
    assert all(line.isprintable() for line in lines)


@pytest.mark.threat(19)
async def test_a_flood_makes_few_lines_in_the_log(wire, caplog) -> None:
    caplog.set_level(logging.DEBUG)
    bad = wire.altered(wire.lo, b'"lo"', b'"\xff"') + wire.frame(b'{"a":')
    async with FaultServer(answered(wire, wire.half, bad * 300, wire.closing)) as server:
        await model(wire, server).stream("Hi", errors="events").collect()
    assert len([r for r in caplog.records if r.name.startswith("llmstream")]) < 20
