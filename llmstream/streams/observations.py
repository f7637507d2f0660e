"""Observations of calls: their types, their delivery to observers, and the reporter that measures and logs.

`Reporter` accompanies one call. `Watch` measures it, only if there is an observer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from operator import is_
from types import FrameType
from typing import Any, ClassVar, Final, TypeAlias, TypeVar, cast

import msgspec

from llmstream.accumulate.accumulator import Accumulator
from llmstream.chats.message import Message
from llmstream.dialects.errors import request_id
from llmstream.errors import LLMStreamError
from llmstream.events import (
    DELTAS,
    Event,
    Finish,
    OtherWarning,
    ResponseMetadata,
    Warning,
    warning_text,
)
from llmstream.request import Request
from llmstream.usage import Usage

__all__ = [
    "AttemptFailed",
    "AttemptStarted",
    "CallContent",
    "CallFinished",
    "Contents",
    "FirstContent",
    "Observation",
    "Observe",
    "Reporter",
    "Watch",
    "cleaned",
    "forget_logged",
    "joined",
    "notify",
    "shown",
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


# Ids of vendors have 20 to 80 characters.
_SHOWN_CHARS: Final = 256

# Percentiles are within 5 % of the true value, for at most some 300 counters a response.
_STEPS_PER_OCTAVE: Final = 8

# Gaps of one batch are 0, which has no logarithm.
_SHORTEST_S: Final = 1e-7


class Watch:
    """Measures one call and reports it to an observer.

    clean: masks keys in the vendor's texts
    """

    def __init__(
        self,
        observe: Observe,
        *,
        call_id: str,
        provider: str,
        model: str,
        request: Request | None = None,
        clean: Callable[[str], str] = str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.paced_s = 0.0
        self.continuations = 0
        self.request_id: str | None = None
        self._observe = observe
        self._contents = Contents(request) if request is not None and wants_content(observe) else None
        self._clock, self._clean = clock, clean
        self._call_id, self._provider, self._model = call_id, provider, model
        self._began = clock()
        self._first: float | None = None
        self._last = 0.0
        self._gaps: Counter[int] = Counter()
        self._metadata = ResponseMetadata()
        self._finish_reason: str | None = None
        self._over = False

    def attempt_started(self, attempt: int) -> None:
        """Reports that a request is about to be sent."""
        self.request_id = None
        self._tell(
            AttemptStarted(call_id=self._call_id, provider=self._provider, model=self._model, attempt=attempt)
        )

    def attempt_failed(self, attempt: int, error: LLMStreamError, wait_s: float | None) -> None:
        """Reports a failed attempt."""
        # An error in the stream may have no id, but the response headers had one.
        self.request_id = error.request_id or self.request_id
        self._tell(
            AttemptFailed(
                call_id=self._call_id,
                provider=self._provider,
                model=self._model,
                attempt=attempt,
                error_code=error.code,
                status=error.status,
                request_id=self.request_id,
                wait_s=wait_s,
            )
        )

    def batch(self, events: list[Event]) -> None:
        """Measures a batch of events."""
        if self._contents is not None:
            self._contents.read(events)
        count = 0
        for event in events:
            kind = type(event)
            if kind in DELTAS:
                count += 1
            elif isinstance(event, ResponseMetadata):
                self._metadata = event
            elif isinstance(event, Finish):
                self._finish_reason = event.finish_reason
        if not count:
            return
        now = self._clock()
        if self._first is None:
            self._first = now
            self._tell(
                FirstContent(
                    call_id=self._call_id,
                    provider=self._provider,
                    model=self._model,
                    after_s=now - self._began,
                    request_id=self.request_id,
                )
            )
        else:
            # Events of one read arrived together: they share the gap, or most gaps would be 0.
            self._gaps[_step((now - self._last) / count)] += count
        self._last = now

    def finished(self, attempts: int, usage: Usage, error: LLMStreamError | None, *, left: bool) -> None:
        """Reports the end of the call, once."""
        if self._over:
            return
        self._over = True
        self._tell_content()
        now, first = self._clock(), self._first
        writing_s = now - first if first is not None else 0.0
        tokens = usage.output_tokens
        self._tell(
            CallFinished(
                call_id=self._call_id,
                provider=self._provider,
                model=self._model,
                attempts=attempts,
                duration_s=now - self._began,
                usage=usage,
                finish_reason=self._finish_reason,
                error_code=error.code if error is not None else None,
                left=left,
                request_id=self.request_id,
                response_id=self._shown(self._metadata.id),
                response_model=self._shown(self._metadata.model_id),
                time_to_first_s=first - self._began if first is not None else None,
                inter_p50_s=_quantile(self._gaps, 0.5),
                inter_p99_s=_quantile(self._gaps, 0.99),
                # From the first content on: waiting in the vendor's queue does not count as generation time.
                tokens_per_s=tokens / writing_s if tokens and writing_s > 0 else None,
                paced_s=self.paced_s,
                continuations=self.continuations,
            )
        )

    def _shown(self, value: str | None) -> str | None:
        return value and shown(value, self._clean)

    def _tell_content(self) -> None:
        """Reports request and response, if the observer wants content."""
        if self._contents is None:
            return
        try:
            content = self._contents.so_far(
                call_id=self._call_id, provider=self._provider, model=self._model, clean=self._clean
            )
        except Exception:  # garbage collection may have closed the buffers first
            _log.info("the content of a call that was dropped is not reported", exc_info=True)
        else:
            self._tell(content)

    def _tell(self, observation: Observation | CallContent) -> None:
        notify(self._observe, observation)


def shown(value: str, clean: Callable[[str], str]) -> str:
    """A vendor's name or id for observers and the log: keys masked, at most 256 characters."""
    return clean(value)[:_SHOWN_CHARS]


