"""The handle of a stream, against real servers."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib.util
import json
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import ErrorEvent, Finish, StreamStart, TextDelta
from llmstream.grammar import check
from llmstream.transport.sessions import current_session

_spec = importlib.util.spec_from_file_location("sse_server", Path(__file__).parent / "sse_server.py")
assert _spec is not None
assert _spec.loader is not None
sse = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(sse)

KEY = "sk-secret-canary-0123456789"
SLOW = [sse.chunk("Hel"), 30.0, sse.chunk("lo")]


def model(url: str, **options: object) -> ls.Model:
    return ls.Model("openai:m1", base_url=url, api_key=KEY, **options)  # type: ignore[arg-type]


async def hello(request: web.Request) -> web.StreamResponse:
    return await sse.answer(request, sse.HELLO)


class Watched:
    """A handler that notes when its client has gone."""

    def __init__(self, pieces: list[bytes | float]) -> None:
        self.pieces = pieces
        self.gone = asyncio.Event()
        self.asked = False

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        self.asked = True
        try:
            return await sse.answer(request, self.pieces)
        except (asyncio.CancelledError, ConnectionError):
            self.gone.set()
            raise

    async def was_left(self) -> None:
        """Fails unless the client went, or went before it had asked."""
        async with asyncio.timeout(1):
            if self.asked:
                await self.gone.wait()


async def test_events_views_and_conversation(serve) -> None:
    stream = model(await serve(hello)).stream("Hi", instructions="Be brief.")
    events = [event async for event in stream]
    assert check(events) == []
    assert stream.text == "Hello"
    assert stream.finish_reason == "stop"
    assert stream.usage.total_tokens == 5
    assert stream.error is None
    assert stream.current == events[-1]
    assert [(m.role, m.text) for m in stream.messages()] == [
        ("system", "Be brief."),
        ("user", "Hi"),
        ("assistant", "Hello"),
    ]


async def test_second_iteration_is_refused(serve) -> None:
    stream = model(await serve(hello)).stream("Hi")
    message = await stream.collect()
    with pytest.raises(
        ls.InvalidRequest, match="has been read to its end, and a response can be read only once"
    ):
        aiter(stream)
    with pytest.raises(ls.InvalidRequest, match="read only once"):
        await anext(stream.text_deltas())
    assert await stream.collect() is message
    assert await stream.next() is False


async def test_left_stream_gives_nothing_more(serve) -> None:
    async with model(await serve(hello)).stream("Hi") as stream:
        async for _ in stream:
            break
    assert [event async for event in stream] == []


async def test_the_views_keep_step_with_the_reader(serve) -> None:
    seen = []
    async with model(await serve(hello)).stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                seen.append(stream.text)
    assert seen == ["Hel", "Hello"]


async def test_next_and_current_step_through(serve) -> None:
    stream = model(await serve(hello)).stream("Hi")
    kinds = []
    while await stream.next():
        kinds.append(type(stream.current))
    assert kinds[0] is StreamStart
    assert kinds[-1] is Finish
    assert not await stream.next()


async def test_text_deltas_are_only_text(serve) -> None:
    stream = model(await serve(hello)).stream("Hi")
    assert [text async for text in stream.text_deltas()] == ["Hel", "lo"]


async def test_messages_are_copies(serve) -> None:
    stream = model(await serve(hello)).stream([ls.Message.user("Hi")])
    await stream.collect()
    stream.messages()[0].set_meta("a", 1)
    assert stream.messages()[0].metadata is None


async def test_break_closes_the_socket_at_once(serve) -> None:
    server = Watched(SLOW)
    async with model(await serve(server)).stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    await server.was_left()
    assert stream.text == "Hel"
    assert stream.messages()[-1].text == "Hel"


async def test_exception_closes_socket_at_once(serve) -> None:
    server = Watched(SLOW)
    with pytest.raises(ZeroDivisionError):
        async with model(await serve(server)).stream("Hi") as stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    raise ZeroDivisionError
    await server.was_left()


async def test_cancelling_closes_socket_at_once(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    task = asyncio.create_task(stream.collect())
    while not stream.text:
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await server.was_left()
    assert stream.text == "Hel"


async def test_aclose_closes_and_is_repeatable(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    while not stream.text:
        await stream.next()
    await stream.aclose()
    await stream.aclose()
    await server.was_left()
    assert not await stream.next()


async def test_own_timeout_closes_the_socket(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    while not stream.text:
        await stream.next()
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.1):
            while await stream.next():
                pass
    await server.was_left()


async def test_stream_dropped_midread_warns_closes(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    while not stream.text:
        await stream.next()
    with pytest.warns(ResourceWarning, match="async with"):
        del stream
        gc.collect()
    await server.was_left()


async def test_stream_left_by_break_warns_on_drop(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    async for _ in stream.text_deltas():
        break
    await server.was_left()
    with pytest.warns(ResourceWarning, match="async with"):
        del stream
        gc.collect()


async def test_closed_after_break_does_not_warn(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    async for _ in stream.text_deltas():
        break
    await server.was_left()
    await stream.aclose()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        del stream
        gc.collect()


async def test_two_readers_at_once_are_refused(serve) -> None:
    async with model(await serve(Watched(SLOW))).stream("Hi") as stream:
        first = aiter(stream)
        await anext(first)
        with pytest.raises(ls.InvalidRequest, match="already being read"):
            await anext(aiter(stream))
        await first.aclose()


async def test_concurrent_next_calls_are_refused(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")
    first, second = await asyncio.gather(stream.next(), stream.next(), return_exceptions=True)
    assert first is True
    assert isinstance(second, ls.InvalidRequest)
    await stream.aclose()
    await server.was_left()


async def test_leaving_ends_another_tasks_wait(serve) -> None:
    server = Watched(SLOW)
    stream = model(await serve(server)).stream("Hi")

    async def read() -> None:
        while await stream.next():
            pass

    reader = asyncio.create_task(read())
    while not stream.text:
        await asyncio.sleep(0.005)
    await stream.aclose()
    with pytest.raises(ls.ConnectionLost):
        await reader
    assert await stream.next() is False
    await server.was_left()


async def test_refused_request_ends_and_raises(serve) -> None:
    """Its events obey the grammar."""

    async def refuse(request: web.Request) -> web.StreamResponse:
        key = request.headers["authorization"]
        body = {"error": {"message": f"Incorrect key {key}", "code": "invalid_api_key"}}
        return web.json_response(body, status=401, headers={"x-request-id": "req_1"})

    stream = model(await serve(refuse)).stream("Hi")
    events = []
    with pytest.raises(ls.AuthenticationError) as caught:
        async for event in stream:
            events.append(event)
    assert check(events) == []
    assert [type(e) for e in events] == [StreamStart, ErrorEvent, Finish]
    assert caught.value.request_id == "req_1"
    assert caught.value.status == 401
    assert stream.error is caught.value
    for shown in (str(caught.value), repr(caught.value), repr(events), repr(stream.model)):
        assert KEY not in shown


async def test_errors_as_events_end_quietly(serve) -> None:
    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": {"message": "no"}}, status=400)

    stream = model(await serve(refuse)).stream("Hi", errors="events")
    events = [event async for event in stream]
    assert isinstance(events[-2], ErrorEvent)
    assert isinstance(stream.error, ls.BadRequest)


async def test_short_body_is_an_incomplete_stream(serve) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        return await sse.answer(request, sse.HELLO[:2])

    stream = model(await serve(cut)).stream("Hi")
    events = []
    with pytest.raises(ls.IncompleteStream) as caught:
        async for event in stream:
            events.append(event)
    assert check(events) == []
    assert caught.value.partial.text == "Hello"
    assert caught.value.provider == "openai"
    assert stream.messages()[-1].text == "Hello"


async def test_in_stream_error_keeps_the_partial(serve) -> None:
    async def fail(request: web.Request) -> web.StreamResponse:
        error = b'data: {"error": {"message": "overloaded", "code": 529}}\n\n'
        return await sse.answer(request, [sse.HELLO[0], error])

    stream = model(await serve(fail)).stream("Hi")
    with pytest.raises(ls.Overloaded) as caught:
        await stream.collect()
    assert caught.value.partial.text == "Hel"
    assert caught.value.attempts == 1
    assert await stream_of_tools_ran(stream) == []


async def stream_of_tools_ran(stream: ls.EventStream) -> list[str]:
    return [status.name for status in await stream.call_tools()]


async def test_refusal_retried_before_content(serve) -> None:
    attempts = 0

    async def flaky(request: web.Request) -> web.StreamResponse:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            return web.json_response({"error": "busy"}, status=503, headers={"retry-after": "0"})
        if attempts == 2:
            return await sse.answer(
                request, [b'data: {"error": {"code": "overloaded", "message": "busy"}}\n\n']
            )
        return await sse.answer(request, sse.HELLO)

    retry = ls.Retry(max_retries=2, max_wait_s=0)
    stream = model(await serve(flaky)).stream("Hi", retry=retry)
    events = [event async for event in stream]
    assert check(events) == []
    assert attempts == 3
    assert stream.text == "Hello"


async def test_one_attempt_is_one_attempt(serve) -> None:
    attempts = 0

    async def busy(request: web.Request) -> web.StreamResponse:
        nonlocal attempts
        attempts += 1
        return web.json_response({"error": "busy"}, status=503)

    with pytest.raises(ls.Overloaded):
        await model(await serve(busy)).stream("Hi", retry=ls.Retry(max_retries=0)).collect()
    assert attempts == 1


async def test_long_retry_after_is_not_waited_for(serve) -> None:
    async def busy(request: web.Request) -> web.StreamResponse:
        return web.json_response({"error": "busy"}, status=429, headers={"retry-after": "86400"})

    with pytest.raises(ls.RateLimited) as caught:
        await model(await serve(busy)).stream("Hi").collect()
    assert caught.value.retry_after_s == 86400


@pytest.mark.parametrize(
    ("pieces", "deadlines", "which"),
    [
        ([3000.0], ls.Deadlines(first_event_s=90), "first-event"),
        ([sse.chunk("Hel"), 3000.0], ls.Deadlines(idle_s=90), "idle"),
        ([sse.chunk("Hel"), *[b": ping\n\n", 20.0] * 50], ls.Deadlines(idle_s=90), "idle"),
        ([sse.chunk("Hel"), *[sse.chunk("x"), 20.0] * 50], ls.Deadlines(step_s=90), "step"),
        ([sse.chunk("Hel"), *[sse.chunk("x"), 20.0] * 50], ls.Deadlines(total_s=90), "total"),
    ],
    ids=["silence", "stall", "pings are no progress", "a long step", "a long stream"],
)
async def test_deadline_is_exact_and_names_itself(serve, pieces, deadlines, which, llm_virtual_clock) -> None:
    server = Watched(pieces)
    once = ls.Retry(max_retries=0)
    stream = model(await serve(server)).stream("Hi", deadlines=deadlines, retry=once)
    events = []
    with pytest.raises(ls.DeadlineExceeded, match="Deadlines") as caught:
        async for event in stream:
            events.append(event)
    assert caught.value.reason == which
    assert llm_virtual_clock.elapsed_s == pytest.approx(90)
    assert check(events) == []
    await server.was_left()


async def test_missing_headers_hit_a_deadline(serve, llm_virtual_clock) -> None:
    async def silent(request: web.Request) -> web.StreamResponse:
        await asyncio.sleep(3000)
        return web.Response()

    deadlines = ls.Deadlines(first_event_s=90)
    stream = model(await serve(silent)).stream("Hi", deadlines=deadlines, retry=ls.Retry(max_retries=0))
    with pytest.raises(ls.DeadlineExceeded) as caught:
        await stream.collect()
    assert caught.value.reason == "first-event"
    assert llm_virtual_clock.elapsed_s == pytest.approx(90)


async def test_a_slow_reader_is_no_idle_stream(serve, llm_virtual_clock) -> None:
    stream = model(await serve(hello)).stream("Hi", deadlines=ls.Deadlines(idle_s=90))
    async for event in stream:
        if isinstance(event, TextDelta):
            await asyncio.sleep(100)
    assert stream.text == "Hello"
    assert llm_virtual_clock.elapsed_s == pytest.approx(200)


async def test_full_response_ends_with_open_socket(serve) -> None:
    async def lingering(request: web.Request) -> web.StreamResponse:
        return await sse.answer(request, [*sse.HELLO, 30.0])

    async with asyncio.timeout(5):
        stream = model(await serve(lingering)).stream("Hi")
        message = await stream.collect()
    assert message.text == "Hello"


async def test_connection_reused_after_response(serve) -> None:
    peers = set()

    async def remember(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.add(request.transport.get_extra_info("peername"))
        return await sse.answer(request, sse.HELLO)

    asked = model(await serve(remember))
    for _ in range(3):
        await asked.stream("Hi").collect()
    assert len(peers) == 1


async def test_complete_json_body_reads_as_stream(serve) -> None:
    async def whole(request: web.Request) -> web.StreamResponse:
        message = {"role": "assistant", "content": "Hello"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        return web.json_response({"id": "r", "model": "m", "choices": [choice]})

    stream = model(await serve(whole)).stream("Hi")
    events = [event async for event in stream]
    assert check(events) == []
    assert stream.text == "Hello"


@pytest.mark.parametrize(
    ("body", "kind", "error"),
    [
        (b"<html><title>Sign in</title></html>", "text/html", ls.NotAStream),
        (b'{"hello": 1}', "application/json", ls.NotAStream),
        (
            b'{"error": {"message": "quota", "code": "insufficient_quota"}}',
            "application/json",
            ls.RateLimited,
        ),
        (b"", "text/event-stream", ls.NotAStream),
        (b"<html>Sign in</html>", "text/event-stream", ls.NotAStream),
        (b'{"error": {"message": "busy", "code": 529}}', "text/event-stream", ls.Overloaded),
        (b'{"hello": 1}', "text/event-stream", ls.NotAStream),
        (b": only a comment\n\n", "text/event-stream", ls.IncompleteStream),
    ],
)
async def test_200_without_stream_is_explained(serve, body, kind, error) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return web.Response(body=body, content_type=kind)

    with pytest.raises(error):
        await model(await serve(handler)).stream("Hi", retry=ls.Retry(max_retries=0)).collect()


async def test_redirects_refused_to_protect_keys(serve) -> None:
    seen = []

    async def elsewhere(request: web.Request) -> web.StreamResponse:
        seen.append(request)
        return web.Response()

    target = await serve(elsewhere)

    async def redirect(request: web.Request) -> web.StreamResponse:
        return web.Response(status=307, headers={"location": target})

    with pytest.raises(ls.RedirectRefused, match="base_url"):
        await model(await serve(redirect)).stream("Hi").collect()
    assert seen == []


async def test_a_refused_connection_says_so(unused_tcp_port) -> None:
    url = f"http://127.0.0.1:{unused_tcp_port}"
    with pytest.raises(ls.ConnectionFailed, match="base_url"):
        await model(url).stream("Hi", retry=ls.Retry(max_retries=0)).collect()


async def test_missing_key_has_grammar_and_remedy(monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    events = []
    with pytest.raises(ls.MissingKey, match="Set OPENAI_API_KEY or pass api_key="):
        async for event in ls.stream("openai:m1", "Hi"):
            events.append(event)
    assert check(events) == []


@pytest.mark.parametrize("spec", ["gpt-5", "openai:", ":m", "nobody:m", ""])
def test_unknown_spec_fails_at_once(spec) -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.stream(spec, "Hi")


@pytest.mark.parametrize(
    "options",
    [
        {"temprature": 1},
        {"temperature": "hot"},
        {"tool_choice": "search"},
        {"reasoning": "a lot"},
        {"output": object()},
        {"tools": [print, print]},
    ],
)
def test_a_wrong_option_fails_at_once(options) -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.stream("openai:m1", "Hi", **options)


def test_an_empty_prompt_fails_at_once() -> None:
    with pytest.raises(ls.InvalidRequest, match="empty"):
        ls.stream("openai:m1", [])


async def test_tools_run_and_the_stream_goes_on(serve) -> None:
    bodies = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        if len(bodies) == 1:
            calls = [sse.call("double", '{"n": 2}', "c1"), sse.call("half", '{"n": 4}', "c2", index=1)]
            return await sse.answer(request, [*calls, sse.chunk(reason="tool_calls"), sse.USAGE, sse.DONE])
        return await sse.answer(request, sse.HELLO)

    ran = []

    @ls.tool
    def double(n: int) -> int:
        """Doubles."""
        ran.append(n)
        return 2 * n

    @ls.tool
    async def half(n: int) -> int:
        """Halves."""
        raise ValueError("too small")

    stream = model(await serve(handler)).stream("Go", tools=[double, half])
    await stream.collect()
    statuses = await stream.call_tools()
    assert [str(s) for s in statuses] == [
        "> Ran tool: `double`\n",
        "> Ran tool: `half` - failed: `ValueError: too small`\n",
    ]
    assert await stream_of_tools_ran_again(stream) == "Hello"
    assert ran == [2]
    assert await stream.call_tools() == []
    roles = [m["role"] for m in bodies[1]["messages"]]
    assert roles == ["user", "assistant", "tool", "tool"]
    assert [m.role for m in stream.messages()] == ["user", "assistant", "tool", "assistant"]
    assert stream.total_usage.total_tokens == 10


async def stream_of_tools_ran_again(stream: ls.EventStream) -> str:
    return (await stream.collect()).text


async def test_manual_tool_results_are_added(serve) -> None:
    bodies = []

    async def handler(request: web.Request) -> web.StreamResponse:
        bodies.append(await request.json())
        if len(bodies) == 1:
            pieces = [sse.call("ask", "{}", "c1"), sse.chunk(reason="tool_calls"), sse.DONE]
            return await sse.answer(request, pieces)
        return await sse.answer(request, sse.HELLO)

    stream = model(await serve(handler)).stream("Go", tools=[ls.ToolSpec("ask", "Asks a person.")])
    await stream.collect()
    (pending,) = stream.pending_calls
    with pytest.raises(ls.InvalidRequest, match="c1"):
        stream.add_tool_results(ls.chats.content.ToolResult("c2", "no"))
    stream.add_tool_results(ls.chats.content.ToolResult(pending.id, "yes"))
    assert (await stream.collect()).text == "Hello"
    assert bodies[1]["messages"][-1] == {"role": "tool", "tool_call_id": "c1", "content": "yes"}


async def test_cancelled_call_has_such_a_result(serve) -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        return await sse.answer(
            request, [sse.call("wait", "{}", "c1"), sse.chunk(reason="tool_calls"), sse.DONE]
        )

    started = asyncio.Event()

    @ls.tool
    async def wait() -> str:
        """Waits."""
        started.set()
        await asyncio.sleep(30)
        return "done"

    stream = model(await serve(handler)).stream("Go", tools=[wait])
    await stream.collect()
    task = asyncio.create_task(stream.call_tools())
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    (result,) = stream.messages()[-1].tool_results
    assert result.tool_call_id == "c1"
    assert "cancel" in result.content.lower()


async def test_options_and_headers_reach_the_wire(serve) -> None:
    seen = {}

    async def handler(request: web.Request) -> web.StreamResponse:
        seen["headers"], seen["body"] = request.headers, await request.json()
        return await sse.answer(request, sse.HELLO)

    asked = model(await serve(handler), headers={"x-team": "a"})
    await asked.stream(
        "Hi",
        temperature=0.5,
        max_output_tokens=7,
        headers={"x-run": "1"},
        provider_options={"openai": {"user": "u"}},
    ).collect()
    assert seen["headers"]["authorization"] == f"Bearer {KEY}"
    assert (seen["headers"]["x-team"], seen["headers"]["x-run"]) == ("a", "1")
    assert seen["headers"]["accept-encoding"] == "identity"
    assert seen["body"]["temperature"] == 0.5
    assert seen["body"]["user"] == "u"
    assert seen["body"]["stream"] is True


async def test_header_with_line_break_is_not_sent(serve) -> None:
    with pytest.raises(ls.InvalidRequest, match="control character"):
        await model(await serve(hello)).stream("Hi", headers={"x-a": "b\r\nx-c: d"}).collect()


async def test_bare_events_of_a_model(serve) -> None:
    asked = model(await serve(hello))
    events = [event async for event in asked.events("Hi", include_raw=True)]
    assert check(events) == []
    raws = [e.raw_value for e in events if isinstance(e, ls.Raw)]
    assert raws[0]["choices"][0]["delta"] == {"content": "Hel"}


@pytest.mark.slow
def test_session_closes_with_loop_silently(tmp_path) -> None:
    script = tmp_path / "script.py"
    body = json.dumps({"error": {"message": "no"}})
    script.write_text(
        f"""
