"""Observers of calls: several as one, and what one is told of content that asks for it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from operator import is_
from typing import Any, ClassVar, TypeVar, cast

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.chats.message import Message
from llmstream.events import Event
from llmstream.request import Request

__all__ = ["CallContent", "Contents", "cleaned", "joined", "tell", "wants_content"]

_T = TypeVar("_T")

_log = logging.getLogger("llmstream")


class CallContent(msgspec.Struct, frozen=True, kw_only=True):
    """What was asked and answered; comes right before `CallFinished`, to an observer with `wants_content`.

    message: as far as the answer came

    The call's keys are taken out of both.
    """

    is_content: ClassVar[bool] = True

    call_id: str
    provider: str
    model: str
    request: Request
    message: Message


class Contents:
    """Keeps what a call is told of content by."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._answer = Accumulator()

    def read(self, events: list[Event]) -> None:
        """Events that came together."""
        self._answer.feed_many(events)

    def so_far(
        self, *, call_id: str, provider: str, model: str, clean: Callable[[str], str] = str
    ) -> CallContent:
        """The content as far as it came.

        clean: takes keys out of a text
        """
        return CallContent(
            call_id=call_id,
            provider=provider,
            model=model,
            request=cleaned(self._request, clean),
            message=cleaned(self._answer.partial, clean),
        )


def cleaned(value: _T, clean: Callable[[str], str]) -> _T:
    """A value with each text in it cleaned; the same where that changes nothing. Bytes stay as they are."""
    return cast("_T", _cleaned(value, clean))


def _cleaned(value: object, clean: Callable[[str], str]) -> object:
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        found = {name: _cleaned(field, clean) for name, field in fields.items()}
        changed = {name: field for name, field in found.items() if field is not fields[name]}
        return msgspec.structs.replace(value, **changed) if changed else value
    if isinstance(value, dict):
        pairs = {_cleaned(key, clean): _cleaned(field, clean) for key, field in value.items()}
        same = pairs.keys() == value.keys() and all(pairs[key] is value[key] for key in pairs)
        return value if same else pairs
    if isinstance(value, list | tuple):  # of subclasses too: an agent's messages are one
        items = [_cleaned(item, clean) for item in value]
        if all(map(is_, items, value)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def wants_content(observe: Callable[[Any], object] | None) -> bool:
    """Whether an observer is to be told what is said, beside how it went."""
    return bool(getattr(observe, "wants_content", False))


def tell(observe: Callable[[Any], object], observation: object) -> None:
    """Tells an observer; what it raises is logged and dropped."""
    try:
        observe(observation)
    except (Exception, asyncio.CancelledError):  # called without await: no cancellation of ours comes here
        _log.exception("an observer failed at %s; the stream goes on", type(observation).__name__)


class _Joined:
    """Two observers as one; only those that want content are told of it."""

    def __init__(self, *observers: Callable[[Any], object]) -> None:
        self._observers = observers
        self.wants_content = any(map(wants_content, observers))

    def __call__(self, observation: object) -> None:
        for observe in self._observers:
            if wants_content(observe) or not getattr(observation, "is_content", False):
                tell(observe, observation)


def joined(*observers: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """All observers that there are as one; None where there is none."""
    found = [observe for observe in observers if observe is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else _Joined(*found)
