"""The attempts of one call: deadlines, failures, adaptation of refused requests, and retries.

A failed request is sent again only before the first content, after a wait with full jitter.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import msgspec

from llmstream.dialects.base import Dialect, Encoded
from llmstream.errors import BadRequest, ConnectionLost, DeadlineExceeded, InvalidRequest, LLMStreamError
from llmstream.events import ErrorEvent, Event, UnsupportedSetting, Warning
from llmstream.exchange import HttpRequest
from llmstream.transport.deadlines import Deadlines, Due, Watchdog, deadline_error, hard_due, sooner

if TYPE_CHECKING:
    from llmstream.dialects.adapting import Refused

__all__ = [
    "Adapter",
    "AttemptClock",
    "Attempts",
    "Retry",
    "RetryBudget",
    "budget_of",
    "forget",
    "scrub",
    "wait_before_retry_s",
    "without_secrets",
    "worth_another",
]

Key: TypeAlias = tuple[str, str | None, str]
"""Provider, address and model."""

# More models than a program uses; bounds the memory if model names are generated.
_MAX_MODELS: Final = 1024

_remembered: dict[Key, list[Refused]] = {}

T = TypeVar("T")

# uvloop rounds to milliseconds, so a timer may fire one or two milliseconds early.
_EARLY_S: Final = 0.002


class AttemptClock:
    """Awaits the stages of a call up to its response, one at a time, within the deadlines.

    started: loop time at which the attempt began
    """

    def __init__(self, deadlines: Deadlines, total_started: float | None) -> None:
        self.started = 0.0
        self._deadlines = deadlines
        self._total_started = total_started
        self._watchdog: Watchdog | None = None
        self._timer: asyncio.Timeout | None = None  # of the stage being awaited
        self._passed: DeadlineExceeded | None = None
        self._left = False

    @property
    def left(self) -> bool:
        """Whether the call was closed, so that no further stage may wait."""
        return self._left

    def begin(self) -> None:
        """Starts the total deadline, unless it is running."""
        if self._total_started is None:
            self._total_started = asyncio.get_running_loop().time()

    def attempt(self) -> Watchdog:
        """Starts an attempt. One timer enforces its deadlines up to the end of its response."""
        self.stop()
        self._passed = None
        self.started = asyncio.get_running_loop().time()
        self._watchdog = Watchdog(
            self._deadlines, self._expire, started=self.started, total_started=self._total_started or 0.0
        )
        return self._watchdog

    def stop(self) -> None:
        """Ends the attempt."""
        watchdog, self._watchdog = self._watchdog, None
        if watchdog is not None:
            watchdog.release()

    def leave(self) -> None:
        """Ends the current stage and the attempt."""
        self._left = True
        self.stop()
        if self._timer is not None and not self._timer.expired():
            self._timer.reschedule(0.0)

    def watched(self, step: Awaitable[T]) -> Awaitable[T]:
        """Awaits a stage of the attempt, up to the response headers.

        raises: DeadlineExceeded, ConnectionLost once it is closed
        """
        return self._take(step, None)

    def in_time(
        self, step: Awaitable[T], started: float | None, silence: str = "first-event"
    ) -> Awaitable[T]:
        """Awaits a stage outside the attempt, with separate deadlines.

        started: when the stage began; None if only the total deadline applies
        silence: the deadline measured from there
        raises:  as `watched`
        """
        return self._take(step, self._due(started, silence))

    def past_total(self, wait_s: float) -> bool:
        """Whether the total deadline would pass during a wait."""
        total_s, started = self._deadlines.total_s, self._total_started
        if total_s is None or started is None:
            return False
        return asyncio.get_running_loop().time() + wait_s + _EARLY_S > started + total_s

    async def _take(self, step: Awaitable[T], due: Due | None) -> T:
        try:
            async with asyncio.timeout_at(due[0] if due else None) as timer:
                self._timer = timer
                return await step
        except DeadlineExceeded:  # raised by the stage itself
            raise
        except TimeoutError:
            if self._left:
                raise ConnectionLost("the stream was closed while it was read", retryable=False) from None
            # Two timers may have ended the wait: the one of this stage, or the watchdog of the attempt
            # through `_expire`. Any other TimeoutError was raised by the stage itself, for example by the
            # caller's function.
            passed = self._passed if due is None else deadline_error(due[1], due[2])
            if passed is None or not timer.expired():
                raise  # raised by the stage itself
            raise passed from None
        finally:
            self._timer = None

    def _expire(self, error: DeadlineExceeded) -> None:
        self._passed = error
        if self._timer is not None:
            self._timer.reschedule(0.0)

    def _due(self, started: float | None, silence: str) -> Due | None:
        """The next deadline; only the total one if no stage has begun."""
        deadlines = self._deadlines
        step_started = None if started is None else self.started
        hard = hard_due(deadlines, step_started=step_started, total_started=self._total_started or 0.0)
        silence_s = deadlines.first_event_s if silence == "first-event" else deadlines.idle_s
        if started is None or silence_s is None:
            return hard
        return sooner((started + silence_s, silence, silence_s), hard)


class Attempts:
    """The attempts of a call, shared with `Reconnector` and `Continuer`.

    clock:    awaits stages before the response
    count:    the number of requests sent
    failures: of the attempts before the last
    secrets:  returns the texts to mask in errors
    """

    def __init__(self, provider: str, deadlines: Deadlines, total_started: float | None) -> None:
        self._provider = provider
        self.clock = AttemptClock(deadlines, total_started)
        self.count = 0
        self.failures: list[LLMStreamError] = []
        self.secrets: Callable[[], tuple[str, ...]] = tuple

    def scrubbed(self, error: LLMStreamError) -> LLMStreamError:
        """The same error, with keys that the vendor echoed masked."""
        error.attempts = self.count
        if error.provider is None:
            error.provider = self._provider
        return scrub(error, self.without_secrets)

    def scrubbed_events(self, events: list[Event]) -> list[Event]:
        """The same events, with keys in errors masked."""
        return [self._scrubbed_event(event) if type(event) is ErrorEvent else event for event in events]

    def _scrubbed_event(self, event: ErrorEvent) -> ErrorEvent:
        mask = self.without_secrets
        info = event.error
        info = msgspec.structs.replace(
            info,
            message=mask(info.message),
            reason=info.reason and mask(info.reason),
            request_id=info.request_id and mask(info.request_id),
            param=info.param and mask(info.param),
            details=info.details and _masked(info.details, mask),
        )
        return ErrorEvent(info, event.provider_metadata)

    def without_secrets(self, text: str) -> str:
        """The text with every secret masked."""
        return without_secrets(text, self.secrets())


def scrub(error: LLMStreamError, mask: Callable[[str], str]) -> LLMStreamError:
    """Masks keys that the vendor echoed in everything that an error shows; returns the same error."""
    error.message = mask(error.message)
    # `str(error)` and a pickle read `args`, and would reveal the key masked in the message.
    error.args = (error.message,)
    error.reason = error.reason and mask(error.reason)
    error.request_id = error.request_id and mask(error.request_id)
    error.param = error.param and mask(error.param)
    error.details = error.details and _masked(error.details, mask)
    # The traceback frames of the cause reference the request; the cause's text is already in the message.
    error.__cause__ = error.__context__ = None
    return error.with_traceback(None)


def without_secrets(text: str, secrets: Iterable[str]) -> str:
    """The text with every secret masked."""
    for secret in secrets:
        text = text.replace(secret, "***")
    return text


def _masked(value: Any, mask: Callable[[str], str]) -> Any:
    """The vendor's error details, of any shape, with keys masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, dict):
        return {_masked(key, mask): _masked(inner, mask) for key, inner in value.items()}
    return [_masked(inner, mask) for inner in value] if isinstance(value, list) else value


