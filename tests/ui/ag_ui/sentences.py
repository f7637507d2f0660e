"""Runs as events: any that the grammar permits, with sub-agents, retries, and every way to end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
from hypothesis import strategies as st

from llmstream import events as ev
from llmstream.agent.nested import Nested, as_result
from llmstream.chats.content import ToolCall
from llmstream.errors import ErrorInfo
from llmstream.ui import ag_ui

words = st.text(st.characters(codec="utf-8"), max_size=8)
names = st.text("abcdefgh_", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(names, inner, max_size=3),
    max_leaves=5,
)
metadata = st.none() | st.dictionaries(
    names, st.dictionaries(names, values, max_size=2), min_size=1, max_size=2
)
counts = st.none() | st.integers(0, 2**53)
usages = st.builds(ev.Usage, counts, counts, counts, counts, counts, counts)
errors = st.builds(
    ErrorInfo,
    st.sampled_from(["rate-limited", "connection-lost", "stopped", "error"]),
    words,
    retryable=st.booleans(),
    retry_after_s=st.none() | st.floats(0, 100),
)

Draw = Callable[..., Any]
BESIDE = (
    ev.ResponseMetadata("model-1", "r1"),
    ev.Source("url", "s", "https://a.example", "A"),
    ev.Source("document", "d", title="B", media_type="application/pdf"),
    ev.File("image/png", b"\x89PNG"),
    ev.File("image/png", "https://a.example/b.png"),
    ev.ReasoningFile("image/png", b"\x89PNG"),
    ev.Custom("acme.thing", {"acme": {"a": 1}}),
    ev.Raw({"wire": [1]}),
    ev.ErrorEvent(ErrorInfo("decode-error", "defective event", retryable=False)),
    ag_ui.state({"city": "Oslo"}),
    ag_ui.state_delta([{"op": "add", "path": "/city", "value": "Rome"}]),
    ag_ui.custom("ping", None),
    ag_ui.activity("plan", "PLAN", {"steps": []}),
)


class Run:
    """Draws the events of one agent. Ids are unique within it alone, as those of real sub-agents are."""

    def __init__(self, draw: Draw, depth: int = 0) -> None:
        self._draw = draw
        self._depth = depth
        self._number = 0
        self.open_calls: list[tuple[str, str]] = []  # id and tool of those without a result

    def next_id(self) -> str:
        self._number += 1
        return str(self._number)

    def block(self, kind: str) -> list[ev.Event]:
        """Events that may stand next to each other in a response."""
        draw, fragments = self._draw, self._draw(st.lists(words, max_size=3))
        name = self.next_id()
        match kind:
            case "text":
                inner = [ev.TextDelta(f, name) for f in fragments]
                return [ev.TextStart(name, draw(metadata)), *inner, ev.TextEnd(name, False, draw(metadata))]
            case "texts":
                other = self.next_id()
                opened = [ev.TextStart(name), ev.TextStart(other), ev.TextDelta("a", name)]
                return [*opened, ev.TextDelta("b", other), ev.TextEnd(name), ev.TextEnd(other)]
            case "reasoning":
                inner = [ev.ReasoningDelta(f, name) for f in fragments]
                return [ev.ReasoningStart(name), *inner, ev.ReasoningEnd(name, False, draw(metadata))]
            case "beside":
                return [draw(st.sampled_from(BESIDE))]
            case "provider":
                call = self.call(name, provider_executed=True)
                flags = {"is_error": draw(st.booleans()), "provider_executed": True}
                result = ev.ToolResult(
                    draw(values), name, "search", **flags, provider_metadata=draw(metadata)
                )
                return [*call, result]
            case _:
                self.open_calls.append((name, "f"))
                return self.call(name)

    def call(self, name: str, **flags: bool) -> list[ev.Event]:
        draw = self._draw
        tool = "search" if flags else "f"
        text = msgspec.json.encode(draw(st.dictionaries(names, values, max_size=2))).decode()
        whole = ev.ToolCall(tool, text, name, **flags, provider_metadata=draw(metadata))
        if draw(st.booleans()):
            return [whole]
        cut = draw(st.integers(0, len(text)))
        inner = [ev.ToolInputDelta(piece, name) for piece in (text[:cut], text[cut:]) if piece]
        return [ev.ToolInputStart(tool, name, **flags), *inner, ev.ToolInputEnd(name), whole]

    def response(self) -> list[ev.Event]:
        kinds = st.sampled_from(["text", "text", "texts", "reasoning", "beside", "provider", "call"])
        return [event for kind in self._draw(st.lists(kinds, max_size=5)) for event in self.block(kind)]

    def step(self, number: int) -> list[ev.Event]:
        draw = self._draw
        events: list[ev.Event] = [ev.StepStart(number, [ev.OtherWarning("left out")])]
        if draw(st.booleans()) and draw(st.booleans()):
            events += self.response()
            if draw(st.booleans()):  # calls of eager tools run before the response is complete
                events += self.results(waits=draw(st.booleans()))
            if draw(st.booleans()):
                name = self.next_id()
                events += [ev.ToolInputStart("f", name), ev.ToolInputDelta("{", name)]
                events.append(ev.ToolInputEnd(name, incomplete=True))
            self.open_calls.clear()
            events.append(ev.RetryNotice("it broke", number, 1, 0.5))
        events += self.response()
        reason = "tool-calls" if self.open_calls else "stop"
        return [*events, ev.StepFinish(number, reason, draw(usages), ev.Timings(0.1, 0.2, 0.3))]

    def results(self, *, waits: bool) -> list[ev.Event]:
        """What the open calls give; if `waits`, the last one gives nothing."""
        lines = []
        while self.open_calls:
            call_id, tool = self.open_calls.pop(0)
            lines.append(self.outcome(call_id, tool, waits=waits and not self.open_calls))
        return _merged(self._draw, lines)

    def outcome(self, call_id: str, tool: str, *, waits: bool) -> list[ev.Event]:
        draw = self._draw
        kind = draw(st.sampled_from(["plain", "progress", "asked", "agent"]))
        events: list[ev.Event] = []
        if kind == "agent" and self._depth < 2:
            inner = Run(draw, self._depth + 1)
            call = ToolCall(call_id, tool, "{}")
            events = [as_result(Nested("writer", event), call) for event in inner.steps(waits=waits)]
        elif kind == "progress":
            events = [ev.ToolResult(draw(values), call_id, tool, preliminary=True)]
        if kind == "asked" or (waits and not events):
            events.append(ev.ToolApprovalRequest(call_id, f"approval-{self._depth}-{call_id}"))
        if waits:
            return events
        return [*events, ev.ToolResult(draw(values), call_id, tool, is_error=draw(st.booleans()))]

    def steps(self, *, waits: bool) -> list[ev.Event]:
        count = self._draw(st.integers(1, 2))
        events = []
        for number in range(count):
            is_last = number == count - 1
            events += self.step(number)
            if waits and is_last:
                events += self.block("call")
            events += self.results(waits=waits and is_last)
        return events


@st.composite
def runs(draw: Draw) -> list[ev.Event]:
    """A complete run, by any end."""
    end = draw(st.sampled_from(["stop", "length", "error", "cut", "waits", "plain"]))
    run = Run(draw)
    warning = ev.UnsupportedSetting("top_k")
    events: list[ev.Event] = [ev.StreamStart([warning]), ev.ResponseMetadata("model-1", "r0")]
    if end == "plain":  # a stream: no steps, and nobody runs its calls
        events += run.response()
        reason = "tool-calls" if run.open_calls else "stop"
        return [*events, ev.Finish(reason, draw(usages), "end_turn", {"acme": {"a": 1}})]
    events += run.steps(waits=end == "waits")
    if end in ("length", "cut"):
        events += _broken_off(draw, run)
    if end in ("error", "cut"):
        events += [ev.ErrorEvent(draw(errors)), ev.Finish("error", draw(usages))]
    else:
        events.append(ev.Finish({"waits": "tool-calls"}.get(end, end), draw(usages)))  # type: ignore[arg-type]
    return events


def _broken_off(draw: Draw, run: Run) -> list[ev.Event]:
    name = run.next_id()
    text = run.next_id()
    said: list[ev.Event] = [ev.TextStart(text), ev.TextDelta("Hal", text), ev.TextEnd(text)]
    cut = [ev.ToolInputStart("f", name), ev.ToolInputDelta('{"a', name), ev.ToolInputEnd(name, True)]
    return [ev.StepStart(9), *said, *cut]


def _merged(draw: Draw, lines: list[list[ev.Event]]) -> list[ev.Event]:
    """Lines of parallel calls as one, each in its own order."""
    merged = []
    while lines := [line for line in lines if line]:
        merged.append(lines[draw(st.integers(0, len(lines) - 1))].pop(0))
    return merged
