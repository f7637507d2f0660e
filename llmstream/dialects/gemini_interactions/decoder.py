"""Decodes a streamed interaction into events. `steps.py` has what is inside the steps."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Place, StreamLimits
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.gemini_interactions.steps import Steps
from llmstream.dialects.gemini_interactions.wire import (
    ALIASES,
    CONTINUATION,
    FINISH_REASONS,
    KEY,
    OpenStep,
    WireEvent,
    decode_event,
    decode_plain_event,
    read_usage,
)
from llmstream.dialects.google import Responses, failure
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.json_text import encodable_value, is_json
from llmstream.dialects.payload_size import held_size, most_held
from llmstream.dialects.wire_values import UsageCounts, iso_time, objects_in
from llmstream.errors import LLMStreamError, ProviderError
from llmstream.events import (
    ErrorEvent,
    Finish,
    FinishReason,
    Metadata,
    ResponseMetadata,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from llmstream.framing.sse import SSEDecoder

__all__ = ["BEGINNINGS", "InteractionsDecoder"]

# Fields of an interaction that become metadata of the finish.
_FINISH_FIELDS: Final = ("service_tier", "environment_id")

BEGINNINGS: Final = frozenset({"created", "queued", "in_progress", "status_update"})
_INCOMPLETE_REASONS: Final = ("length", "content-filter", "error")
_OF_STEPS: Final = frozenset({"step.start", "step.delta", "step.stop"})


class InteractionsDecoder(PayloadDecoder[WireEvent]):
    """Decodes one response body; see `dialects.base.Decoder`.

    The response is complete after a status other than `in_progress`; it ends with
    `interaction.completed`, or with the body. A long response comes in several interactions; see
    `dialects.base.ContinuingDecoder`. The next interaction may continue the text of the last step, so the
    end of a step is held back until another event follows it.
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self.gap: LLMStreamError | None = None
        self._steps = Steps(self, new_call_id)
        self._status: str | None = None
        self._interaction_id: str | None = None
        self._error: Any = None
        self._named = False
        self._responses = Responses()
        self._counts = UsageCounts(read_usage, self.hold)
        self._held: list[Hashable] = []  # the step whose end is held back
        self._cut: list[OpenStep] = []  # steps that the last interaction left open
        self._before: frozenset[str] = frozenset()  # ids of the interactions before this one
        self._finish_fields: dict[str, Any] = {}
        self._errors: list[Any] = []

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes events. A measured hot loop: a piece of an open text or call becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, misses = decode_plain_event.decode, self.out, 0
        opened, responses = self._steps.open, self._responses
        growing: OpenStep | None = None  # a call whose latest fragments are not counted yet
        most = 0
        for payload in payloads:
            # Outside of steps nothing fits.
            if opened and not self._held and not self._cut:
                try:
                    event = decode(payload)
                except UNREADABLE:
                    misses += 1
                else:
                    step, delta = opened.get(event.index), event.delta
                    if step is not None and step.id:
                        if step.kind == "output" and delta.type == "text" and (text := delta.text):
                            responses.content_followed = True
                            out.append(TextDelta(text, step.id))
                            continue
                        if step.kind == "call" and delta.type != "text" and (text := delta.arguments):
                            if step is not growing:
                                most = most or most_held(payloads)
                                growing = self.growing(step, growing, most)
                            if growing is not None:
                                responses.content_followed = True
                                step.parts.append(text)
                                out.append(ToolInputDelta(text, step.id))
                                continue
            self._read_other(payload, growing)
            growing = None
            if self.done:
                return
        self._end_plain(growing, misses, len(payloads))

    def on(self, wire: WireEvent) -> None:
        """Maps one event of the wire to ours."""
        kind = wire.event_type
        if kind == "step.delta" and self._joiner is None and not self._held and not self._cut:
            self._responses.content_followed = True
            self._steps.delta(wire.index, wire.delta)
            if wire.metadata is not None:
                self._count(wire.metadata)
            return
        if self._joiner is not None:
            wire = _encodable(wire)
        if wire.metadata is not None:
            self._count(wire.metadata)
        if wire.usage is not None:
            self._count({"usage": wire.usage})
        kind = ALIASES.get(kind or "", kind)
        if wire.continuation_token is not None:
            self._responses.place(wire.continuation_token, wire.interaction_id or self._interaction_id)
        if kind in _OF_STEPS:
            self._responses.content_followed = True
        if self._held and (kind in _OF_STEPS or wire.error is not None):
            self._end_held()
        if kind == "step.start":
            self._start(wire.index, wire.step or wire.content)
        elif kind == "step.delta":
            # The cut step continues without another start.
            if self._cut and wire.index not in self._steps.open:
                self._steps.open[wire.index] = self._cut.pop()
                self._end_cut()
            self._steps.delta(wire.index, wire.delta)
        elif kind == "step.stop":
            if wire.step_usage is not None:
                usage = {"index": wire.index, "usage": wire.step_usage}
                self._finish_fields.setdefault("step_usage", []).append(usage)
                self.hold(held_size(usage))
            self._stop(wire.index)
        elif kind == "interaction.created":
            self._interaction(wire.interaction or {})
        elif kind == "interaction.completed":
            self._interaction(wire.interaction or {})
            self._steps_of((wire.interaction or {}).get("steps"))
            self._conclude((wire.interaction or {}).get("status") or self._status or "completed")
            if not (wire.interaction or {}).get("continuation_token"):
                self._responses.forget()
            # Else another interaction continues the response, and the open steps with it.
            if self.next_place is None:
                self.finish()
        elif kind == "error" or (not kind and wire.error is not None):
            self.fail(failure(wire.error, provider=self.provider))
        elif wire.status is not None or (kind or "").startswith("interaction."):
            self._interaction_id = self._interaction_id or _text(wire.interaction_id)
            self._conclude(wire.status or (kind or "").removeprefix("interaction."))

    @property
    def usage(self) -> Usage:
        """Usage of all interactions, as far as the vendor has reported it."""
        return self._responses.usage(self._counts.usage)

    def release(self) -> None:
        """Frees the decoder's parts after the last use of it."""
        self._steps.release()
        super().release()

    def _interaction(self, interaction: dict[str, Any]) -> None:
        if interaction.get("id"):
            self._interaction_id = str(interaction["id"])
        for name in _FINISH_FIELDS:
            if interaction.get(name) is not None:
                self._finish_fields[name] = interaction[name]
        if isinstance(interaction.get("errors"), list):
            self._errors = interaction["errors"]
        if interaction.get("error"):
            self._error = interaction["error"]
        self._count({"usage": interaction.get("usage")})
        self._responses.place(interaction.get("continuation_token"), self._interaction_id)
        model, agent = interaction.get("model"), interaction.get("agent")
        if model and agent:
            self._finish_fields["agent"] = agent
        model = model or agent
        if not self._named and (model or self._interaction_id):
            self._named = True
            named = model if isinstance(model, str) and model else None
            when = iso_time(interaction.get("created"))
            self.out.append(ResponseMetadata(named, self._interaction_id, when))

    def _steps_of(self, steps: Any) -> None:
        """Reads the steps of the last event: their errors, and the steps themselves if none was streamed."""
        streamed, noted = self._steps.has_step, bool(self._steps.errors)
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            if not isinstance(step, dict) or self.done:
                continue
            if not streamed:
                self._start(("last", number), step)
                self._steps.stop(("last", number))
            elif not noted:
                self._steps.note_error(step)

    def _count(self, holder: Any) -> None:
        if isinstance(holder, dict):
            self._counts.add(holder.get("usage") or holder.get("total_usage"))

    def _conclude(self, status: Any) -> None:
        """Stores a status; every one that does not belong to the beginning is final."""
        if isinstance(status, str) and status not in BEGINNINGS:
            self._status = status
            self.complete = True

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        self._end_cut()
        reason: FinishReason = FINISH_REASONS.get(self._status or "", "other")
        for index, step in list(self._steps.open.items()):
            if step.kind == "call" and reason in _INCOMPLETE_REASONS:
                self._steps.break_off(index)
            else:
                self._steps.stop(index)
        if self.done:
            return
        if self._steps.client_called and reason in ("stop", "other"):
            reason = "tool-calls"
        if reason == "error":
            self.out.append(ErrorEvent(self._failure().info))
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, self._status, self._finish_metadata()))

    def _finish_metadata(self) -> Metadata | None:
        """The id is the one that goes with the token."""
        metadata, place = dict(self._finish_fields), self._responses.last
        owner = place.response_id if place is not None else None
        if owner or self._interaction_id:
            metadata["interaction_id"] = owner or self._interaction_id
        if self._errors or self._steps.errors:
            metadata["errors"] = [*self._errors, *self._steps.errors]
        metadata |= self._responses.metadata()
        return {KEY: metadata} if metadata else None

    def _failure(self) -> ProviderError:
        """Why the interaction failed: its own errors are more specific than those of its steps."""
        causes = [*self._errors[:1], self._error, *self._steps.errors[:1]]
        unknown = {"message": "the interaction failed", "code": self._status}
        return failure(next((cause for cause in causes if cause), unknown), provider=self.provider)

    # long answers, which come in several interactions

    @property
    def next_place(self) -> Place | None:
        """See `ContinuingDecoder`. The vendor also gives places in the middle of an interaction."""
        if self.complete and self._status != CONTINUATION:
            return None
        return self._responses.next

    @property
    def unfinished(self) -> Metadata | None:
        """Metadata for the finish of an interrupted response, if it can be continued."""
        return self._finish_metadata() if self._responses.last is not None else None

    def next_body(self) -> None:
        """Prepares for another body, whose steps count from 0 again."""
        self._responses.next_body(self._counts.usage)
        self._counts = UsageCounts(read_usage, self.hold)
        self._status = self.gap = None
        self._framing = SSEDecoder(max_bytes=self.limits.max_event_bytes)
        self.complete = False
        self._cut += self._steps.open.values()
        self._before = self._steps.ids
        self._held, self._steps.open = [], {}
        self._steps.has_step = False

    def fail(self, error: LLMStreamError) -> None:
        """Ends the stream with an error, unless the interaction can be continued from its last place."""
        if self._responses.count and error.retryable and self.next_place is not None:
            self.gap = error
        else:
            super().fail(error)

    def _start(self, index: Hashable, wire: dict[str, Any] | None) -> None:
        """Opens a step, continues one that was cut, or skips one that an earlier interaction had."""
        if self._responses.count == 0 or wire is None or wire.get("type") == "user_input":
            self._steps.start(index, wire)
        elif self._cut and _continues(self._cut[-1], wire):
            self._steps.open[index] = self._cut.pop()
            self._end_cut()
            for piece in [*objects_in(wire.get("content")), *objects_in(wire.get("summary"))]:
                self._steps.delta(index, piece)
        else:
            self._end_cut()
            repeated = wire.get("id") in self._before or wire.get("call_id") in self._steps.settled
            self._steps.start(index, {"type": "user_input"} if repeated else wire)

    def _stop(self, index: Hashable) -> None:
        """Closes a step, or holds its end back: the wire does not show whether it was cut."""
        step = self._steps.open.get(index)
        if step is not None and _may_be_cut(step):
            self._held = [index]
        else:
            # The input of a call was parsed just now, unless it has none.
            self._steps.stop(index, is_known_json=step is not None and bool(step.parts))

    def _end_held(self) -> None:
        for index in self._held:
            self._steps.stop(index)
        self._held = []

    def _end_cut(self) -> None:
        """Closes steps that were cut and not continued; drops calls among them."""
        cut, self._cut = self._cut, []
        for number, step in enumerate(cut):
            index = ("cut", number)
            self._steps.open[index] = step
            if step.kind == "call":
                self._steps.break_off(index)
            else:
                self._steps.stop(index)


def _may_be_cut(step: OpenStep) -> bool:
    """Whether a step that has ended may be continued. Signed thoughts and complete inputs are not."""
    match step.kind:
        case "output":
            return True
        case "thought":
            return step.signature is None
        case "call":
            return bool(step.parts) and not is_json("".join(step.parts))
        case _:
            return False


def _continues(cut: OpenStep, wire: dict[str, Any]) -> bool:
    """Whether a step that opens continues one that was cut."""
    if wire.get("type") != cut.type:
        return False
    if cut.kind in ("output", "thought"):
        return _may_be_cut(cut)
    return bool(wire.get("id")) and wire.get("id") == cut.wire.get("id")


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _encodable(wire: WireEvent) -> WireEvent:
    """Replaces lone surrogates, except in streamed text, where the next event may have the other half."""
    repaired = msgspec.convert(encodable_value(msgspec.to_builtins(wire)), WireEvent)
    if repaired.delta is not None and wire.delta is not None:
        for key in ("text", "arguments"):
            if isinstance(wire.delta.get(key), str):
                repaired.delta[key] = wire.delta[key]
    return repaired