class Adapter:
    """Removes from the requests of one call fields that its model has rejected."""

    def __init__(self, key: Key, dialect: Dialect) -> None:
        self._key = key
        self._dialect = dialect
        self._sent: HttpRequest | None = None
        self._learned: dict[Refused, str] = {}  # with the error's message
        self._repairs: LLMStreamError | None = None

    def fit(self, encoded: Encoded) -> Encoded:
        """The request without rejected fields, with a warning for each."""
        known = [*_remembered.get(self._key, ()), *self._learned]
        if known:
            encoded = self._without(encoded, known)
        if self._repairs is not None:
            encoded = Encoded(self._repaired(encoded.http, self._repairs) or encoded.http, encoded.warnings)
        self._sent = encoded.http
        return encoded

    def learn(self, error: LLMStreamError) -> bool:
        """Whether to send the request again, because the error rejects an optional setting in it."""
        if self._sent is None or not isinstance(error, BadRequest):
            return False
        if self._repairs is None and self._repaired(self._sent, error) is not None:
            self._repairs = error
            return True
        from llmstream.dialects.adapting import refused_hint  # imported only after a rejection

        refused = refused_hint(error, self._sent)
        if refused is None:
            return False
        self._learned[refused] = error.message
        return True

    def confirm(self) -> None:
        """Records that the reduced request was accepted: later requests omit the fields too."""
        self._sent = None  # no longer rejected; a reference would stay in memory as long as the stream
        if not self._learned:
            return
        # Clear everything at once: a rejected field is detected again with one request.
        if len(_remembered) >= _MAX_MODELS:
            _remembered.clear()
        known = _remembered.setdefault(self._key, [])
        known += [refused for refused in self._learned if refused not in known]

    def _without(self, encoded: Encoded, known: list[Refused]) -> Encoded:
        from llmstream.dialects.adapting import without_hints

        http, gone = without_hints(encoded.http, known)
        return Encoded(http, [*encoded.warnings, *map(self._warning, gone)])

    def _repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        return self._dialect.repaired(http, error)

    def _warning(self, refused: Refused) -> Warning:
        message = self._learned.get(refused)
        details = "this model refused it before" if message is None else f"the model refused it: {message}"
        return UnsupportedSetting(refused.hint, details)