def _step(gap_s: float) -> int:
    """The histogram bucket of a time, an eighth of an octave wide, so that memory stays bounded."""
    return round(math.log2(max(gap_s, _SHORTEST_S)) * _STEPS_PER_OCTAVE)


def _quantile(gaps: Counter[int], share: float) -> float | None:
    """The quantile of the gaps: that share of them is shorter."""
    left = share * gaps.total()
    for step in sorted(gaps):
        left -= gaps[step]
        if left <= 0:
            return float(2.0 ** (step / _STEPS_PER_OCTAVE))
    return None


class Contents:
    """Collects the content of a call."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._answer = Accumulator()

    def read(self, events: list[Event]) -> None:
        """Adds a batch of events."""
        self._answer.feed_many(events)

    def so_far(
        self, *, call_id: str, provider: str, model: str, clean: Callable[[str], str] = str
    ) -> CallContent:
        """The content so far.

        clean: masks keys in a text
        """
        return CallContent(
            call_id=call_id,
            provider=provider,
            model=model,
            request=cleaned(self._request, clean),
            message=cleaned(self._answer.partial, clean),
        )


# Bounds the memory if a program generates model names.
_MAX_LOGGED: Final = 1024


# (model, place of call, text) of the warnings already logged.
_logged: set[tuple[str, str, str]] = set()

# Packages whose stack frames may lie between a request and the code that made it.
_INTERNAL_PACKAGES: Final = frozenset({"llmstream", "asyncio", "anyio", "contextlib"})


class Reporter:
    """Reports attempts and ends, never content, to the log and to an observer if there is one.

    watch:   reports to the observer; None without one
    headers: of the last response
    clean:   masks keys in the vendor's texts
    """

    __slots__ = ("_clean", "_name", "_over", "headers", "watch")

    def __init__(
        self,
        provider: str,
        model: str,
        call_id: str,
        observe: Observe | None,
        request: Request | None = None,
        clean: Callable[[str], str] = str,
    ) -> None:
        self._clean = clean
        self.watch: Watch | None = None
        if observe is not None:
            self.watch = Watch(
                observe, call_id=call_id, provider=provider, model=model, request=request, clean=clean
            )
        self._name = f"{provider}:{model}"
        self.headers: Mapping[str, str] = {}
        self._over = False

    def started(self, attempt: int) -> None:
        """Reports the start of an attempt."""
        self.headers = {}
        _log.debug("%s: attempt %d", self._name, attempt)
        if self.watch is not None:
            self.watch.attempt_started(attempt)

    def answered(self, headers: Mapping[str, str]) -> None:
        """Records the headers of a response."""
        self.headers = headers
        if self.watch is not None:
            self.watch.request_id = self._request_id()

    def changed(self, warnings: Iterable[Warning]) -> None:
        """Logs what was omitted from the request or changed in it, once for each model and call site.

        Options and tools are logged as warnings, because the caller expects them to apply. Anything
        else, such as reasoning that an API does not accept back, is normal and logged for information.
        """
        if not _log.isEnabledFor(logging.WARNING):
            return
        # Keyed by call site too: one program may call one model in several ways.
        where = _call_site()
        for warning in warnings:
            text = warning_text(warning)
            if _is_new((self._name, where, text)):
                level = logging.INFO if isinstance(warning, OtherWarning) else logging.WARNING
                _log.log(level, "%s: %s%s", self._name, text, where and f" ({where})")

    def failed(self, attempt: int, error: LLMStreamError, wait_s: float | None) -> None:
        """Reports a failed attempt; `wait_s` until the next, None if there is none."""
        what = "no further attempt" if wait_s is None else f"the next in {wait_s:.2f} s"
        which = _of_request(error.request_id or self._request_id())
        _log.info("%s: attempt %d failed: %s; %s%s", self._name, attempt, error.code, what, which)
        if self.watch is not None:
            self.watch.attempt_failed(attempt, error, wait_s)

    def continued(self) -> None:
        """Reports that the answer continues in another response."""
        _log.debug("%s: the answer continues in another response", self._name)
        if self.watch is not None:
            self.watch.continuations += 1

    def _request_id(self) -> str | None:
        """The vendor's request id, with keys masked and of bounded length."""
        found = request_id(self.headers)
        return found and shown(found, self._clean)

    def ended(self, attempts: int, usage: Usage, error: LLMStreamError | None, *, left: bool) -> None:
        """Reports the end of the call, once."""
        if self._over:
            return
        self._over = True
        if _log.isEnabledFor(logging.INFO):
            how = error.code if error is not None else "left" if left else "finished"
            which = (error.request_id if error is not None else None) or self._request_id()
            _log.info("%s: %s%s%s", self._name, how, _of_tokens(usage), _of_request(which))
        if self.watch is not None:
            self.watch.finished(attempts, usage, error, left=left)


def forget_logged() -> None:
    """Clears the record of logged warnings; for tests."""
    _logged.clear()


def _is_new(key: tuple[str, str, str]) -> bool:
    if key in _logged:
        return False
    if len(_logged) >= _MAX_LOGGED:
        _logged.clear()
    _logged.add(key)
    return True


def _call_site() -> str:
    """File and line of the code outside this package that reads the response; "" without one."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _INTERNAL_PACKAGES:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def _of_tokens(usage: Usage) -> str:
    counts = (usage.input_tokens, "tokens in"), (usage.output_tokens, "tokens out")
    known = [f"{count} {name}" for count, name in counts if count is not None]
    return "; " + ", ".join(known) if known else ""


def _of_request(name: str | None) -> str:
    return f" (request {name})" if name else ""
