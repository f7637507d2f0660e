"""Rate limits that the simulator enforces as vendors do: token buckets over all of its clients."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from llmstream.errors import RateLimited
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["VendorLimits"]

# OpenAI admits a request by an estimate from its length; it counts tokens later.
_BYTES_PER_TOKEN: Final = 4


class VendorLimits:
    """Limits of an account. A request counts when it arrives: a refused one takes nothing.

    requests_per_minute, tokens_per_minute: buckets of this size that refill steadily, full at first.
              A request has a quarter of its bytes and `max_output_tokens` as tokens
    with_headers: whether responses have `x-ratelimit-*` headers
    clock:    seconds, for tests

    admitted, refused: how many requests so far
    taken:    what those that were admitted took, "requests" and "tokens"
    """

    def __init__(
        self,
        *,
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        with_headers: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = {"requests": requests_per_minute, "tokens": tokens_per_minute}
        self._sizes = {kind: float(size) for kind, size in given.items() if size is not None}
        self._levels = dict(self._sizes)
        self._with_headers = with_headers
        self._clock = clock
        self._filled = clock()
        self.admitted = self.refused = 0
        self.taken = dict.fromkeys(self._sizes, 0.0)

    def admit(self, http: HttpRequest, request: Request) -> None:
        """Takes a request's cost.

        raises: RateLimited with the time until the buckets have enough
        """
        now = self._clock()
        for kind, size in self._sizes.items():
            self._levels[kind] = min(size, self._levels[kind] + (now - self._filled) * size / 60)
        self._filled = now
        tokens = len(http.body) / _BYTES_PER_TOKEN + (request.settings.max_output_tokens or 0)
        costs = {"requests": 1.0, "tokens": tokens}
        waits = [((costs[kind] - self._levels[kind]) * 60 / size, kind) for kind, size in self._sizes.items()]
        wait_s, scarce = max(waits, default=(0.0, ""))
        if wait_s > 0:
            self.refused += 1
            raise RateLimited(
                f"Rate limit reached: limit {self._sizes[scarce]:g} {scarce} a minute, "
                f"{max(0.0, self._levels[scarce]):.0f} left, this request needs {costs[scarce]:.0f}.",
                provider="simulator",
                status=429,
                reason="rate_limit_exceeded",
                retry_after_s=round(wait_s, 3),
            )
        self.admitted += 1
        for kind in self._sizes:
            self._levels[kind] -= costs[kind]
            self.taken[kind] += costs[kind]

    def empty(self) -> None:
        """Takes all that is left now, as if others had used it."""
        self._levels = dict.fromkeys(self._sizes, 0.0)
        self._filled = self._clock()

    def headers(self) -> dict[str, str]:
        """The state of the buckets, as OpenAI writes it; {} without `with_headers`."""
        found = {}
        for kind, size in self._sizes.items() if self._with_headers else ():
            level = self._levels[kind]
            found[f"x-ratelimit-limit-{kind}"] = f"{size:g}"
            found[f"x-ratelimit-remaining-{kind}"] = str(int(max(0.0, level)))
            found[f"x-ratelimit-reset-{kind}"] = f"{(size - level) * 60 / size:.3f}s"
        return found
