"""What sockets, HTTP and compression can do wrong: rows 1 to 13 and 19 to 21."""

from __future__ import annotations

import asyncio
import socket
import time
import zlib

import pytest

import llmstream as ls
from llmstream.testing import Do, FaultServer, Flood, Trickle, answered, chunked, gzipped, head, no_leaks
from llmstream.transport.sessions import close_session

SSE = {"content-type": "text/event-stream"}


def complete_texts(wire, body: bytes) -> str:
    """The text of the deltas that are whole in a body."""
    text = ""
    if wire.half in body:
        text += "Hel"
        if wire.half + wire.text("lo") in body:
            text += "lo"
    return text


# Row 1
@pytest.mark.parametrize("end", [Do.RESET, Do.FIN])
async def test_a_cut_at_any_byte_is_typed_and_what_was_whole_is_delivered(wire, ask, end) -> None:
    body = wire.whole
    places = range(0, len(wire.half + wire.text("lo")), 31)
    async with FaultServer(*(answered(body[:n], end, end=False) for n in places)) as server:
        for n in places:
            stream = ask.model(wire, server).stream("Hi")
            with pytest.raises((ls.ConnectionLost, ls.ProtocolError)) as caught:
                await stream.collect()
            assert stream.text == complete_texts(wire, body[:n])
            assert caught.value.partial.text_content == stream.text


# Row 1
async def test_what_came_just_before_a_reset_is_delivered_to_a_busy_reader(wire, ask) -> None:
    async with FaultServer(answered(wire.half, wire.text("lo"), 0.02, Do.RESET)) as server, no_leaks():
        seen = []
        with pytest.raises(ls.ConnectionLost):
            async for event in ask.model(wire, server).stream("Hi"):
                if isinstance(event, ls.TextDelta):
                    seen.append(event.delta)
                    await asyncio.sleep(0.1)
        assert seen == ["Hel", "lo"]


# Row 2
async def test_a_clean_end_without_finish_is_incomplete(wire, ask) -> None:
    got = await ask(wire, answered(wire.half))
    assert type(got.error) is ls.IncompleteStream
    assert got.text == "Hel"


# Row 3
@pytest.mark.parametrize("place", ["before the head", "before the body", "in the middle"])
async def test_silence_ends_at_a_deadline(wire, ask, place) -> None:
    script = {
        "before the head": [Do.HANG],
        "before the body": answered(Do.HANG),
        "in the middle": answered(wire.half, Do.HANG),
    }[place]
    got = await ask(wire, script)
    assert isinstance(got.error, ls.DeadlineExceeded)
    assert got.error.reason == ("idle" if place == "in the middle" else "first-event")
    assert got.seconds < 1.2


# Row 4
async def test_heartbeats_are_no_progress(wire, ask) -> None:
    ping = wire.text("") if wire.provider == "anthropic" else b": ping\n\n"
    got = await ask(wire, answered(wire.half, *([ping, 0.05] * 60)))
    assert isinstance(got.error, ls.DeadlineExceeded)
    assert got.seconds < 1.2
    assert got.text == "Hel"


# Row 5
@pytest.mark.parametrize("part", ["head", "body"])
async def test_a_server_that_trickles_is_left_at_the_deadline(wire, ask, part) -> None:
    slow = [Trickle(head(200, SSE) * 9)] if part == "head" else [head(200, SSE), Trickle(wire.whole)]
    got = await ask(wire, slow, deadlines=ls.Deadlines(total_s=0.5))
    assert isinstance(got.error, ls.DeadlineExceeded)
    assert got.error.reason == "total"
    assert got.seconds < 1.2


# Row 6
@pytest.mark.parametrize("bad", [b"zz\r\nhello\r\n", b"-1\r\n", b"ffffffffffffffffffff\r\nx\r\n"])
async def test_a_bad_chunk_header_is_told_at_once_and_the_text_is_kept(wire, ask, bad) -> None:
    for script in (
        [*answered(wire.half, end=False), bad, Do.HANG],
        [b"".join(answered(wire.half, end=False)) + bad, Do.HANG],
    ):
        got = await ask(wire, script, deadlines=ls.Deadlines(idle_s=3))
        assert type(got.error) is ls.ProtocolError
        assert got.text == "Hel"
        assert got.seconds < 1.0


# Row 7
@pytest.mark.parametrize("after", [Do.HANG, Flood(b": ping\n\n")])
async def test_a_call_ends_at_the_terminal_event(wire, ask, after) -> None:
    got = await ask(wire, answered(wire.whole, after, end=False))
    assert got.error is None
    assert got.text == "Hello"
    assert got.seconds < 2.0


# Row 8
@pytest.mark.parametrize(
    "fields", [{"transfer-encoding": "chunked"}, {"content-length": "99999"}], ids=["no last chunk", "length"]
)
async def test_a_complete_answer_in_a_bad_frame_is_complete(wire, ask, fields) -> None:
    body = chunked(wire.whole, end=False) if "transfer-encoding" in fields else [wire.whole]
    got = await ask(wire, [head(200, {**SSE, **fields}), *body, Do.FIN])
    assert got.error is None
    assert got.text == "Hello"


# Row 9
@pytest.mark.parametrize("together", [True, False])
async def test_a_content_length_that_is_too_short_is_no_success(wire, ask, together) -> None:
    script = [head(200, {**SSE, "content-length": str(len(wire.half) + 9)}), wire.whole]
    got = await ask(wire, [b"".join(script)] if together else script)
    assert isinstance(got.error, ls.IncompleteStream | ls.ProtocolError)
    assert got.text == "Hel"


