"""The next model is asked where one fails, and the record says so."""

# RELIABILITY 46 and 49

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import llmstream as ls
from llmstream import events as ev
from llmstream.middleware import fallback, wrap
from llmstream.simulator import Call, Turn
from llmstream.testing import (
    Break,
    Cut,
    Do,
    FaultServer,
    Refuse,
    Script,
    ScriptedModel,
    Simulator,
    answered,
    no_leaks,
)

ONCE = ls.Retry(max_retries=0)
OVERLOADED = b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"busy"}}\n\n'
OPENING = (
    b'data: {"type":"message_start","message":{"id":"m1","model":"m","usage":{"input_tokens":3}}}\n\n'
    b'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
)
HALF = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}\n\n'


def claude(url: str) -> ls.Model:
    return ls.Model("anthropic:first", base_url=url, api_key="sk-canary-1234567", retry=ONCE)


def tried(seen: Any) -> list[tuple[str, str]]:
    (known,) = [e for e in seen.of(ls.ResponseMetadata) if e.provider_metadata]
    return [(one["model"], one["error"]["code"]) for one in known.provider_metadata["llmstream"]["tried"]]


async def refused_port() -> str:
    async with FaultServer([]) as server:
        return server.url


@pytest.mark.parametrize(
    ("script", "code"),
    [
        (answered(OVERLOADED), "overloaded"),
        (answered(OPENING, OVERLOADED), "overloaded"),
        (answered(OPENING, Do.RESET), "connection-lost"),
        (answered(OPENING), "incomplete-stream"),
        (answered(b'{"error":{"type":"authentication_error","message":"no"}}', status=401), "authentication"),
        ([Do.RESET], "connection-lost"),
    ],
)
async def test_next_model_responds_before_content(script: Any, code: str, read: Any) -> None:
    async with (
        FaultServer(script) as broken,
        Simulator(Script((Turn(text="Here I am."),))) as works,
        no_leaks(),
    ):
        second = ls.Model("openai:second", base_url=works.url + "/v1", api_key="not-used")
        seen = await read(wrap(claude(broken.url), fallback(second)))
        await broken.left()
    assert (seen.text, seen.error) == ("Here I am.", None)
    assert tried(seen) == [("anthropic:first", code)]
    (warning,) = seen.events[0].warnings
    assert warning.message.startswith(f"anthropic:first failed ({code}): ")
    (asked,) = works.requests
    assert asked.request is not None
    assert asked.request.model == "second"


async def test_refused_connection_falls_back(read: Any) -> None:
    seen = await read(wrap(claude(await refused_port()), fallback(ScriptedModel("Here."))))
    assert seen.text == "Here."
    assert tried(seen) == [("anthropic:first", "connection-failed")]


async def test_model_that_responds_is_only_request(read: Any) -> None:
    spare = ScriptedModel("Never.")
    seen = await read(wrap(ScriptedModel("First."), fallback(spare)))
    assert (seen.text, spare.requests) == ("First.", [])
    assert seen.events == (await read(ScriptedModel("First."))).events


async def test_last_error_raised_with_the_record(read: Any) -> None:
    """All models fail."""
    models = [
        ScriptedModel(Turn(fault=Refuse(status=status)), model=f"m{status}") for status in (503, 429, 401)
    ]
    seen = await read(wrap(models[0], fallback(*models[1:])))
    assert isinstance(seen.error, ls.AuthenticationError)
    assert [(name, info.code) for name, info in seen.error.tried] == [
        ("scripted:m503", "overloaded"),
        ("scripted:m429", "rate-limited"),
        ("scripted:m401", "authentication"),
    ]
    assert len(seen.events[0].warnings) == 2
    assert tried(seen) == [("scripted:m503", "overloaded"), ("scripted:m429", "rate-limited")]


