"""What a call says of itself while it runs: lines in the log, and values for an observer."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from types import FrameType
from typing import Final

from llmstream.dialects.errors import request_id
from llmstream.errors import LLMStreamError
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.request import Request
from llmstream.streams.observations import Observe, Watch, shown
from llmstream.usage import Usage

__all__ = ["Reporter", "forget_logged", "warning_text"]

_log = logging.getLogger("llmstream")

_MOST_LOGGED: Final = 1024
_logged: set[tuple[str, str, str]] = set()
"""(model, place of call, text) of the warnings that are in the log already."""

_ON_THE_WAY: Final = frozenset({"llmstream", "asyncio", "anyio", "contextlib"})
"""Packages whose frames may stand between a request and the code that wanted it."""


class Reporter:
    """Tells the log of attempts and ends, never of content, and an observer if there is one.

    watch:   what the observer is told by; None without one
    headers: of the answer that was received last
    clean:   takes keys out of what a vendor says
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
        """An attempt begins."""
        self.headers = {}
        _log.debug("%s: attempt %d", self._name, attempt)
        if self.watch is not None:
            self.watch.attempt_started(attempt)

    def answered(self, headers: Mapping[str, str]) -> None:
        """The head of an answer is here."""
        self.headers = headers
        if self.watch is not None:
            self.watch.request_id = self._request_id()

    def changed(self, warnings: Iterable[Warning]) -> None:
        """What was left out or changed on the way to the vendor; once for each model and place of call.

        Options and tools are warned of: their caller expects them to count. Anything else, such as
        reasoning that an API does not take back, is part of the usual course and only noted.
        """
        if not _log.isEnabledFor(logging.WARNING):
            return
        where = _call_site()
        for warning in warnings:
            text = warning_text(warning)
            if _is_new((self._name, where, text)):
                level = logging.INFO if isinstance(warning, OtherWarning) else logging.WARNING
                _log.log(level, "%s: %s%s", self._name, text, where and f" ({where})")

    def failed(self, attempt: int, error: LLMStreamError, wait_s: float | None) -> None:
        """An attempt came to nothing; `wait_s` until the next, None where there is none."""
        what = "no further attempt" if wait_s is None else f"the next in {wait_s:.2f} s"
        which = _of_request(error.request_id or self._request_id())
        _log.info("%s: attempt %d failed: %s; %s%s", self._name, attempt, error.code, what, which)
        if self.watch is not None:
            self.watch.attempt_failed(attempt, error, wait_s)

    def continued(self) -> None:
        """The answer is over in this response and goes on in another."""
        _log.debug("%s: the answer goes on in another response", self._name)
        if self.watch is not None:
            self.watch.continuations += 1

    def _request_id(self) -> str | None:
        """The vendor's, as it may be shown: without keys that it echoes, and of bounded length."""
        found = request_id(self.headers)
        return found and shown(found, self._clean)

    def ended(self, attempts: int, usage: Usage, error: LLMStreamError | None, *, left: bool) -> None:
        """The call is over; said once."""
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
    """Forgets which warnings are in the log; for tests."""
    _logged.clear()


def _is_new(key: tuple[str, str, str]) -> bool:
    if key in _logged:
        return False
    if len(_logged) >= _MOST_LOGGED:
        _logged.clear()
    _logged.add(key)
    return True


def _call_site() -> str:
    """File and line of the code outside of this package that reads the answer; "" where there is none."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if str(frame.f_globals.get("__name__", "")).partition(".")[0] not in _ON_THE_WAY:
            return f"{frame.f_code.co_filename}:{frame.f_lineno}"
        frame = frame.f_back
    return ""


def warning_text(warning: Warning) -> str:
    """A warning of a request in words."""
    match warning:
        case UnsupportedSetting(name, details):
            text = f"the option {name} is not supported as given"
        case UnsupportedTool(name, details):
            text = f"the tool {name} is not supported"
        case _:
            return warning.message
    return f"{text}: {details}" if details else text


def _of_tokens(usage: Usage) -> str:
    """The counts that the vendor gave."""
    counts = (usage.input_tokens, "tokens in"), (usage.output_tokens, "tokens out")
    known = [f"{count} {name}" for count, name in counts if count is not None]
    return "; " + ", ".join(known) if known else ""


def _of_request(name: str | None) -> str:
    return f" (request {name})" if name else ""