import asyncio, gc
from aiohttp import web
import llmstream as ls

async def main():
    async def handler(request):
        return web.Response(text={body!r}, status=400)
    app = web.Application()
    app.router.add_post("/{{path:.*}}", handler)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    url = "http://127.0.0.1:%d" % runner.addresses[0][1]
    try:
        await ls.Model("openai:m", base_url=url, api_key="k").stream("Hi").collect()
    except ls.BadRequest as error:
        print(error.status)
    await runner.cleanup()

for _ in range(2):
    asyncio.run(main())
gc.collect()
"""
    )
    done = subprocess.run(
        [sys.executable, "-W", "error", "-X", "tracemalloc", str(script)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("400\n400\n", "", 0)


def test_import_brings_no_aiohttp() -> None:
    code = (
        "import sys, llmstream as ls; ls.Model; ls.stream; ls.TextDelta; ls.Deadlines(); "
        "ls.stream('openai:m', 'Hi'); print('aiohttp' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


async def test_closed_idle_connection_is_hidden() -> None:
    """The server closed it meanwhile; the caller sees no error."""
    connections = 0

    async def one_answer_each(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        await reader.readuntil(b"Hi")
        body = b"".join(sse.HELLO)
        head = f"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)
        with contextlib.suppress(asyncio.IncompleteReadError):
            await reader.readuntil(b"Hi")  # the next request gets no answer
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(one_answer_each, "127.0.0.1", 0)
    asked = model(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    for _ in range(2):
        message = await asked.stream("Hi", retry=ls.Retry(max_retries=0)).collect()
        assert message.text == "Hello"
    assert connections == 2
    await (await current_session()).close()
    server.close()
    await asyncio.sleep(0.01)  # the server's last handler sees that its client is gone


async def test_flood_after_response_ends_in_time(serve, llm_virtual_clock) -> None:
    pings = [b": ping\n\n", 0.1] * 2000

    async def flood(request: web.Request) -> web.StreamResponse:
        return await sse.answer(request, [sse.chunk("Hello"), sse.chunk(reason="stop"), *pings])

    message = await model(await serve(flood)).stream("Hi").collect()
    assert message.text == "Hello"
    assert llm_virtual_clock.elapsed_s < 5


async def test_refused_key_is_requested_once_more(serve) -> None:
    keys = iter(["old-key", "new-key", "newer-key"])
    seen = []

    async def handler(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["authorization"])
        if seen[-1] == "Bearer old-key":
            return web.json_response({"error": "expired"}, status=401)
        return await sse.answer(request, sse.HELLO)

    asked = ls.Model("openai:m1", base_url=await serve(handler), api_key=lambda: next(keys))
    assert (await asked.stream("Hi").collect()).text == "Hello"
    assert seen == ["Bearer old-key", "Bearer new-key"]


async def test_resend_has_same_idempotency_key(serve) -> None:
    seen = []

    async def flaky(request: web.Request) -> web.StreamResponse:
        seen.append(request.headers["idempotency-key"])
        if len(seen) == 1:
            return web.json_response({"error": "busy"}, status=503, headers={"retry-after": "0"})
        return await sse.answer(request, sse.HELLO)

    asked = model(await serve(flaky))
    await asked.stream("Hi").collect()
    await asked.stream("Hi").collect()
    assert seen[0] == seen[1] != seen[2]


async def test_endless_error_body_hits_a_deadline(serve, llm_virtual_clock) -> None:
    async def slow(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(status=500, headers={"content-type": "application/json"})
        await response.prepare(request)
        await response.write(b'{"error": ')
        await asyncio.sleep(3000)
        return response

    asked = model(await serve(slow), retry=ls.Retry(max_retries=0))
    with pytest.raises(ls.ServerError):
        await asked.stream("Hi", deadlines=ls.Deadlines(first_event_s=90)).collect()
    assert llm_virtual_clock.elapsed_s <= 90


async def test_a_sent_body_is_let_go(serve) -> None:
    """It may have megabytes of images, and a stream may last minutes."""

    async def read_all_of_it(request: web.Request) -> web.StreamResponse:
        async for _ in request.content.iter_any():
            pass
        return await sse.answer(request, SLOW)

    url, prompt = await serve(read_all_of_it), "x" * 4_000_000
    async with model(url).stream("Hi") as stream:  # what the first request loads stays in memory
        await stream.next()
    tracemalloc.start()
    try:
        async with model(url).stream(prompt) as stream:
            while type(stream.current) is not TextDelta:
                assert await stream.next()
            gc.collect()
            held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert held < len(prompt) / 4
