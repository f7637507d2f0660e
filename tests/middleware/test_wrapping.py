"""A model in a middleware is a model: same handle, same laws, nothing left open."""

from __future__ import annotations

import asyncio
import gc
import json
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any

import pytest

import llmstream as ls
from llmstream.events import Event, TextDelta
from llmstream.grammar import check
from llmstream.middleware import Ask, Middleware, wrap
from llmstream.request import Request
from llmstream.simulator import Call, Turn
from llmstream.testing import (
    Cut,
    Do,
    FaultServer,
    Refuse,
    Script,
    ScriptedModel,
    Simulator,
    Stall,
    answered,
    no_leaks,
)
from tests.cancelling import CancelledAt


async def shout(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    async for event in ask(request):
        yield TextDelta(event.delta.upper(), event.id) if isinstance(event, TextDelta) else event


class Noted:
    """A middleware that passes everything, and notes in which task it was ended."""

    def __init__(self) -> None:
        self.began = 0
        self.ended: list[asyncio.Task[Any] | None] = []

    async def __call__(self, request: Request, ask: Ask) -> AsyncGenerator[Event]:
        self.began += 1
        try:
            async for event in ask(request):
                yield event
        finally:
            self.ended.append(asyncio.current_task())


@ls.tool
def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_the_handle_works_as_ever() -> None:
    turns = Turn(text="Let me see.", calls=(Call("add", {"a": 1, "b": 2}),)), "It is three."
    inputs = []
    async with wrap(ScriptedModel(*turns), shout).stream("1 + 2?", tools=[add]) as stream:
        async for event in stream:
            if isinstance(event, ls.ToolInputDelta):
                inputs.append(stream.tool_input(event.id))
        (status,) = await stream.call_tools()
        assert status.result.content == "3"
        assert (await stream.collect()).text == "IT IS THREE."
        assert await stream.call_tools() == []
    assert inputs[-1] == {"a": 1, "b": 2}
    assert [message.role for message in stream.messages()] == ["user", "assistant", "tool", "assistant"]


async def test_typed_answers_pass(read: Any) -> None:
    model = wrap(ScriptedModel('{"name": "Oslo", "people": 7}'), Noted())
    async with model.stream("Which?", output=dict[str, Any]) as stream:
        values = [value async for value in stream.objects()]
    assert values[-1] == stream.object == {"name": "Oslo", "people": 7}


async def test_an_agent_takes_a_wrapped_model() -> None:
    model = wrap(ScriptedModel(Turn(calls=(Call("add", {"a": 1, "b": 2}),)), "Three."), shout)
    async with ls.Agent(model, tools=[add]).stream("1 + 2?") as run:
        assert check([event async for event in run]) == []
    assert run.text == "THREE."
    assert run.statuses[0].result.content == "3"


async def test_wrapped_model_can_be_wrapped_again() -> None:
    """The first middleware is nearest to the model."""

    async def dots(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        async for event in ask(request):
            yield TextDelta(event.delta + "x", event.id) if isinstance(event, TextDelta) else event

    assert (await wrap(ScriptedModel("a"), dots, shout).stream("Hi").collect()).text == "AX"
    assert (await wrap(ScriptedModel("a"), shout, dots).stream("Hi").collect()).text == "Ax"


async def test_the_bare_events_pass_too() -> None:
    events = [event async for event in wrap(ScriptedModel("a"), shout).events("Hi")]
    assert check(events) == []
    assert "A" in [event.delta for event in events if isinstance(event, TextDelta)]


async def test_a_middleware_may_change_the_request() -> None:
    async def briefly(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        settings = ls.Settings(max_output_tokens=5)
        async for event in ask(Request(model=request.model, messages=request.messages, settings=settings)):
            yield event

    inner = ScriptedModel("a")
    await wrap(inner, briefly).stream("Hi", temperature=1).collect()
    assert inner.requests[0].settings == ls.Settings(max_output_tokens=5)


def test_attributes_are_the_inner_models() -> None:
    inner = ls.Model("openai:m", api_key="not-a-key")
    model = wrap(inner, shout)
    assert (model.name, model.provider.name, repr(model)) == ("m", "openai", "Model(openai:m) in shout")
    model.retry = ls.Retry(max_retries=7)
    assert inner.retry.max_retries == 7
    with pytest.raises(AttributeError):
        model.nothing  # type: ignore[attr-defined]


def test_without_middleware_model_is_itself() -> None:
    inner = ScriptedModel("a")
    assert wrap(inner) is inner
    assert wrap("sim:demo").name == "demo"


async def test_observers_of_the_model_are_told() -> None:
    told: list[ls.Observation] = []
    async with Simulator(Script((Turn(text="Hello"),))) as simulator:
        model = wrap(ls.Model("openai:m", base_url=simulator.url + "/v1", api_key="not-used"), shout)
        model.observe = told.append
        await model.stream("Hi").collect()
    assert [type(observation) for observation in told] == [
        ls.AttemptStarted,
        ls.FirstContent,
        ls.CallFinished,
    ]


# -- sentences


async def nothing(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    for event in list[Event]():
        yield event


async def half(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    async for event in ask(request):
        yield event
        if isinstance(event, TextDelta):
            return


async def junk(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    yield TextDelta("no start", "1")
    yield ls.StreamStart()
    yield ls.TextEnd("2")
    yield ls.ToolInputStart("f", "1")
    async for event in ask(request):
        yield event
    yield ls.TextDelta("after finish", "9")


async def refuses(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    if request.messages:
        raise ls.ContentFiltered("not that word")
    yield ls.StreamStart()


async def breaks(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    async for event in ask(request):
        if isinstance(event, TextDelta):
            raise ls.ContentFiltered("not that word")
        yield event


async def swallows_finish(request: Request, ask: Ask) -> AsyncGenerator[Event]:
    async for event in ask(request):
        if not isinstance(event, ls.Finish):
            yield event


@pytest.mark.parametrize("middleware", [nothing, half, junk, refuses, breaks, swallows_finish, shout])
@pytest.mark.parametrize(
    "fault", [None, Refuse(status=503), Cut(after_events=3), Cut(after_events=3, clean=True)]
)
async def test_grammar_holds_for_any_middleware(middleware: Middleware, fault: Any, read: Any) -> None:
    model = ScriptedModel(Turn(text="one two three", fault=fault), repeat_last=True)
    seen = await read(wrap(model, middleware))
    assert len(seen.of(ls.ErrorEvent)) <= 1
    outer = await read(wrap(model, middleware, shout))
    assert [type(event) for event in outer.events] == [type(event) for event in seen.events]


async def test_model_failure_is_stream_failure(read: Any) -> None:
    seen = await read(wrap(ScriptedModel(Turn(text="one two", fault=Cut(after_events=3))), shout))
    assert isinstance(seen.error, ls.ConnectionLost)
    assert seen.error.partial.text == seen.text == "ONE"
    assert seen.events[-1].finish_reason == "error"


async def test_early_middleware_end_is_incomplete(read: Any) -> None:
    seen = await read(wrap(ScriptedModel("one two three"), half))
    assert isinstance(seen.error, ls.IncompleteStream)
    assert "half" in str(seen.error)


async def test_error_events_stay_quiet_if_asked() -> None:
    model = wrap(ScriptedModel(Turn(fault=Refuse(status=503))), shout)
    async with model.stream("Hi", errors="events") as stream:
        events = [event async for event in stream]
    assert isinstance(events[-2], ls.ErrorEvent)
    assert isinstance(stream.error, ls.Overloaded)


async def test_middleware_bug_raised_nothing_open() -> None:
    async def buggy(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        async for event in ask(request):
            yield event
            if isinstance(event, TextDelta):
                raise ZeroDivisionError

    async with (
        Simulator(Script((Turn(text="one two", fault=Stall(after_events=4)),))) as simulator,
        no_leaks(),
    ):
        model = wrap(ls.Model("openai:m", base_url=simulator.url + "/v1", api_key="not-used"), buggy)
        with pytest.raises(ZeroDivisionError):
            await model.stream("Hi").collect()


async def test_a_coroutine_is_no_middleware() -> None:
    async def wrong(request: Request, ask: Ask) -> None:
        return None

    with pytest.raises(ls.InvalidRequest, match="wrong"):
        await wrap(ScriptedModel("a"), wrong).stream("Hi").collect()  # type: ignore[arg-type]


# -- leaving


def said(text: str, reason: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": reason or None}
    return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"


def stalling(*middleware: Middleware) -> tuple[Simulator, Any]:
    simulator = Simulator(Script((Turn(text="one two three four", fault=Stall(after_events=4)),)))
    return simulator, lambda: wrap(
        ls.Model("openai:m", base_url=simulator.url + "/v1", api_key="not-used"), *middleware
    )


async def leave_by_break(model: ls.Model) -> ls.EventStream:
    async with model.stream("Hi") as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break
    return stream


async def leave_by_exception(model: ls.Model) -> ls.EventStream:
    stream = model.stream("Hi")
    with pytest.raises(KeyError):
        async with stream:
            async for event in stream:
                if isinstance(event, TextDelta):
                    raise KeyError
    return stream


async def leave_by_aclose(model: ls.Model) -> ls.EventStream:
    stream = model.stream("Hi")
    while await stream.next():
        if isinstance(stream.current, TextDelta):
            break
    await stream.aclose()
    return stream


async def leave_by_timeout(model: ls.Model) -> ls.EventStream:
    async with model.stream("Hi") as stream:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await stream.collect()
    return stream


async def leave_the_bare_events(model: ls.Model) -> None:
    async with aclosing(model.events("Hi")) as events:  # type: ignore[type-var]
        async for event in events:
            if isinstance(event, TextDelta):
                break


@pytest.mark.parametrize(
    "leave", [leave_by_break, leave_by_exception, leave_by_aclose, leave_by_timeout, leave_the_bare_events]
)
async def test_leaving_ends_generators_in_own_task(leave: Any) -> None:
    """The socket closes; the generators end in the reader's task."""
    outer, inner = Noted(), Noted()
    simulator, made = stalling(inner, outer)
    async with simulator, no_leaks():
        stream = await leave(made())
        assert outer.ended == inner.ended == [asyncio.current_task()]
    if stream is not None:
        assert stream.messages()[-1].text.startswith("one")


@pytest.mark.parametrize("middleware", [(), (Noted(),), (Noted(), shout, Noted())])
async def test_reader_left_by_other_task_raises(
    middleware: tuple[Middleware, ...],
) -> None:
    """The generators end."""
    simulator, made = stalling(*middleware)
    async with simulator, no_leaks():
        stream = made().stream("Hi")
        came = asyncio.Event()

        async def read() -> None:
            async for event in stream:
                if isinstance(event, TextDelta):
                    came.set()

        reader = asyncio.create_task(read())
        await came.wait()
        await asyncio.sleep(0.05)
        await stream.aclose()
        with pytest.raises(ls.ConnectionLost):
            await reader
    for one in middleware:
        if isinstance(one, Noted):
            assert one.ended == [reader]


async def test_abandoned_reply_closes_with_call(read: Any) -> None:
    async def races(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        first = ask(request)
        await anext(first)
        async for event in ask(request):
            yield event

    hangs = answered(said("B", ""), Do.HANG)
    whole = answered(said("A", "stop"), b"data: [DONE]\n\n")
    async with FaultServer(hangs, whole) as server, no_leaks():
        model = ls.Model("openai:m", base_url=server.url, api_key="not-used")
        seen = await read(wrap(model, races))
        await server.left()
    assert (seen.text, seen.error, server.connections) == ("A", None, 2)


async def test_call_closes_sockets_at_once() -> None:
    """Even where nothing can be awaited."""
    async with FaultServer(answered(said("A", ""), Do.HANG)) as server, no_leaks():
        model = wrap(ls.Model("openai:m", base_url=server.url, api_key="not-used"), shout, shout)
        call = model.call(model.request("Hi"))
        while not any(isinstance(event, TextDelta) for event in await call.next()):
            pass
        call.close()
        await server.left()
        assert await call.next() == []
        await call.aclose()


async def test_dropped_stream_closes_with_warning() -> None:
    simulator, made = stalling(shout)
    async with simulator, no_leaks():
        stream = made().stream("Hi")
        while await stream.next() and not isinstance(stream.current, TextDelta):
            pass
        with pytest.warns(ResourceWarning):
            del stream
            gc.collect()
        await asyncio.sleep(0)


async def waits(request: Request, ask: Ask) -> AsyncIterator[Event]:
    """Waits before, between and after the events, and in its cleanup."""
    await asyncio.sleep(0)
    try:
        async for event in ask(request):
            await asyncio.sleep(0)
            yield event
        await asyncio.sleep(0)
    finally:
        await asyncio.sleep(0)


@pytest.mark.parametrize("fault", [None, Cut(after_events=3)])
async def test_cancel_at_any_await_leaves_nothing(fault: Any) -> None:
    """The conversation stays complete."""
    place, reached = 0, 1
    while place <= reached:
        place += 1
        notes = [Noted(), Noted()]
        model = wrap(ScriptedModel(Turn(text="one two three", fault=fault)), notes[0], waits, notes[1])
        seen: list[Event] = []
        stream = model.stream("Hi", errors="events")

        async def consume(stream: ls.EventStream = stream, seen: list[Event] = seen) -> None:
            async with stream:
                async for event in stream:
                    seen.append(event)

        driver = CancelledAt(consume(), place)

        async def drive(driver: CancelledAt = driver) -> None:
            await driver

        task = asyncio.create_task(drive())
        await asyncio.wait([task])
        reached = driver.reached
        assert asyncio.all_tasks() == {asyncio.current_task()}
        for note in notes:
            assert note.ended == [task] * note.began
        said = "".join(event.delta for event in seen if isinstance(event, TextDelta))
        assert stream.text == said
        assert [m.role for m in stream.messages()] == (["user", "assistant"] if said else ["user"])
    assert place > 15
    assert check(seen) == []