def forget() -> None:
    """Clears the record of rejected fields; for tests."""
    _remembered.clear()


# As the SDKs of OpenAI and Anthropic wait, but with full jitter, so that clients that failed together do not
# retry together.
_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a request is repeated, and how long to wait. `Retry(max_retries=0)` is one attempt.

    max_wait_s: the longest wait a vendor may ask for; a longer one fails at once
    raises:     InvalidRequest for anything but a number, or a negative one
    """

    # As the vendors' SDKs.
    max_retries: int = 2
    # Some servers request a day, or infinity; the caller should get that error at once.
    max_wait_s: float = 60.0

    def __post_init__(self) -> None:
        for name, kind in (("max_retries", int), ("max_wait_s", (int, float))):
            value = getattr(self, name)
            if not (isinstance(value, kind) and value >= 0):
                raise InvalidRequest(f"{name} must be a number that is not negative; got {value!r}")


def wait_before_retry_s(
    retry: Retry, error: LLMStreamError, attempt: int, random_unit: Callable[[], float] = random.random
) -> float | None:
    """Seconds to wait before the next attempt; None for no further attempt.

    attempt: the number of attempts so far, from 1
    """
    if not error.retryable or attempt > retry.max_retries:
        return None
    # A vendor's Retry-After is either honoured or fails the call, never shortened: an earlier retry would
    # count against the limit again.
    if error.retry_after_s is not None:
        return error.retry_after_s if error.retry_after_s <= retry.max_wait_s else None
    cap = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (attempt - 1), retry.max_wait_s)
    return random_unit() * cap


def worth_another(error: LLMStreamError) -> bool:
    """Whether another model may succeed: not if the request itself is invalid, or the time is up."""
    if isinstance(error, DeadlineExceeded):
        return error.reason != "total"
    return not isinstance(error, InvalidRequest)


# The retry quota of botocore's standard mode: a retry costs 5, one after a timeout 10, a success returns 1.
# So in an outage retries drop to one for five successes instead of multiplying the load.
_CAPACITY: Final = 500
_COST: Final = 5
_COST_OF_SILENCE: Final = 10
_REFUND: Final = 1


class RetryBudget:
    """Limits the retries of one provider in a process, so that retries do not multiply the load of an outage.

    A retry costs 5, one after a deadline 10; an attempt that has content returns 1.
    """

    def __init__(self, capacity: int = _CAPACITY) -> None:
        self._capacity = capacity
        self.left = capacity

    def take(self, error: LLMStreamError) -> bool:
        """Whether the budget covers a retry after this error; if so, deducts its cost."""
        cost = _COST_OF_SILENCE if isinstance(error, DeadlineExceeded) else _COST
        if cost > self.left:
            return False
        self.left -= cost
        return True

    def give_back(self) -> None:
        """Refunds a part after an attempt that had content."""
        self.left = min(self._capacity, self.left + _REFUND)


_budgets: dict[str, RetryBudget] = {}


def budget_of(provider: str) -> RetryBudget:
    """The retry budget shared by all calls of one provider in this process."""
    return _budgets.get(provider) or _budgets.setdefault(provider, RetryBudget())
