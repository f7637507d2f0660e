"""Observations of calls, and their delivery to observers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from operator import is_
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec

from llmstream.chats.message import Message
from llmstream.events import Usage
from llmstream.request import Request

__all__ = [
    "AttemptFailed",
    "AttemptStarted",
    "CallContent",
    "CallFinished",
    "FirstContent",
    "Observation",
    "Observe",
    "cleaned",
    "joined",
    "notify",
    "wants_content",
]

_T = TypeVar("_T")

_log: Final = logging.getLogger("llmstream")


class AttemptStarted(msgspec.Struct, frozen=True, kw_only=True):
    """A request is about to be sent; with a limiter, it waits first.

    call_id: the same in all observations of a call
    attempt: from 1
    """

    call_id: str
    provider: str
    model: str
    attempt: int


class AttemptFailed(msgspec.Struct, frozen=True, kw_only=True):
    """An attempt failed.

    error_code: of the error's class, such as "rate-limited"
    wait_s:     seconds until the next attempt; None if there is none
    """

    call_id: str
    provider: str
    model: str
    attempt: int
    error_code: str
    status: int | None = None
    request_id: str | None = None
    wait_s: float | None = None


class FirstContent(msgspec.Struct, frozen=True, kw_only=True):
    """The first delta of text, reasoning or tool input has arrived.

    after_s: seconds since the call began, waits and failed attempts included
    """

    call_id: str
    provider: str
    model: str
    after_s: float
    request_id: str | None = None


class CallFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A call ended; sent exactly once for each call that began.

    left:         the reader closed the stream before the end
    error_code:   why it failed; None without a failure
    request_id:   the vendor's, for its support
    duration_s:   since the call began
    time_to_first_s: from there to the first content; None without content
    inter_p50_s, inter_p99_s: between two deltas as the reader got them, within 5 %; deltas that arrive
                  together share the time since the previous ones
    tokens_per_s: output tokens per second since the first content
    paced_s:      the part of it spent waiting for a limiter
    continuations: the number of further responses into which the vendor split the answer; each is an attempt
    """

    call_id: str
    provider: str
    model: str
    attempts: int
    duration_s: float
    usage: Usage = Usage()
    finish_reason: str | None = None
    error_code: str | None = None
    left: bool = False
    request_id: str | None = None
    response_id: str | None = None
    response_model: str | None = None
    time_to_first_s: float | None = None
    inter_p50_s: float | None = None
    inter_p99_s: float | None = None
    tokens_per_s: float | None = None
    paced_s: float = 0.0
    continuations: int = 0

    @property
    def retries(self) -> int:
        """The number of repeated requests."""
        return max(0, self.attempts - 1 - self.continuations)


Observation: TypeAlias = AttemptStarted | AttemptFailed | FirstContent | CallFinished

Observe: TypeAlias = Callable[[Observation], object]
"""Called synchronously in the task that reads, so it must be fast. Its exceptions are logged.

An observer with a true attribute `wants_content` also receives a `CallContent`.
"""


class CallContent(msgspec.Struct, frozen=True, kw_only=True):
    """Request and response; sent just before `CallFinished`, to observers with `wants_content`.

    message: the response, complete or not

    The call's keys are masked in both.
    """

    is_content: ClassVar[bool] = True

    call_id: str
    provider: str
    model: str
    request: Request
    message: Message


def cleaned(value: _T, clean: Callable[[str], str]) -> _T:
    """A value with every string in it cleaned; the same object if nothing changes. Bytes are not changed."""
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
    if isinstance(value, list | tuple):  # of subclasses too: an agent's messages are a subclass
        items = [_cleaned(item, clean) for item in value]
        if all(map(is_, items, value)):
            return value
        return items if isinstance(value, list) else tuple(items)
    return value


def wants_content(observe: Callable[[Any], object] | None) -> bool:
    """Whether an observer also receives content."""
    return bool(getattr(observe, "wants_content", False))


def notify(observe: Callable[[Any], object], observation: object) -> None:
    """Calls an observer; its exceptions are logged."""
    try:
        observe(observation)
    except (Exception, asyncio.CancelledError):  # not awaited, so no cancellation of ours
        _log.exception("an observer failed at %s; the stream continues", type(observation).__name__)


class _Joined:
    """Several observers as one; only those with `wants_content` receive content."""

    def __init__(self, *observers: Callable[[Any], object]) -> None:
        self._observers = observers
        self.wants_content = any(map(wants_content, observers))

    def __call__(self, observation: object) -> None:
        for observe in self._observers:
            if wants_content(observe) or not getattr(observation, "is_content", False):
                notify(observe, observation)


def joined(*observers: Callable[[Any], object] | None) -> Callable[[Any], object] | None:
    """The given observers as one; None if there is none."""
    found = [observe for observe in observers if observe is not None]
    if not found:
        return None
    return found[0] if len(found) == 1 else _Joined(*found)
