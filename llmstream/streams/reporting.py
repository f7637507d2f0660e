"""What a call says of itself while it runs: lines in the log, and values for an observer."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from llmstream.dialects.vendor_errors import request_id
from llmstream.errors import LLMStreamError
from llmstream.request import Request
from llmstream.streams.observations import Observe, Watch, shown
from llmstream.usage import Usage

__all__ = ["Reporter"]

_log = logging.getLogger("llmstream")


class Reporter:
    """Tells the log of attempts and ends, never of content, and an observer if there is one.

    watch: what the observer is told by; None without one
    clean: takes keys out of what a vendor says
    """

    __slots__ = ("_clean", "_headers", "_name", "_over", "watch")

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
        self._headers: Mapping[str, str] = {}
        self._over = False

    def started(self, attempt: int) -> None:
        """An attempt begins."""
        self._headers = {}
        _log.debug("%s: attempt %d", self._name, attempt)
        if self.watch is not None:
            self.watch.attempt_started(attempt)

    def answered(self, headers: Mapping[str, str]) -> None:
        """The head of an answer is here."""
        self._headers = headers
        if self.watch is not None:
            self.watch.request_id = self._request_id()

    def failed(self, attempt: int, error: LLMStreamError, wait_s: float | None) -> None:
        """An attempt came to nothing; `wait_s` until the next, None where there is none."""
        what = "no further attempt" if wait_s is None else f"the next in {wait_s:.2f} s"
        which = error.request_id or self._request_id()
        _log.info("%s: attempt %d failed: %s; %s (request %s)", self._name, attempt, error.code, what, which)
        if self.watch is not None:
            self.watch.attempt_failed(attempt, error, wait_s)

    def continued(self) -> None:
        """The answer is over in this response and goes on in another."""
        _log.debug("%s: the answer goes on in another response", self._name)
        if self.watch is not None:
            self.watch.continuations += 1

    def _request_id(self) -> str | None:
        """The vendor's, as it may be shown: without keys that it echoes, and of bounded length."""
        found = request_id(self._headers)
        return found and shown(found, self._clean)

    def ended(self, attempts: int, usage: Usage, error: LLMStreamError | None, *, left: bool) -> None:
        """The call is over; said once."""
        if self._over:
            return
        self._over = True
        if _log.isEnabledFor(logging.INFO):
            how = error.code if error is not None else "left" if left else "finished"
            tokens = f"{usage.input_tokens} tokens in, {usage.output_tokens} out"
            which = (error.request_id if error is not None else None) or self._request_id()
            _log.info("%s: %s; %s (request %s)", self._name, how, tokens, which)
        if self.watch is not None:
            self.watch.finished(attempts, usage, error, left=left)
