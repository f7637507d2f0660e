"""Bytes of a streamed interaction to events: the interaction around its steps."""

from __future__ import annotations

import datetime
from typing import Any, Final

import msgspec

from llmstream.dialects.gemini_interactions.step_decoder import StepDecoder
from llmstream.dialects.gemini_interactions.steps import FINISH_REASONS, KEY
from llmstream.dialects.gemini_interactions.usage import merge_usage, read_usage
from llmstream.dialects.gemini_interactions.wire import ALIASES, WireEvent
from llmstream.dialects.json_text import mended
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.events import Error, Finish, FinishReason, ResponseMetadata

__all__ = ["InteractionsDecoder"]

_BEGINNINGS: Final = frozenset({"created", "queued", "in_progress", "status_update"})
_FALLING_SHORT: Final = ("length", "content-filter", "error")


class InteractionsDecoder(StepDecoder):
    """One answer; see `dialects.base.Decoder`.

    The answer is complete once a status other than `in_progress` was said; it ends with
    `interaction.completed`, or with the body.
    """

    _raw_usage: dict[str, Any] | None = None
    _status: str | None = None
    _interaction_id: str | None = None
    _service_tier: Any = None
    _error: Any = None
    _named = False

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours."""
        kind = wire.event_type
        if kind == "step.delta" and self._joiner is None:
            self.step_delta(wire.index, wire.delta)
            if wire.metadata is not None:
                self._count(wire.metadata)
            return
        if self._joiner is not None:
            wire = _encodable(wire)
        self._count(wire.metadata)
        kind = ALIASES.get(kind or "", kind)
        if kind == "step.start":
            self.step_start(wire.index, wire.step or wire.content)
        elif kind == "step.delta":
            self.step_delta(wire.index, wire.delta)
        elif kind == "step.stop":
            self.step_stop(wire.index)
        elif kind == "interaction.created":
            self._interaction(wire.interaction or {})
        elif kind == "interaction.completed":
            self._interaction(wire.interaction or {})
            self._conclude((wire.interaction or {}).get("status") or self._status or "completed")
            self._finish()
        elif kind == "error" or (not kind and wire.error is not None):
            self.fail(error_from_value({"error": wire.error}, provider=self.provider))
        elif wire.status is not None or (kind or "").startswith("interaction."):
            self._conclude(wire.status or (kind or "").removeprefix("interaction."))

    def on_sentinel(self, payload: bytes) -> bool:
        """`[DONE]` ends the body; all is said before it."""
        return payload.lstrip().startswith(b"[DONE]") or payload.strip() == b"null"

    def end(self) -> None:
        """The body is over: a final status without `interaction.completed` is a complete answer."""
        if self.complete:
            self._finish()

    def _interaction(self, told: dict[str, Any]) -> None:
        if told.get("id"):
            self._interaction_id = str(told["id"])
        if told.get("service_tier") is not None:
            self._service_tier = told["service_tier"]
        if told.get("error"):
            self._error = told["error"]
        self._count({"usage": told.get("usage")})
        model = told.get("model") or told.get("agent")
        if not self._named and (model or self._interaction_id):
            self._named = True
            named = model if isinstance(model, str) and model else None
            when = _moment(told.get("created"))
            self.out.append(ResponseMetadata(named, self._interaction_id, when))

    def _count(self, holder: Any) -> None:
        said = holder.get("usage") if isinstance(holder, dict) else None
        if said is not None:
            self._raw_usage = merge_usage(self._raw_usage or {}, said)
            self.usage = read_usage(self._raw_usage)

    def _conclude(self, status: Any) -> None:
        """A status; all but those of a beginning say that the answer is complete."""
        if isinstance(status, str) and status not in _BEGINNINGS:
            self._status = status
            self.complete = True

    def _finish(self) -> None:
        reason: FinishReason = FINISH_REASONS.get(self._status or "", "other")
        for index, step in list(self.open_steps.items()):
            if step.kind == "call" and reason in _FALLING_SHORT:
                self.break_off(index)
            else:
                self.step_stop(index)
        if self.done:
            return
        if self.client_called and reason in ("stop", "other"):
            reason = "tool-calls"
        if reason == "error":
            told = self._error or {"message": "the interaction failed", "code": self._status}
            self.out.append(Error(error_from_value({"error": told}, provider=self.provider).info))
        last = {"interaction_id": self._interaction_id, "service_tier": self._service_tier}
        told = {name: value for name, value in last.items() if value is not None}
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, self._status, {KEY: told} if told else None))


def _moment(text: Any) -> datetime.datetime | None:
    try:
        return datetime.datetime.fromisoformat(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _encodable(wire: WireEvent) -> WireEvent:
    """The same event without halves of characters, but where halves may still meet: in streamed text."""
    whole = msgspec.convert(mended(msgspec.to_builtins(wire)), WireEvent)
    if whole.delta is not None and wire.delta is not None:
        for key in ("text", "arguments"):
            if isinstance(wire.delta.get(key), str):
                whole.delta[key] = wire.delta[key]
    return whole
