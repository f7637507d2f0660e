"""Answers that are read on after a break, over real sockets."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import msgspec
import pytest
from aiohttp import web

import llmstream as ls
from llmstream.events import ErrorEvent, Finish, StreamStart, TextDelta, UnsupportedSetting
from llmstream.grammar import check
from llmstream.streams import ResumeToken
from llmstream.testing import no_leaks

RECORDINGS = Path(__file__).parents[1] / "dialects" / "openai_responses" / "recordings"
KEY = "sk-secret-canary-0123456789"
QUICK = ls.Retry(max_retries=2, max_wait_s=0.0)


def frames_of(name):
    """A recording's events, as of an answer in the background."""
    body = (RECORDINGS / f"{name}.sse").read_bytes()
    return [frame + b"\n\n" for frame in body.split(b"\n\n") if frame.strip()]


class Background:
    """A vendor that keeps one answer, and whose connections break.

    breaks: after which event each connection breaks, in order; those after the last hold
    how:    "reset", "end" (as if the body were whole), "half" (inside an event), "stall", "skip"
            (the next event is left out), or "mute" (as "reset", and the rest is never answered)
    made:   what the answer is in one piece, each time that is asked for
    refuse: statuses with which requests for the rest are refused, before they are answered
    """

    def __init__(self, frames, breaks=(), how="reset", refuse=()):
        self.frames = frames
        self.breaks = list(breaks)
        self.how = how
        self.refuse = list(refuse)
        self.made = []
        self.asked = []
        self.keys = []
        self.cancelled = 0

    async def __call__(self, request):
        self.asked.append(f"{request.method} {request.path_qs}")
        self.keys.append(request.headers.get("authorization"))
        if request.path.endswith("/cancel"):
            self.cancelled += 1
            return web.json_response({"status": "cancelled"})
        if request.method == "GET" and not request.query:
            return web.json_response(self.made.pop(0) if self.made else {}, status=200 if self.made else 400)
        if request.method == "GET" and self.refuse:
            error = {"error": {"message": f"no such response for {KEY}", "code": "not_found"}}
            return web.json_response(error, status=self.refuse.pop(0))
        if request.method == "GET" and self.how == "mute":
            await asyncio.Event().wait()
        first = int(request.query.get("starting_after", -1)) + 1
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        if not self.breaks:
            await response.write(b"".join(self.frames[first:]))
            await response.write_eof()
            return response
        end = self.breaks.pop(0)
        await response.write(b"".join(self.frames[first:end]))
        if self.how == "skip":
            await response.write(b"".join(self.frames[end + 1 :]))
        elif self.how == "half":
            await response.write(self.frames[end][: len(self.frames[end]) // 2])
        elif self.how == "stall":
            await asyncio.Event().wait()
        if self.how in ("end", "skip"):
            await response.write_eof()
        else:
            await asyncio.sleep(0.01)  # what was written has gone
            request.transport.abort()
        return response


def model(url, **options):
    return ls.Model("openai-responses:gpt-5", base_url=url, api_key=KEY, **{"retry": QUICK, **options})


async def read(stream):
    events = [event async for event in stream]
    assert check(events) == []
    return events


async def uncut(serve, frames):
    return await read(model(await serve(Background(frames))).stream("Hi", background=True))


@pytest.mark.parametrize("how", ["reset", "end", "half", "skip"])
@pytest.mark.parametrize("name", ["text", "reasoning_and_tools"])
async def test_a_break_after_any_event_is_not_seen(serve, name, how) -> None:
    frames = frames_of(name)
    expected = await uncut(serve, frames)
    server = Background(frames, how=how)
    url = await serve(server)
    async with no_leaks():
        for count in range(1, len(frames) - 1):
            server.breaks, server.asked = [count], []
            assert await read(model(url).stream("Hi", background=True)) == expected
            assert server.asked[1:] == [
                f"GET /responses/{expected[1].id}?stream=true&starting_after={count - 1}"
            ]


async def test_response_cut_anywhere_is_completed(serve) -> None:
    """Tries count from the last event that has come."""
    frames = frames_of("vendor_tools")
    server = Background(frames, breaks=range(1, len(frames)))
    assert await read(model(await serve(server)).stream("Hi", background=True)) == await uncut(serve, frames)
    assert len(server.asked) == len(frames)
    assert set(server.keys) == {f"Bearer {KEY}"}


async def test_events_before_content_are_resumed(serve) -> None:
    """They are given first."""
    frames = frames_of("text")
    server = Background(frames, breaks=[1])
    stream = model(await serve(server)).stream("Hi", background=True)
    async with stream:
        while not (stream.current and stream.resume_token):
            assert await stream.next()
        assert stream.resume_token.sequence_number == 0
        while await stream.next():
            pass
        assert stream.finish_reason == "stop"
    assert [line.split()[0] for line in server.asked] == ["POST", "GET"]


async def test_break_ends_stream_without_option(serve) -> None:
    server = Background(frames_of("text"), breaks=[6])
    options = {"provider_options": {"openai": {"background": True, "store": True}}}
    with pytest.raises(ls.ConnectionLost):
        await model(await serve(server)).stream("Hi", **options).collect()
    assert len(server.asked) == 1


async def test_gap_without_resuming_fails(serve) -> None:
    server = Background(frames_of("text"), breaks=[6], how="skip")
    options = {"provider_options": {"openai": {"background": True, "store": True}}}
    with pytest.raises(ls.ProtocolError, match="events 6 to 6 of the response are missing"):
        await model(await serve(server)).stream("Hi", **options).collect()


@pytest.mark.llm_virtual_clock
async def test_silence_is_a_break(serve) -> None:
    frames = frames_of("text")
    server = Background(frames, breaks=[7], how="stall")
    deadlines = ls.Deadlines(idle_s=90)
    stream = model(await serve(server), deadlines=deadlines).stream("Hi", background=True)
    assert await read(stream) == await uncut(serve, frames)


async def test_the_total_deadline_is_no_break(serve, llm_virtual_clock) -> None:
    server = Background(frames_of("text"), breaks=[7], how="stall")
    deadlines = ls.Deadlines(idle_s=None, total_s=200)
    with pytest.raises(ls.DeadlineExceeded, match="total_s"):
        await model(await serve(server), deadlines=deadlines).stream("Hi", background=True).collect()
    assert len(server.asked) == 1
    assert llm_virtual_clock.elapsed_s == pytest.approx(200)


async def test_endless_rest_ends_with_the_step(serve, llm_virtual_clock) -> None:
    server = Background(frames_of("text"), breaks=[7] * 9, how="stall")
    deadlines = ls.Deadlines(idle_s=50, step_s=120)
    stream = model(await serve(server), deadlines=deadlines, retry=ls.Retry(max_retries=99, max_wait_s=0.0))
    with pytest.raises(ls.DeadlineExceeded):
        await stream.stream("Hi", background=True).collect()
    assert llm_virtual_clock.elapsed_s == pytest.approx(120)


@pytest.mark.parametrize("which", ["step", "total"])
async def test_unanswered_rest_ends_at_deadline(serve, which, llm_virtual_clock) -> None:
    server = Background(frames_of("text"), breaks=[7], how="mute")
    deadlines = ls.Deadlines(idle_s=900, **{f"{which}_s": 200})
    stream = model(await serve(server), deadlines=deadlines).stream("Hi", background=True)
    async with no_leaks():
        with pytest.raises(ls.DeadlineExceeded, match=f"{which}_s"):
            await stream.collect()
        assert llm_virtual_clock.elapsed_s == pytest.approx(200)
    assert stream.text


async def test_refused_rest_raises_original_break(serve) -> None:
    server = Background(frames_of("text"), breaks=[8], refuse=[404])
    stream = model(await serve(server)).stream("Hi", background=True)
    events = []
    with pytest.raises(ls.ConnectionLost, match="Resuming failed: no such response") as caught:
        async for event in stream:
            events.append(event)
    assert check(events) == []
    assert [type(e) for e in events][-2:] == [ErrorEvent, Finish]
    assert KEY not in str(caught.value) + repr(events)
    assert caught.value.partial.text == stream.text != ""
    assert len(server.asked) == 2


def whole_of(frames):
    """The response in one piece, as its events say it."""
    events = [json.loads(frame.partition(b"data: ")[2]) for frame in frames]
    items = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    return {**events[-1]["response"], "output": items}


@pytest.mark.llm_virtual_clock
@pytest.mark.parametrize("name", ["text", "reasoning_and_tools"])
async def test_unstreamed_response_is_polled(serve, name) -> None:
    """OpenAI refuses to stream what is older than five minutes (2026-01)."""
    frames = frames_of(name)
    whole = whole_of(frames)
    expected = model(await serve(Background(frames))).stream("Hi", background=True)
    await expected.collect()
    url = await serve(server := Background(frames))
    for count in range(1, len(frames) - 1):
        server.breaks, server.refuse = [count], [400]
        server.made = [{"status": "queued"}, {"status": "in_progress"}, whole, None]
        stream = model(url).stream("Hi", background=True)
        events = await read(stream)
        assert stream.message == expected.message
        assert events[-1].usage == expected.usage
        assert server.made == [None]
    assert server.asked[-1] == f"GET /responses/{expected.resume_token.response_id}"


async def test_refused_full_response_ends_stream(serve) -> None:
    server = Background(frames_of("text"), breaks=[8], refuse=[400])
    with pytest.raises(ls.ConnectionLost, match="Resuming failed: no such response"):
        await model(await serve(server)).stream("Hi", background=True).collect()
    assert len(server.asked) == 3


async def test_polling_ends_with_the_step(serve, llm_virtual_clock) -> None:
    server = Background(frames_of("text"), breaks=[8], refuse=[400])
    server.made = [{"status": "in_progress"}] * 999
    deadlines = ls.Deadlines(idle_s=20, step_s=120)
    with pytest.raises(ls.DeadlineExceeded, match="step_s"):
        await model(await serve(server), deadlines=deadlines).stream("Hi", background=True).collect()
    assert llm_virtual_clock.elapsed_s == pytest.approx(120, abs=1)


async def test_busy_server_is_asked_again(serve) -> None:
    frames = frames_of("text")
    server = Background(frames, breaks=[8], refuse=[503])
    assert await read(model(await serve(server)).stream("Hi", background=True)) == await uncut(serve, frames)
    assert len(server.asked) == 3


async def test_tries_are_limited_as_retries_are(serve) -> None:
    server = Background(frames_of("text"), breaks=[8], refuse=[500] * 9)
    with pytest.raises(ls.ConnectionLost, match="Resuming failed"):
        await model(await serve(server)).stream("Hi", background=True).collect()
    assert len(server.asked) == 3


async def test_an_observer_hears_of_breaks(serve) -> None:
    heard = []
    server = Background(frames_of("text"), breaks=[8])
    url = await serve(server)
    await model(url, observe=heard.append).stream("Hi", background=True).collect()
    (failed,) = [seen for seen in heard if isinstance(seen, ls.AttemptFailed)]
    (finished,) = [seen for seen in heard if isinstance(seen, ls.CallFinished)]
    assert (failed.error_code, failed.attempt) == ("connection-lost", 1)
    assert (finished.attempts, finished.error_code) == (2, None)


async def test_unsupported_background_is_a_warning(serve) -> None:
    async with ls.Model("sim:demo").stream("Hi", background=True) as stream:
        start, *_ = await read(stream)
    assert isinstance(start, StreamStart)
    (warning,) = start.warnings
    assert isinstance(warning, UnsupportedSetting)
    assert warning.setting == "background"
    assert stream.resume_token is None


async def test_another_process_gets_the_rest(serve) -> None:
    """Left after any event; the token travels as JSON, and what was seen does not come again."""
    frames = frames_of("reasoning_and_tools")
    url = await serve(Background(frames))
    whole = model(url).stream("Hi", background=True)
    expected = await read(whole)
    async with no_leaks():
        for count in range(1, len(expected) + 1):
            seen = []
            async with model(url).stream("Hi", background=True) as left:
                async for event in left:
                    seen.append(event)
                    if len(seen) == count:
                        break
            if left.resume_token is None:
                assert count < 3
                continue
            token = msgspec.json.decode(msgspec.json.encode(left.resume_token), type=ResumeToken)
            rest = model(url).reattach(token)
            events = await read(rest)
            assert left.text + rest.text == whole.text
            calls = [call.id for call in left.message.tool_calls + rest.message.tool_calls]
            # One event of the wire ends an input and makes it a call: seen by half, it comes again.
            assert list(dict.fromkeys(calls)) == [call.id for call in whole.message.tool_calls]
            assert len(calls) == len(set(calls)) or type(seen[-1]) is ls.ToolCall
            assert events[-1] == expected[-1]


async def test_full_response_fetched_and_continued(serve) -> None:
    frames = frames_of("reasoning_and_tools")
    server = Background(frames)
    url = await serve(server)
    first = model(url).stream("Hi", background=True)
    expected = await read(first)
    again = model(url).reattach(first.resume_token, "Hi", from_start=True)
    assert await read(again) == expected
    assert again.messages() == first.messages()
    assert server.asked[-1] == f"GET /responses/{first.resume_token.response_id}?stream=true"
    again.add_tool_results(*(ls.chats.ToolResult(call.id, "ok") for call in again.pending_calls))
    await again.collect()
    assert server.asked[-1] == "POST /responses"


async def test_resumed_stream_survives_a_break(serve) -> None:
    frames = frames_of("text")
    server = Background(frames, breaks=[5, 9])
    token = ResumeToken("openai-responses", "gpt-5", "resp_01text", 6)
    rest = model(await serve(server)).reattach(token)
    await read(rest)
    assert [line.split("?")[1] for line in server.asked] == [
        "stream=true",
        "stream=true&starting_after=4",
        "stream=true&starting_after=8",
    ]


async def test_token_before_reading_is_the_given(serve) -> None:
    token = ResumeToken("openai-responses", "gpt-5", "resp_1", 6)
    assert model(await serve(Background([]))).reattach(token).resume_token == token


@pytest.mark.parametrize(
    ("name", "token", "error"),
    [
        ("openai-responses", ResumeToken("azure-responses", "m", "r"), ls.InvalidRequest),
        ("openai", ResumeToken("openai", "m", "r"), ls.Unsupported),
    ],
)
def test_a_token_of_another_kind_is_refused(name, token, error) -> None:
    with pytest.raises(error):
        ls.Model(f"{name}:m", api_key=KEY).reattach(token)


async def test_an_answer_that_is_forgotten_says_so(serve) -> None:
    url = await serve(Background([], refuse=[404]))
    with pytest.raises(ls.NotFound):
        await model(url).reattach(ResumeToken("openai-responses", "m", "r")).collect()


async def test_leaving_continues_cancelling_stops(serve) -> None:
    """The response at the vendor continues or stops."""
    server = Background(frames_of("text"), breaks=[9, 9], how="stall")
    url = await serve(server)
    for ending in (False, True):
        async with no_leaks():
            async with model(url).stream("Hi", background=True) as stream:
                async for event in stream:
                    if type(event) is TextDelta:
                        break
                if ending:
                    assert await stream.cancel()
            assert stream.text
        assert server.cancelled == ending
    assert server.asked[-1].endswith("/cancel")


async def test_nothing_to_cancel_when_over(serve) -> None:
    """Or when the response is not stored."""
    server = Background(frames_of("text"))
    url = await serve(server)
    over = model(url).stream("Hi", background=True)
    await over.collect()
    assert not await over.cancel()
    assert not await model(url).stream("Hi").cancel()
    assert server.cancelled == 0


async def test_typed_tool_responses_resume_too(serve) -> None:
    from llmstream.simulator import Call, Cut, Script, Simulator, Turn

    script = Script((Turn(calls=(Call("response", {"a": 12345678}),), fault=Cut(after_events=4)),))
    async with Simulator(script) as simulator:
        asked = model(f"{simulator.url}/v1")
        wanted = ls.Output({"type": "object"}, mode="tool")
        stream = asked.stream("Hi", background=True, output=wanted)
        await read(stream)
        assert stream.text == '{"a":12345678}'
        assert stream.resume_token is not None
        assert len(simulator.requests) == 2
