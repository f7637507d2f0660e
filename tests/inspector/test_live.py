"""What `ls.inspect` writes while streams are read."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

import llmstream as ls
from llmstream.inspector import inspect
from llmstream.inspector.exporting import trace_of
from llmstream.inspector.trace import CallEnded, EventsSeen, Frame, Head, Read, RequestSent, lines_of
from llmstream.testing import Do, FaultServer, Pace, Script, Simulator, Turn, answered, cassette
from tests.inspector.conftest import END, KEY, ask, calls_of, chunk
from tests.streams.test_resuming import Background, frames_of, model, read


async def test_reads_and_frames_cover_the_body(traced: Callable[..., Any]) -> None:
    body = [chunk("a"), chunk("b")[:30], chunk("b")[30:] + chunk("c"), END]
    path = await traced([[step for piece in body for step in (piece, 0.01)]])
    lines = list(lines_of(path.read_bytes()))
    frames = [line for line in lines if isinstance(line, Frame)]
    reads = [line for line in lines if isinstance(line, Read)]
    assert b"".join(frame.data for frame in frames) == b"".join(body)
    at = 0
    for frame in frames:
        assert frame.offset == at
        at += frame.size
    # The decoder is done before the end of the body is read.
    assert sum(read.size for read in reads) == at
    assert [read.offset for read in reads] == [sum(r.size for r in reads[:n]) for n in range(len(reads))]
    assert all(later.ns >= earlier.ns for earlier, later in itertools.pairwise(reads))
    offsets = {
        json.loads(bytes(raw)).get("delta"): offset
        for line in lines
        if isinstance(line, EventsSeen)
        for offset, raw in line.events
    }
    assert (offsets["a"], offsets["c"]) == (0, len(chunk("a") + chunk("b")))


async def test_the_reader_gets_the_same_events(tmp_path: Path) -> None:
    pieces = [chunk("a") + chunk("b"), chunk("c"), END]
    plain = await ask(*pieces)
    with inspect(tmp_path / "t.jsonl"):
        assert await ask(*pieces) == plain
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert call.decoded() == plain


async def test_keys_are_not_in_the_file(tmp_path: Path) -> None:
    """Neither those of headers nor those that the server echoes, in one frame or cut by a read."""
    echo = chunk(f"your key is {KEY}, in JSON too")
    path = tmp_path / "t.jsonl"
    with inspect(path, scrub=["hunter2"]):
        await ask(echo, echo[:40], 0.02, echo[40:], END, prompt="my password is hunter2")
    text = path.read_text()
    assert KEY not in text
    assert "hunter2" not in text
    assert "*" * len(KEY) in text
    (call,) = calls_of(path).list()
    assert sum(read.size for read in call.reads) == len(call.body)


async def test_only_the_owner_can_read_it(traced: Callable[..., Any]) -> None:
    path = await traced([[chunk("a"), END]])
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_request_and_head_are_noted(traced: Callable[..., Any]) -> None:
    path = await traced([[chunk("a"), END]])
    lines = list(lines_of(path.read_bytes()))
    (sent,) = [line for line in lines if isinstance(line, RequestSent)]
    (head,) = [line for line in lines if isinstance(line, Head)]
    assert json.loads(sent.body)["messages"] == [{"role": "user", "content": "Hi"}]
    assert sent.headers["authorization"] == "***"
    assert (head.status, head.headers["content-type"]) == (200, "text/event-stream")


async def test_a_broken_stream_ends_cut(traced: Callable[..., Any]) -> None:
    path = await traced([[chunk("a"), chunk("b")[:20], 0.05, Do.RESET], [chunk("a")]])
    ended = [line for line in lines_of(path.read_bytes()) if isinstance(line, CallEnded)]
    assert [line.error is not None and line.error.code for line in ended] == [
        "connection-lost",
        "incomplete-stream",
    ]
    calls = calls_of(path).list()
    assert {call.state for call in calls} == {"cut"}
    assert any(not frame.complete for call in calls for frame in call.frames)


async def test_a_call_that_is_left_says_so(tmp_path: Path) -> None:
    with inspect(tmp_path / "t.jsonl"):
        async with (
            FaultServer(answered(chunk("a"), Do.HANG)) as server,
            ls.stream(ls.Model("deepseek:m", base_url=server.url, api_key=KEY), "Hi") as stream,
        ):
            async for _ in stream.text_deltas():
                break
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert call.state == "left"
    assert call.summary().events >= 2


async def test_attempts_are_noted(tmp_path: Path) -> None:
    with inspect(tmp_path / "t.jsonl"):
        async with FaultServer(
            answered(b"{}", status=503, headers={"retry-after-ms": "1"}), answered(chunk("a"), END)
        ) as server:
            model = ls.Model("deepseek:m", base_url=server.url, api_key=KEY, retry=ls.Retry(max_retries=1))
            await model.ask("Hi")
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert (len(call.requests), [one.status for one in call.failed]) == (2, [503])
    assert [finding.text for finding in call.findings() if finding.kind == "retry"] == [
        "Attempt 1 failed: overloaded (HTTP 503). The next one waited 1 ms."
    ]


async def test_a_refusal_has_its_body(tmp_path: Path) -> None:
    body = b'{"error": {"message": "Slow down, please."}}'
    with inspect(tmp_path / "t.jsonl"):
        async with FaultServer(answered(body, status=429, content_type="application/json")) as server:
            model = ls.Model("deepseek:m", base_url=server.url, api_key=KEY, retry=ls.Retry(max_retries=0))
            with pytest.raises(ls.RateLimited):
                await model.ask("Hi")
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert (call.state, call.body, call.heads[0].status) == ("failed", body, 429)


async def test_one_json_value_is_a_frame(tmp_path: Path) -> None:
    """Of a server that does not stream."""
    message = {"role": "assistant", "content": "All at once."}
    body = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
    with inspect(tmp_path / "t.jsonl"):
        async with FaultServer(answered(body, content_type="application/json")) as server:
            model = ls.Model("deepseek:m", base_url=server.url, api_key=KEY)
            assert (await model.ask("Hi")).text == "All at once."
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert b"All at once." in call.body
    assert call.summary().reads == 1


async def test_a_websocket_is_traced_and_steered(tmp_path: Path) -> None:
    long = Turn(text="one two three four five six seven eight nine ten", pace=Pace(delta_s=0.02))
    with inspect(tmp_path / "t.jsonl"):
        async with Simulator(Script((long, Turn(text="Deux mots.")))) as simulator:
            model = ls.Model(
                "openai-responses:gpt-5",
                base_url=simulator.url + "/v1",
                api_key=KEY,
                transport="websocket",
            )
            async with model.stream("Count") as stream:
                async for event in stream:
                    if isinstance(event, ls.TextDelta) and "two" in event.delta:
                        await stream.steer("Stop. In French.")
    assert stream.text.endswith("Deux mots.")
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    deltas = [seen for seen in call.events if seen.kind == "text-delta"]
    assert all(b"response.output_text.delta" in call.frames[seen.frame].data for seen in deltas)
    assert call.state == "complete"


async def test_streams_at_once_are_told_apart(tmp_path: Path) -> None:
    with inspect(tmp_path / "t.jsonl"):
        await asyncio.gather(*[ask(chunk(f"{n}"), 0.02, chunk("!"), END) for n in range(8)])
    calls = calls_of(tmp_path / "t.jsonl").list()
    texts = {"".join(getattr(event, "delta", "") for event in call.decoded()) for call in calls}
    assert texts == {f"{n}!" for n in range(8)}


async def test_agents_and_tools_are_traced(tmp_path: Path) -> None:
    def weather(city: str) -> str:
        """Tell the weather."""
        return f"{city}: 3 degrees"

    with inspect(tmp_path / "t.jsonl"):
        run = await ls.Agent("sim:demo", tools=[weather]).run("How is the weather in Oslo?")
    assert "3 degrees" in run.text
    first, second = reversed(calls_of(tmp_path / "t.jsonl").list())
    assert "tool-call" in [seen.kind for seen in first.events]
    assert b"3 degrees" in second.requests[0].body.encode()


async def test_structured_output_by_a_tool(tmp_path: Path) -> None:
    """Text that is made of a tool's input belongs to the frames of that input."""

    class City(msgspec.Struct):
        name: str

    with inspect(tmp_path / "t.jsonl"):
        async with Simulator() as simulator:
            model = ls.Model("anthropic:claude-3-5-haiku-latest", base_url=simulator.url, api_key="k")
            city = await model.ask("A city, please.", output=City)
    assert city.name
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert all(seen.frame >= 0 for seen in call.events if seen.kind == "text-delta")


