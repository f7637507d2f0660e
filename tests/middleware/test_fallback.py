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
async def test_before_content_the_next_model_answers(script: Any, code: str, read: Any) -> None:
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


async def test_a_refused_connection_is_one_such_failure(read: Any) -> None:
    seen = await read(wrap(claude(await refused_port()), fallback(ScriptedModel("Here."))))
    assert seen.text == "Here."
    assert tried(seen) == [("anthropic:first", "connection-failed")]


async def test_a_model_that_answers_is_the_only_one_asked(read: Any) -> None:
    spare = ScriptedModel("Never.")
    seen = await read(wrap(ScriptedModel("First."), fallback(spare)))
    assert (seen.text, spare.requests) == ("First.", [])
    assert seen.events == (await read(ScriptedModel("First."))).events


async def test_where_all_fail_the_last_error_is_raised_with_the_record(read: Any) -> None:
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


async def test_after_content_a_retry_event_names_what_is_void_where_the_caller_chose_that(read: Any) -> None:
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


async def test_a_call_that_broke_off_never_runs_and_its_id_may_come_again(read: Any) -> None:
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


async def test_a_wrong_request_and_a_total_deadline_are_not_passed_on(read: Any) -> None:
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


async def test_the_total_deadline_counts_over_all_models(read: Any) -> None:
    began: list[float | None] = []

    class Timed(ScriptedModel):
        def call(self, *args: Any, started: float | None = None, **options: Any) -> Any:
            began.append(started)
            return super().call(*args, started=started, **options)

    first, second = (Timed(turn, repeat_last=True) for turn in (Turn(fault=Refuse(status=503)), "Here."))
    await read(wrap(first, fallback(second)))
    assert [event async for event in wrap(first, fallback(second)).events("Hi")]
    assert None not in began
    assert began[0] == began[1] != began[2] == began[3]


async def test_with_no_time_left_the_record_says_who_had_it(read: Any) -> None:
    async with FaultServer(answered(OVERLOADED), [Do.HANG]) as server:
        chain = fallback(claude(server.url))
        seen = await read(wrap(claude(server.url), chain), deadlines=ls.Deadlines(total_s=0.3))
    assert isinstance(seen.error, ls.DeadlineExceeded)
    assert [info.code for _, info in seen.error.tried] == ["overloaded", "deadline-exceeded"]


async def test_the_caller_says_which_failures_count(read: Any) -> None:
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


async def test_an_eager_call_of_what_is_void_is_cancelled_and_gives_nothing() -> None:
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


async def test_credentials_in_headers_are_for_the_first_model_only(read: Any) -> None:
    first, second = ScriptedModel(Turn(fault=Refuse(status=503))), ScriptedModel("Here.", model="second")
    await read(wrap(first, fallback(second)), headers={"Authorization": "Bearer canary", "X-Team": "blue"})
    assert first.requests[0].headers == {"Authorization": "Bearer canary", "X-Team": "blue"}
    assert (second.requests[0].headers, second.requests[0].model) == ({"X-Team": "blue"}, "second")


async def test_an_agents_tokens_count_for_the_model_that_answered() -> None:
    broken, whole = (
        ScriptedModel(Turn(fault=Refuse(status=503)), model="a"),
        ScriptedModel("Here.", model="b"),
    )
    async with ls.Agent(wrap(broken, fallback(whole))).stream("Hi") as run:
        await run.collect()
    assert list(run.usage_by_model) == ["scripted:b"]
    assert run.steps[0].model == "scripted:b"


async def test_an_agent_goes_on_with_the_model_that_answers() -> None:
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