async def test_after_content_it_fails_by_default(read: Any) -> None:
    spare = ScriptedModel("Never.")
    async with FaultServer(answered(OPENING, HALF, Do.RESET)) as broken, no_leaks():
        seen = await read(wrap(claude(broken.url), fallback(spare)))
    assert isinstance(seen.error, ls.ConnectionLost)
    assert (seen.error.partial.text, spare.requests) == ("Hel", [])
    assert seen.error.tried[0][0] == "anthropic:first"


async def test_retry_event_names_void_content(read: Any) -> None:
    """The caller allowed a fallback after content."""
    async with FaultServer(answered(OPENING, HALF, Do.RESET)) as broken, no_leaks():
        seen = await read(wrap(claude(broken.url), fallback(ScriptedModel("Hello."), restart=True)))
    assert (seen.text, seen.error) == ("Hello.", None)
    (retry,) = seen.of(ev.RetryNotice)
    assert (retry.discard_step, retry.attempt) == (0, 1)
    assert retry.reason.startswith("anthropic:first failed (connection-lost)")
    at = seen.events.index(retry)
    assert "".join(e.delta for e in seen.events[:at] if isinstance(e, ls.TextDelta)) == "Hel"
    assert tried(seen) == [("anthropic:first", "connection-lost")]
    assert [message.text for message in seen.stream.messages()] == ["Hi", "Hello."]


async def test_broken_call_never_runs_id_is_free(read: Any) -> None:
    """The same id may come again."""
    ran = []

    def add(a: int) -> int:
        """Add."""
        ran.append(a)
        return a

    broken = ScriptedModel(
        Turn(calls=(Call("add", {"a": 1}), Call("add", {"a": 2})), fault=Break(after_events=7))
    )
    whole = ScriptedModel(Turn(calls=(Call("add", {"a": 3}),)), "Three.")
    async with wrap(broken, fallback(whole, restart=True)).stream("Hi", tools=[add]) as stream:
        (status,) = await stream.call_tools()
        assert (status.result.content, ran) == ("3", [3])
    assert len(stream.messages()[1].tool_calls) == 1


async def test_bad_request_does_not_fall_back(read: Any) -> None:
    """A total deadline does not either."""

    class Wrong(ScriptedModel):
        def call(self, *args: Any, **options: Any) -> Any:
            raise ls.InvalidRequest("no such thing")

    spare = ScriptedModel("Never.")
    seen = await read(wrap(Wrong("a"), fallback(spare)))
    assert isinstance(seen.error, ls.InvalidRequest)
    async with FaultServer([Do.HANG]) as server:
        seen = await read(wrap(claude(server.url), fallback(spare)), deadlines=ls.Deadlines(total_s=0.1))
    assert isinstance(seen.error, ls.DeadlineExceeded)
    assert spare.requests == []


async def test_total_deadline_spans_all_models(read: Any) -> None:
    began: list[float | None] = []

    class Timed(ScriptedModel):
        def call(self, *args: Any, started: float | None = None, **options: Any) -> Any:
            began.append(started)
            return super().call(*args, started=started, **options)

    first, second = (Timed(turn, repeat_last=True) for turn in (Turn(fault=Refuse(status=503)), "Here."))
    await read(wrap(first, fallback(second)))
    await asyncio.sleep(0.002)  # uvloop's clock counts milliseconds
    assert [event async for event in wrap(first, fallback(second)).events("Hi")]
    assert None not in began
    assert began[0] == began[1] != began[2] == began[3]


async def test_record_names_who_used_up_the_time(read: Any) -> None:
    async with FaultServer(answered(OVERLOADED), [Do.HANG]) as server:
        chain = fallback(claude(server.url))
        seen = await read(wrap(claude(server.url), chain), deadlines=ls.Deadlines(total_s=0.3))
    assert isinstance(seen.error, ls.DeadlineExceeded)
    assert [info.code for _, info in seen.error.tried] == ["overloaded", "deadline-exceeded"]


async def test_caller_chooses_which_failures_count(read: Any) -> None:
    spare = ScriptedModel("Never.")
    chain = fallback(spare, when=lambda error: isinstance(error, ls.RateLimited))
    seen = await read(wrap(ScriptedModel(Turn(fault=Refuse(status=503))), chain))
    assert isinstance(seen.error, ls.Overloaded)
    assert spare.requests == []


