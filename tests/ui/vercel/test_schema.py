"""Every chunk that a writer makes passes the schema of every release of the package that reads it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import llmstream as ls
from llmstream import grammar
from llmstream.agent.nested import Nested, as_result
from llmstream.chats.content import ToolCall as ToolCallPart
from llmstream.chats.message import Message
from llmstream.errors import ErrorInfo
from llmstream.events import (
    Custom,
    ErrorEvent,
    Event,
    File,
    Finish,
    OtherWarning,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    ResponseMetadata,
    RetryNotice,
    Source,
    StepFinish,
    StepStart,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    Usage,
)
from llmstream.simulator import Call, Turn
from llmstream.testing import ScriptedModel
from llmstream.ui import vercel

RELEASES = {
    5: ("ai-5.0.20", "ai-5.0.115", "ai-5.0.277"),
    6: ("ai-6.0.0", "ai-6.0.57", "ai-6.0.326", "ai-7.0.0", "ai-7.0.77", "ai"),
    7: ("ai-7.0.0", "ai-7.0.77", "ai"),
}
"""By the writer's version; what is written for 6 is read by 7 too."""

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
names = st.text("abcxyz_", min_size=1, max_size=8)
flags = st.booleans()
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | words,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(words, inner, max_size=2),
    max_leaves=4,
)
metadata = st.none() | st.dictionaries(names, st.dictionaries(names, values, max_size=2), max_size=2)
usages = st.builds(Usage, st.none() | st.integers(0, 99), st.none() | st.integers(0, 99))
reasons = st.sampled_from(["stop", "length", "content-filter", "tool-calls", "other", "unknown"])


@st.composite
def blocks(draw: st.DrawFn, block_id: str) -> list[Event]:
    """A text, some reasoning or a call, with its results and approvals."""
    deltas = draw(st.lists(words, max_size=3))
    extra = draw(metadata)
    match draw(st.sampled_from(["text", "reasoning", "call", "part"])):
        case "text":
            middle: list[Event] = [TextDelta(delta, block_id) for delta in deltas]
            return [TextStart(block_id, extra), *middle, TextEnd(block_id, provider_metadata=extra)]
        case "reasoning":
            middle = [ReasoningDelta(delta, block_id) for delta in deltas]
            return [ReasoningStart(block_id), *middle, ReasoningEnd(block_id, provider_metadata=extra)]
        case "part":
            return [draw(parts(block_id))]
    return draw(calls(block_id))


@st.composite
def parts(draw: st.DrawFn, part_id: str) -> Event:
    extra = draw(metadata)
    found: Event = draw(
        st.sampled_from(
            [
                Source("url", part_id, "https://example.org", provider_metadata=extra),
                Source("url", part_id, "https://example.org", draw(words)),
                Source("document", part_id, title=draw(words), filename=draw(words)),
                File("image/png", b"\x89PNG", extra),
                File("image/png", "https://example.org/x.png"),
                ReasoningFile("image/png", b"\x89PNG"),
                Custom("acme.thing", extra),
                Custom("thing", extra),
                ResponseMetadata(draw(words), draw(words)),
                Raw(draw(values)),
            ]
        )
    )
    return found


nested = st.sampled_from(
    [
        [],
        [StepStart(0), TextStart("n"), TextDelta("hm", "n"), TextEnd("n")],
        [ToolCall("look", "{}", "n"), ToolResult({"a": 1}, "n", "look"), ToolResult("b", "m", "look")],
        [ToolCall("look", "{", "n"), ToolResult("deaf", "n", "look", is_error=True)],
        [Source("url", "n", "https://example.org"), Custom("acme.thing"), ReasoningDelta("lost", "n")],
    ]
)


@st.composite
def calls(draw: st.DrawFn, call_id: str) -> list[Event]:
    name, extra = draw(names), draw(metadata)
    own, dynamic = draw(flags), draw(flags)
    text = json.dumps(draw(st.dictionaries(words, values, max_size=2)))
    cut = draw(st.integers(0, len(text)))
    events: list[Event] = [
        ToolInputStart(name, call_id, own, dynamic, draw(st.none() | words), extra),
        ToolInputDelta(text[:cut], call_id),
        ToolInputDelta(text[cut:], call_id),
        ToolInputEnd(call_id),
    ]
    if draw(flags):
        events.clear()
    events.append(ToolCall(name, text, call_id, own, dynamic, draw(flags), extra))
    if draw(flags):
        events.append(ToolApprovalRequest(call_id, f"approval-{call_id}"))
    events += [as_result(Nested("scout", event), ToolCallPart(call_id, name)) for event in draw(nested)]
    for _ in range(draw(st.integers(0, 2))):
        events.append(ToolResult(draw(values), call_id, name, preliminary=True, provider_executed=own))
    if draw(flags):
        outcome = draw(st.sampled_from([None, {"llmstream": {"outcome": "denied"}}, extra]))
        events.append(
            ToolResult(
                draw(values),
                call_id,
                name,
                is_error=draw(flags),
                provider_executed=own,
                provider_metadata=outcome,
            )
        )
    return events


