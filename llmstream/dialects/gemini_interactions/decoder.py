"""Bytes of a streamed interaction to events: the interaction around its steps."""

from __future__ import annotations

import datetime
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Limits
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.gemini_interactions.step_decoder import StepDecoder
from llmstream.dialects.gemini_interactions.steps import FINISH_REASONS, KEY
from llmstream.dialects.gemini_interactions.usage import merge_usage, read_usage
from llmstream.dialects.gemini_interactions.wire import ALIASES, WireEvent
from llmstream.dialects.google_errors import failure
from llmstream.dialects.json_text import mended
from llmstream.errors import ProviderError
from llmstream.events import Error, Finish, FinishReason, ResponseMetadata

__all__ = ["InteractionsDecoder"]

_REMEMBERED: Final = ("service_tier", "environment_id")
"""What the metadata of finish keeps of an interaction."""

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
    _error: Any = None
    _named = False

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: Limits = Limits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(provider=provider, include_raw=include_raw, limits=limits, new_call_id=new_call_id)
        self._last_words: dict[str, Any] = {}
        self._errors: list[Any] = []

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
        if wire.metadata is not None:
            self._count(wire.metadata)
        if wire.usage is not None:
            self._count({"usage": wire.usage})
        kind = ALIASES.get(kind or "", kind)
        if kind == "step.start":
            self.step_start(wire.index, wire.step or wire.content)
        elif kind == "step.delta":
            self.step_delta(wire.index, wire.delta)
        elif kind == "step.stop":
            if wire.step_usage is not None:
                told = {"index": wire.index, "usage": wire.step_usage}
                self._last_words.setdefault("step_usage", []).append(told)
            self.step_stop(wire.index)
        elif kind == "interaction.created":
            self._interaction(wire.interaction or {})
        elif kind == "interaction.completed":
            self._interaction(wire.interaction or {})
            self._steps_of((wire.interaction or {}).get("steps"))
            self._conclude((wire.interaction or {}).get("status") or self._status or "completed")
            self._finish()
        elif kind == "error" or (not kind and wire.error is not None):
            self.fail(failure(wire.error, provider=self.provider))
        elif wire.status is not None or (kind or "").startswith("interaction."):
            self._interaction_id = self._interaction_id or _text(wire.interaction_id)
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
        for name in _REMEMBERED:
            if told.get(name) is not None:
                self._last_words[name] = told[name]
        if isinstance(told.get("errors"), list):
            self._errors = told["errors"]
        if told.get("error"):
            self._error = told["error"]
        self._count({"usage": told.get("usage")})
        model, agent = told.get("model"), told.get("agent")
        if model and agent:
            self._last_words["agent"] = agent
        model = model or agent
        if not self._named and (model or self._interaction_id):
            self._named = True
            named = model if isinstance(model, str) and model else None
            when = _moment(told.get("created"))
            self.out.append(ResponseMetadata(named, self._interaction_id, when))

    def _steps_of(self, steps: Any) -> None:
        """A last word may hold all steps: their errors, and the steps where none of them has streamed."""
        streamed, noted = self.stepped, bool(self.step_errors)
        for number, step in enumerate(steps if isinstance(steps, list) else ()):
            if not isinstance(step, dict) or self.done:
                continue
            if not streamed:
                self.step_start(("whole", number), step)
                self.step_stop(("whole", number))
            elif not noted:
                self.note_error(step)

    def _count(self, holder: Any) -> None:
        said = None
        if isinstance(holder, dict):
            said = holder.get("usage") or holder.get("total_usage")
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
            self.out.append(Error(self._failure().info))
        told = dict(self._last_words)
        if self._interaction_id is not None:
            told["interaction_id"] = self._interaction_id
        if self._errors or self.step_errors:
            told["errors"] = [*self._errors, *self.step_errors]
        self.complete = self.done = True
        self.out.append(Finish(reason, self.usage, self._status, {KEY: told} if told else None))

    def _failure(self) -> ProviderError:
        """Why the interaction failed: its own errors say it better than those of its steps."""
        causes = [*self._errors[:1], self._error, *self.step_errors[:1]]
        unknown = {"message": "the interaction failed", "code": self._status}
        return failure(next((cause for cause in causes if cause), unknown), provider=self.provider)


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


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