async def test_a_cassette_within_is_not_bypassed(tmp_path: Path) -> None:
    """The events of a cassette are traced, without bytes."""
    for _ in range(2):
        with cassette("c", folder=tmp_path), inspect(tmp_path / "t.jsonl"):
            await ls.Model("sim:demo").ask("Hi")
    first, second = sorted(calls_of(tmp_path / "t.jsonl").list(), key=lambda call: call.began_at)
    assert [seen.kind for seen in first.events] == [seen.kind for seen in second.events]
    assert not second.frames


async def test_nothing_is_traced_after_it(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    traced = inspect(path)
    await ask(chunk("a"), END)
    traced.close()
    traced.close()
    size = path.stat().st_size
    await ask(chunk("a"), END)
    assert path.stat().st_size == size
    assert "closed" in repr(traced)


async def test_an_untraced_call_is_not_wrapped() -> None:
    """Off, neither body nor decoder are looked at: a plan has nothing to call."""
    call = ls.Model("sim:demo").call(ls.Model("sim:demo").request("Hi"))
    assert call._plan.body is None
    assert type(call).__name__ == "HTTPCall"
    await call.aclose()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ls.InvalidRequest, match="cannot write the trace"):
        inspect(tmp_path / "file" / "t.jsonl")


def test_the_default_folder_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LLMSTREAM_TRACES", str(tmp_path))
    for n in range(60):
        (tmp_path / f"2020-{n:03}.jsonl").touch()
    with inspect() as traced:
        assert traced.path.parent == tmp_path
    assert len(list(tmp_path.glob("*.jsonl"))) == 50
    assert traced.path.exists()


@pytest.mark.parametrize("how", ["reset", "half"])
async def test_a_resumed_answer_is_one_call(serve: Any, tmp_path: Path, how: str) -> None:
    """Of two bodies: offsets go on, and half a frame is in the first one."""
    frames = frames_of("text")
    server = Background(frames, breaks=[len(frames) // 2], how=how)
    plain = await read(model(await serve(Background(frames))).stream("Hi", background=True))
    with inspect(tmp_path / "t.jsonl"):
        assert await read(model(await serve(server)).stream("Hi", background=True)) == plain
    (call,) = calls_of(tmp_path / "t.jsonl").list()
    assert call.decoded() == plain
    assert [request.method for request in call.requests] == ["POST", "GET"]
    assert call.heads[0].offset == 0
    first = [frame for frame in call.frames if frame.offset < call.heads[1].offset]
    assert call.heads[1].offset == sum(frame.size for frame in first)
    assert any(not frame.complete for frame in call.frames) == (how == "half")
    (tmp_path / "again.jsonl").write_bytes(trace_of(call))
    assert calls_of(tmp_path / "again.jsonl").list()[0].body == call.body