@st.composite
def sentences(draw: st.DrawFn) -> list[Event]:
    """A whole run: steps of blocks that may interleave, and an end in order or by an error."""
    warnings = [OtherWarning("left out")] if draw(flags) else []
    events: list[Event] = [StreamStart(warnings)]
    for step in range(draw(st.integers(1, 3))):
        step_events: list[Event] = []
        for block in range(draw(st.integers(0, 3))):
            step_events += draw(blocks(f"{step}/{block}"))
        if draw(flags):  # two blocks side by side
            both = [
                TextStart(f"t{step}"),
                ReasoningStart(f"r{step}"),
                TextDelta("a", f"t{step}"),
                TextEnd(f"t{step}"),
                ReasoningEnd(f"r{step}"),
            ]
            step_events += both
        if draw(flags):
            events.append(StepStart(step))
            step_events.append(StepFinish(step, "stop", draw(usages)))
        events += step_events
    if draw(flags):
        code = draw(st.sampled_from(["connection-lost", "stopped", "new-code"]))
        error = ErrorInfo(code, draw(words), retryable=draw(flags))
        events += draw(
            st.sampled_from(
                [
                    [],
                    [TextStart("cut"), TextDelta("half", "cut"), TextEnd("cut", incomplete=True)],
                    [
                        ToolInputStart("f", "cut"),
                        ToolInputDelta('{"a', "cut"),
                        ToolInputEnd("cut", incomplete=True),
                    ],
                ]
            )
        )
        return [*events, ErrorEvent(error), Finish("error", draw(usages))]
    return [*events, Finish(draw(reasons), draw(usages))]


def body_of(events: list[Event], **options: Any) -> bytes:
    writer = vercel.Writer(**options)
    return b"".join([writer.feed(event) for event in events]) + writer.close()


def accepted(complaints: Callable[..., Any], events: list[Event], **options: Any) -> None:
    assert grammar.check(events) == []
    answers = complaints(body_of(events, **options), *RELEASES[options["version"]])
    failed = [event.error.code for event in events if isinstance(event, ErrorEvent)]
    shown = [code for code in failed if code != "stopped"]
    for answer in answers.values():
        assert answer["found"] == []
        assert len(answer["errors"]) == len(shown), answer["errors"]


@pytest.mark.parametrize("version", [5, 6, 7])
@settings(max_examples=25)
@given(events=sentences(), debug=flags)
def test_every_chunk_passes_the_schema(
    complaints: Callable[..., Any], version: int, events: list[Event], debug: bool
) -> None:
    """And the package's own reader makes a message of the chunks."""
    accepted(complaints, events, version=version, debug=debug, message_id="m1")


@pytest.mark.slow
@pytest.mark.parametrize("version", [*(pytest.param(n, marks=pytest.mark.exhaustive) for n in (5, 6)), 7])
@settings(max_examples=600)
@given(events=sentences(), debug=flags)
def test_many_more_sentences_pass(
    complaints: Callable[..., Any], version: int, events: list[Event], debug: bool
) -> None:
    accepted(complaints, events, version=version, debug=debug, message_id="m1")


def test_reset_takes_back_what_was_shown(complaints: Callable[..., Any]) -> None:
    """Of a retry after content, by the releases that know `reset-step`."""
    events: list[Event] = [
        StreamStart(),
        StepStart(0),
        TextStart("0"),
        TextDelta("void", "0"),
        TextEnd("0", incomplete=True),
        RetryNotice("broke", 0, 1, 0.0),
        TextStart("1"),
        TextDelta("kept", "1"),
        TextEnd("1"),
        Finish("stop"),
    ]
    answers = complaints(body_of(events, version=7, resets=True), "ai-7.0.77", "ai")
    for answer in answers.values():
        assert (answer["found"], answer["errors"]) == ([], [])
        assert [part.get("text") for part in answer["message"]["parts"]] == [None, "kept"]


def test_strict_release_refuses_a_field(complaints: Callable[..., Any]) -> None:
    """So the tests above would see a field too many."""
    body = b'data: {"type":"start","seq":1}\n\ndata: [DONE]\n\n'
    answers = complaints(body, "ai-5.0.20", "ai-6.0.0", "ai")
    assert [bool(answer["found"]) for answer in answers.values()] == [True, True, False]


@ls.tool(needs_approval=True)
def delete(path: str) -> str:
    """Delete a file."""
    return f"{path} is gone"


def clock() -> str:
    """The time."""
    return "noon"


async def conversation(*decisions: bool) -> tuple[list[Message], ls.Suspension | None]:
    """One with reasoning, results, a failure, and calls that are decided about, or wait."""
    names = ("delete", "clock", "nothing", "delete")
    turn = Turn(reasoning="Hm.", text="Well.", calls=tuple([Call(name, {"path": "a"}) for name in names]))
    agent = ls.Agent(ScriptedModel(turn, "Done."), tools=[delete, clock])
    async with agent.stream("Go.") as run:
        await run.collect()
    if decisions:
        pending = run.suspended.pending
        run = agent.resume(run.suspended, {p.approval_id: d for p, d in zip(pending, decisions, strict=True)})
        await run.collect()
    return run.messages(), run.suspended


@pytest.mark.parametrize("version", [5, 6])
@pytest.mark.parametrize("decisions", [(), (True, False)])
async def test_packages_take_what_is_dumped(
    complaints: Callable[..., Any], decisions: tuple[bool, ...], version: int
) -> None:
    page = vercel.dump(*await conversation(*decisions), version=version)
    states = [part.get("state") for part in page[-1]["parts"] if "toolCallId" in part]
    waiting, denied = {5: ("input-available", "output-error"), 6: ("approval-requested", "output-denied")}[
        version
    ]
    first, last = ("output-available", denied) if decisions else (waiting,) * 2
    assert states == [first, "output-error", "output-error", last]
    for package, answer in complaints(page, *RELEASES[version]).items():
        assert "error" not in answer, (package, answer)