def test_a_chain_of_none_is_refused() -> None:
    with pytest.raises(ls.InvalidRequest):
        fallback()


async def test_a_chain_may_hold_wrapped_models(read: Any) -> None:
    broken = ScriptedModel(Turn(fault=Refuse(status=503)), repeat_last=True)
    inner = wrap(broken, fallback(ScriptedModel("Third.", repeat_last=True)))
    assert (await read(wrap(broken, fallback(inner)))).text == "Third."


async def test_a_typed_answer_grows_anew() -> None:
    half = Turn(events=(ls.TextStart("0"), ls.TextDelta('["wrong", "st', "0")), fault=Cut(after_events=9))
    chain = fallback(ScriptedModel('["a", "b"]'), restart=True)
    async with wrap(ScriptedModel(half), chain).stream("Hi", output=list[str]) as stream:
        assert [value async for value in stream.objects()] == ["wrong", "a", "b"]
    assert stream.object == ["a", "b"]


async def test_void_eager_call_is_cancelled() -> None:
    done = []

    @ls.tool(eager=True)
    async def add(a: int) -> int:
        """Add."""
        await asyncio.sleep(0.01)
        done.append(a)
        return a

    broken = Turn(calls=(Call("add", {"a": 1}), Call("add", {"a": 2})), fault=Break(after_events=8))
    for streaming in (True, False):
        whole = ScriptedModel(Turn(calls=(Call("add", {"a": 3}),)), "Three.")
        model = wrap(ScriptedModel(broken), fallback(whole, restart=True))
        done.clear()
        if streaming:
            async with no_leaks(), model.stream("Hi", tools=[add]) as stream:
                assert [status.result.content for status in await stream.call_tools()] == ["3"]
            messages = stream.messages()
        else:
            async with no_leaks(), ls.Agent(model, tools=[add], max_steps=1).stream("Hi") as run:
                assert ls.grammar.check([event async for event in run]) == []
            messages = run.messages()
        assert done == [3]
        assert [len(message.tool_calls) for message in messages] == [0, 1, 0]


async def test_header_credentials_only_first_model(read: Any) -> None:
    first, second = ScriptedModel(Turn(fault=Refuse(status=503))), ScriptedModel("Here.", model="second")
    await read(wrap(first, fallback(second)), headers={"Authorization": "Bearer canary", "X-Team": "blue"})
    assert first.requests[0].headers == {"Authorization": "Bearer canary", "X-Team": "blue"}
    assert (second.requests[0].headers, second.requests[0].model) == ({"X-Team": "blue"}, "second")


async def test_tokens_count_for_responding_model() -> None:
    broken, whole = (
        ScriptedModel(Turn(fault=Refuse(status=503)), model="a"),
        ScriptedModel("Here.", model="b"),
    )
    async with ls.Agent(wrap(broken, fallback(whole))).stream("Hi") as run:
        await run.collect()
    assert list(run.usage_by_model) == ["scripted:b"]
    assert run.steps[0].model == "scripted:b"


async def test_agent_continues_with_fallback_model() -> None:
    @ls.tool
    def add(a: int) -> int:
        """Add."""
        return a

    broken = ScriptedModel(Turn(text="Let me", fault=Cut(after_events=3)), repeat_last=True)
    whole = ScriptedModel(Turn(text="Well.", calls=(Call("add", {"a": 3}),)), "Three.", repeat_last=True)
    run = ls.Agent(wrap(broken, fallback(whole, restart=True)), tools=[add]).stream("Hi")
    events = [event async for event in run]
    assert ls.grammar.check(events) == []
    assert [event.discard_step for event in events if isinstance(event, ev.RetryNotice)] == [0, 1]
    assert run.text == "Three."
    assert [m.role for m in run.messages()] == ["user", "assistant", "tool", "assistant"]
