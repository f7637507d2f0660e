"""The account of one call: request, response, outcome."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

import msgspec

from llmstream.errors import ErrorInfo
from llmstream.usage import Usage

if TYPE_CHECKING:
    from llmstream.gateway.routes import Target
    from llmstream.streams.model import Model

__all__ = ["Account", "Lane", "Outcome", "Row", "Trace", "estimated_tokens"]

Lane: TypeAlias = Literal["pass", "translate"]

Outcome: TypeAlias = Literal["open", "complete", "cut", "failed", "left", "lost"]
"""How a call ended: `cut` was interrupted after its first content, `left` was closed by
the client, and `lost` belongs to a gateway that died."""

# For English text in common tokenizers: a rough estimate if the vendor reports no count.
_BYTES_PER_TOKEN: Final = 4
# Errors of requests that did not reach a vendor.
_NOT_SENT: Final = frozenset(
    {"connection-failed", "invalid-request", "unsupported", "missing-key", "tls-error", "proxy-error"}
)


def estimated_tokens(size: int) -> int:
    """A rough count from bytes or characters; at least 1, because no call is free."""
    return max(1, -(-size // _BYTES_PER_TOKEN))


class Row(msgspec.Struct, kw_only=True):
    """One call in the log.

    started:   Unix time, in s
    first_s:   from the request to the first content
    duration_s: from the request to the end
    cost_usd:  None if no price is known
    estimated: whether tokens or cost are estimates, because the vendor reported them only in part
    tried:     models that failed before the one that answered
    """

    id: int = 0
    started: float
    key: str = ""
    tag: str = ""
    route: str = ""
    wire: str = ""
    lane: Lane = "translate"
    asked: str = ""
    model: str = ""
    streamed: bool = True
    outcome: Outcome = "open"
    code: str = ""
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float | None = None
    estimated: bool = True
    first_s: float | None = None
    duration_s: float | None = None
    tried: str = ""


class Trace(Protocol):
    """Observes one call, for telemetry."""

    def asked(self, model: str) -> None:
        """A request is sent to a model, "provider:model"."""

    def first(self, after_s: float) -> None:
        """The first content has arrived."""

    def failed_over(self, error: ErrorInfo, duration_s: float) -> None:
        """The model failed, and another may be tried."""

    def ended(self, usage: Usage) -> None:
        """The call is settled, and its row is complete."""


class Account:
    """Collects what one call used, and settles it once.

    wire:     of the current vendor
    usage:    as far as the vendor has reported it
    chars:    of the content so far, for an estimate where it reports nothing
    complete: whether the vendor ended the response
    began:    whether the client has received content
    left:     whether the client disconnected while the response is still read
    """

    def __init__(
        self,
        row: Row,
        *,
        input_estimate: int,
        price: Callable[[str, Usage, Target | None], float | None],
        settled: Callable[[Row], object],
        trace: Trace | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.row = row
        self._trace = trace
        self.wire = ""
        self.usage = Usage()
        self.chars = 0
        self.complete = self.began = self.left = False
        self._input_estimate = input_estimate
        self._price = price
        self._settled = settled
        self._clock = clock
        self._start = clock()
        self._target: Target | None = None
        self._error: ErrorInfo | None = None
        self._over = False
        self.over: Callable[[], object] | None = None  # called once it is settled

    def asked(self, model: Model[Any], target: Target) -> None:
        """Records the model of the current request."""
        self.row.model, self._target = f"{model.provider.name}:{model.name}", target
        self.wire = model.provider.dialect.name
        if self._trace is not None:
            self._trace.asked(self.row.model)

    def begin(self) -> None:
        """Records the first content."""
        if not self.began:
            self.began = True
            self.row.first_s = self._clock() - self._start
            if self._trace is not None:
                self._trace.first(self.row.first_s)

    def failed_over(self, error: ErrorInfo) -> None:
        """Records a model that failed before its first content; the next one is tried."""
        self.row.tried = f"{self.row.tried}, ".removeprefix(", ") + f"{self.row.model} ({error.code})"
        # The next model is billed separately: usage of the failed one does not belong to the answer.
        self.complete = False
        self.usage = Usage()
        if self._trace is not None:
            self._trace.failed_over(error, self._clock() - self._start)

    def failed(self, error: ErrorInfo) -> None:
        """Records the failure of the response."""
        self._error = error

    def settle(self) -> None:
        """Ends the account. Idempotent."""
        if self._over:
            return
        self._over = True
        row, usage = self.row, self._usage()
        row.duration_s = self._clock() - self._start
        row.input_tokens, row.output_tokens = usage.input_tokens or 0, usage.output_tokens or 0
        row.cached_tokens = usage.cached_input_tokens or 0
        row.code = self._error.code if self._error is not None else ""
        row.outcome = self._outcome()
        row.cost_usd = self._price(row.model, usage, self._target)
        if self._trace is not None:
            self._trace.ended(usage)
        self._settled(row)
        if self.over is not None:
            self.over()

    def _outcome(self) -> Outcome:
        if self._error is not None:
            return "cut" if self.began else "failed"
        # Neither an error nor an end from the vendor: only the client can have stopped reading.
        return "complete" if self.complete and not self.left else "left"

    @property
    def _refused(self) -> bool:
        """Whether the vendor generated nothing. One that received the request and timed out may have."""
        error = self._error
        if error is None or self.began:
            return False
        return (error.status or 0) >= 400 or error.code in _NOT_SENT

    def _usage(self) -> Usage:
        """The vendor's counts; an estimate of missing ones, unless it refused the call."""
        usage, row = self.usage, self.row
        known = usage.input_tokens is not None and usage.output_tokens is not None
        row.estimated = not known
        if self._refused and usage.input_tokens is None:
            row.estimated = False
            return Usage(0, 0, 0)
        # A vendor's final counts are billed, even if our estimate is higher.
        if known and self.complete:
            return usage
        # Vendors that count while streaming have counted less than was generated when the stream broke.
        made = max(usage.output_tokens or 0, estimated_tokens(self.chars))
        if known and usage.input_tokens and made == usage.output_tokens:
            return usage
        row.estimated = True
        # Anthropic's form requires a number in the first event; servers that do not know it yet write 0.
        asked = usage.input_tokens or self._input_estimate
        return msgspec.structs.replace(usage, input_tokens=asked, output_tokens=made)
