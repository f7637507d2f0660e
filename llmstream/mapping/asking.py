"""Sends the requests of one item, until it has an answer or an error that a retry does not fix."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

from llmstream.chats.message import Message
from llmstream.errors import (
    AuthenticationError,
    ConnectionFailed,
    DeadlineExceeded,
    LLMStreamError,
    MissingKey,
    NotFound,
    Overloaded,
    PermissionDenied,
    ProxyError,
    RateLimited,
    TLSError,
    Unsupported,
)
from llmstream.streams.attempts import Retry, wait_before_retry_s, worth_another
from llmstream.streams.options import Options, Prompt, as_messages
from llmstream.transport.adaptive import AdaptiveConcurrency
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.streams.event_stream import EventStream
    from llmstream.streams.model import Model

__all__ = ["Answer", "Asker", "Price", "RunStopped"]

Price: TypeAlias = Callable[[str, Usage], float | None]
"""What tokens of "provider:model" cost, or None; `llmstream.prices.price` has the list prices."""

Step: TypeAlias = Literal["again", "wait", "next", "fail", "stop"]

# Errors that every other item would have too.
_OF_ALL: Final = (AuthenticationError, MissingKey)

# The same, unless something has been answered: then it is this item's.
_OF_ALL_AT_FIRST: Final = (NotFound, PermissionDenied, Unsupported, TLSError, ProxyError)

# Errors by which a vendor shows that it has too much to do.
_LOAD: Final = (RateLimited, Overloaded, DeadlineExceeded)

_ONCE: Final = Retry(max_retries=0)
_CHARS_PER_TOKEN: Final = 4
_PAYMENT_REQUIRED: Final = 402
# Without a network, requests would fail at once, and as fast as the processor can make them.
_RECONNECT_S: Final = 1.0


class RunStopped(Exception):
    """The run cannot continue: every item would fail in the same way.

    error: of the item that showed it, which is not recorded
    """

    def __init__(self, error: LLMStreamError) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass(slots=True)
class Answer:
    """The outcome of asking.

    value: of `output`, or the message
    """

    value: Any = None
    message: Message | None = None
    error: LLMStreamError | None = None
    usage: Usage = field(default_factory=Usage)
    cost: float | None = None
    attempts: int = 0
    model: str = ""
    finish_reason: str | None = None


class Asker:
    """Asks the models for one item after the other, as many at once as the vendor takes.

    models:     the first is used, the others if it fails
    options:    of each request, `output` included
    patience_s: after this time without any answer because of refusals, the run stops
    """

    def __init__(
        self,
        models: Sequence[Model[Any]],
        options: Options,
        *,
        retry: Retry,
        gate: AdaptiveConcurrency,
        price: Price | None,
        patience_s: float,
    ) -> None:
        self.refused = 0
        self._models = models
        self._output = options.get("output")
        given = {name: value for name, value in options.items() if name not in ("output", "retry")}
        self._options: dict[str, Any] = {**given, "retry": _ONCE}
        self._retry = retry
        self._gate = gate
        self._price = price
        self._patience_s = patience_s
        self._unpriced: set[str] = set()  # models: looking up a price costs more than using one
        self._answered = False  # whether anything has been
        self._since: float | None = None  # when the refusals since the last answer began

    async def ask(self, prompt: Prompt, began: float) -> Answer:
        """The answer to a prompt, or the error.

        began:  when the turn of the gate began that the caller has taken; it is given back here
        raises: RunStopped
        """
        answer, place, failures = Answer(), 0, 0
        turn: float | None = began
        try:
            while True:
                if turn is None:
                    turn = await self._gate.acquire()
                answer.attempts += 1
                error = await self._once(self._models[place], prompt, answer)
                if error is None:
                    self._answered, self._since = True, None
                    return answer
                load = self._observe(error, turn)
                step = self._step(error, failures + 1, last=place + 1 == len(self._models))
                if step == "stop":
                    self._gate.close()  # before the slot is freed, so that no other item takes it
                    raise RunStopped(error)
                if step == "fail":
                    answer.error = error
                    return answer
                self._gate.release()  # no slot is held while it waits
                turn = None
                if step == "next":
                    place, failures = place + 1, 0
                elif step == "again":
                    failures += 1
                    wait_s = wait_before_retry_s(self._retry, error, failures) or 0.0
                    await asyncio.sleep(0.0 if load else wait_s)
        finally:
            if turn is not None:
                self._gate.release()

    async def _once(self, model: Model[Any], prompt: Prompt, answer: Answer) -> LLMStreamError | None:
        """Makes one request, repairs of its answer included; returns why it failed."""
        try:
            async with model.stream(prompt, output=self._output, **self._options) as stream:
                try:
                    await _read(stream, answer, self._output is not None)
                finally:
                    self._account(stream, prompt, answer)
        except LLMStreamError as error:
            return error
        return None

    def _account(self, stream: EventStream[Any], prompt: Prompt, answer: Answer) -> None:
        """Adds tokens and cost of an attempt, failed or not."""
        used = stream.total_usage
        answer.usage = used if answer.attempts == 1 else answer.usage + used
        response = stream.response
        answer.model = f"{response.provider}:{response.model}"
        answer.finish_reason = stream.finish_reason if stream.error is None else None
        if stream.error is None:
            self._gate.answered(response.headers)
        if self._price is None or answer.model in self._unpriced:
            return
        cost = stream.cost(self._price)
        if cost is None and stream.text:
            cost = self._estimated_cost(prompt, stream.text, answer)
        if cost is not None:
            answer.cost = (answer.cost or 0.0) + cost

    def _estimated_cost(self, prompt: Prompt, text: str, answer: Answer) -> float | None:
        """The cost where the vendor counts no tokens; None, which is remembered, of a model without price."""
        assert self._price is not None
        tokens = Usage(max(1, _tokens_in(prompt)), max(1, len(text) // _CHARS_PER_TOKEN))
        cost = self._price(answer.model, tokens)
        if cost is None:
            self._unpriced.add(answer.model)
        return cost

    def _observe(self, error: LLMStreamError, began: float) -> bool:
        """Takes a refusal into account; returns whether it was one, so that the gate decides who waits."""
        if isinstance(error, ConnectionFailed):
            self._gate.pause(_RECONNECT_S)
            return True
        if not (isinstance(error, _LOAD) and error.retryable):
            self._since = None  # the vendor takes requests
            return False
        self.refused += 1
        self._gate.refused(began, error.retry_after_s)
        return True

    def _step(self, error: LLMStreamError, failures: int, *, last: bool) -> Step:
        """What to do after a failure.

        failures: of this model for this item, this one included
        last:     whether there is no other model
        """
        if isinstance(error, RateLimited) and error.retryable:
            return self._wait(error)
        if error.retryable and failures <= self._retry.max_retries:
            return "again"
        if not last and worth_another(error):
            return "next"
        if self._is_of_all(error):
            return "stop"
        return self._wait(error) if isinstance(error, Overloaded | ConnectionFailed) else "fail"

    def _is_of_all(self, error: LLMStreamError) -> bool:
        """Whether every other item would fail in the same way."""
        if isinstance(error, _OF_ALL) or (isinstance(error, RateLimited) and not error.retryable):
            return True
        if isinstance(error, PermissionDenied) and error.status == _PAYMENT_REQUIRED:
            return True
        return not self._answered and isinstance(error, (*_OF_ALL_AT_FIRST, ConnectionFailed))

    def _wait(self, error: LLMStreamError) -> Step:
        """Waits for better times, unless they are too far away."""
        now = asyncio.get_running_loop().time()
        if self._since is None:
            self._since = now
        too_long = now - self._since > self._patience_s or (error.retry_after_s or 0.0) > self._patience_s
        return "stop" if too_long else "wait"


async def _read(stream: EventStream[Any], answer: Answer, typed: bool) -> None:
    """Reads a response to its end."""
    if typed:
        async for _ in stream.objects():
            pass
        answer.value, answer.message = stream.object, stream.message
    else:
        answer.value = answer.message = await stream.collect()


def _tokens_in(prompt: Prompt) -> int:
    """About how many tokens a prompt has."""
    texts = [prompt] if isinstance(prompt, str) else [message.text for message in as_messages(prompt)]
    return sum(map(len, texts)) // _CHARS_PER_TOKEN