# Row 9
@pytest.mark.parametrize("second", [("transfer-encoding", "chunked"), ("content-length", "12")])
async def test_two_lengths_break_the_rules(wire, ask, second) -> None:
    fields = [*SSE.items(), ("content-length", "11"), second]
    got = await ask(wire, [head(200, fields), *chunked(wire.whole)])
    assert type(got.error) is ls.ProtocolError


# Row 10
@pytest.mark.parametrize("end", [Do.RESET, 0.0], ids=["reset", "closed"])
async def test_a_dead_keep_alive_connection_is_replaced_without_a_retry(wire, ask, end) -> None:
    first = [*answered(wire.whole), Do.REQUEST, end]
    async with FaultServer(first, answered(wire.whole)) as server, no_leaks():
        for _ in range(2):
            stream = ask.model(wire, server).stream("Hi")
            await stream.collect()
            assert stream.text == "Hello"
        assert server.connections == 2
        assert len(server.requests) == 3
        await close_session()


# Row 11
async def test_a_413_before_the_body_is_read_is_reported(wire, ask) -> None:
    refused = [Do.UNREAD, head(413, {"content-length": "2"}), b"{}", Do.FIN]
    got = await ask(wire, refused, prompt="x" * 3_000_000)
    assert isinstance(got.error, ls.BadRequest)
    assert got.error.status == 413


# Row 12
@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_each_compressed_event_is_delivered_at_once(wire, ask, coding) -> None:
    packer = zlib.compressobj(wbits=31 if coding == "gzip" else 15)
    pieces = [packer.compress(p) + packer.flush(zlib.Z_SYNC_FLUSH) for p in (wire.half, wire.rest)]
    script = answered(pieces[0], 0.3, pieces[1], packer.flush(), headers={"content-encoding": coding})
    async with FaultServer(script) as server, no_leaks():
        begun, came = time.monotonic(), []
        async for event in ask.model(wire, server).stream("Hi"):
            if isinstance(event, ls.TextDelta):
                came.append(time.monotonic() - begun)
        assert came[0] < 0.25
        assert came[1] > 0.28
    assert b"accept-encoding: identity" in server.requests[0].lower()


# Row 13
async def test_gzip_that_is_cut_is_incomplete(wire, ask) -> None:
    first, *_ = gzipped(wire.half, wire.rest)
    got = await ask(wire, answered(first, headers={"content-encoding": "gzip"}))
    assert type(got.error) is ls.IncompleteStream
    assert got.text == "Hel"


# Row 13
async def test_damaged_gzip_is_a_decode_error_and_what_came_before_is_kept(wire, ask) -> None:
    first, *_ = gzipped(wire.half, wire.rest)
    got = await ask(wire, answered(first, 0.02, b"\xff" * 64, headers={"content-encoding": "gzip"}))
    assert type(got.error) is ls.DecodeError
    assert got.text == "Hel"


# Row 13
@pytest.mark.parametrize("coding", ["gzip", "rot13", "x-gzip", "gzip, br"])
async def test_a_wrong_or_unknown_coding_is_a_decode_error_that_names_it(wire, ask, coding) -> None:
    got = await ask(wire, answered(wire.whole, headers={"content-encoding": coding}))
    assert type(got.error) is ls.DecodeError
    assert coding in got.error.message


# Row 19
@pytest.mark.parametrize("status", [303, 307])
@pytest.mark.parametrize("target", ["/elsewhere", "http://127.0.0.2:1/", "file:///etc/passwd"])
async def test_redirects_are_refused(wire, ask, status, target) -> None:
    got = await ask(wire, [head(status, {"location": target, "content-length": "0"})])
    assert type(got.error) is ls.RedirectRefused
    assert got.server.connections == 1


# Row 20
async def test_a_refused_connection_and_an_unknown_name_are_typed(wire, ask) -> None:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    for url, kind in (
        (f"http://127.0.0.1:{port}", ls.ConnectionFailed),
        ("http://no.invalid", ls.LLMStreamError),
    ):
        with pytest.raises(kind):
            await ask.model(wire, url).stream("Hi").collect()


# Row 20
async def test_a_server_without_tls_is_no_trusted_one(wire, ask) -> None:
    async with FaultServer([head(200, SSE), wire.whole]) as server:
        with pytest.raises(ls.TransportError):
            await ask.model(wire, server.url.replace("http:", "https:")).stream("Hi").collect()
        assert server.requests == []


# Row 20
async def test_a_proxy_that_refuses_is_a_proxy_error(wire, ask, monkeypatch) -> None:
    async with FaultServer([head(407, {"content-length": "0"})]) as server:
        monkeypatch.setenv("https_proxy", server.url)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(ls.ProxyError):
            await ask.model(wire, "https://vendor.invalid").stream("Hi").collect()


# Row 21
async def test_connections_return_after_every_kind_of_end(wire, ask) -> None:
    async with FaultServer(answered(wire.half, Do.HANG)) as server, no_leaks():
        for _ in range(20):
            async with ask.model(wire, server).stream("Hi") as stream:
                async for event in stream:
                    if isinstance(event, ls.TextDelta):
                        break
        await server.left()


# Threat 9
@pytest.mark.parametrize(
    "flood",
    [
        [b"HTTP/1.1 200 OK\r\n", Flood(b"x-a: b\r\n")],
        [b"HTTP/1.1 200 OK\r\nx: ", Flood(b"b" * 999)],
        [Flood(b"HTTP/1.1 100 Continue\r\n\r\n")],
    ],
    ids=["headers", "one header", "answers before the answer"],
)
async def test_a_flood_of_headers_ends_typed(wire, ask, flood) -> None:
    got = await ask(wire, flood)
    assert isinstance(got.error, ls.ProtocolError | ls.DeadlineExceeded)
    assert got.seconds < 2.0
