"""The time that signatures carry: this machine's, set right by what AWS says of it.

AWS refuses a signature whose time is more than minutes off its own, and every answer has its time in
the header `date`. What one refusal teaches holds for all requests of the process.
source: "Troubleshoot Signature Version 4 signing" in the IAM user guide
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["CLOCK", "Clock"]

_ABOUT_TIME: Final = re.compile(
    r"RequestTimeTooSkewed|RequestExpired|RequestInTheFuture|Signature expired|Signature not yet current"
    r"|time.{0,40}too (?:skewed|large)|clock skew",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"\b\d{8}T\d{6}Z\b")
_TOLERATED_S: Final = 60.0
"""A signature that is no further off was not refused for its time."""


class Clock:
    """Tells the time of AWS.

    now_s:    seconds since 1970 by this machine
    offset_s: how far AWS is ahead of it
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self.offset_s = 0.0
        self._now_s = now_s

    def now(self) -> datetime:
        """The time to sign with, in UTC."""
        return datetime.fromtimestamp(self._now_s() + self.offset_s, UTC)

    def learn(self, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Sets the clock by a refusal of a signature for its time; whether to sign once more.

        Not where the signature had the right time already, as after a correction.

        headers: lower case names
        """
        words = f"{headers.get('x-amzn-errortype', '')} {body[:4096].decode('utf-8', 'replace')}"
        if not 400 <= status < 500 or not _ABOUT_TIME.search(words):
            return False
        try:
            there_s = parsedate_to_datetime(headers.get("date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            return False
        told = _TIME.search(words)  # the first time in the message is the signature's
        signed_s = _seconds(told[0]) if told else self._now_s() + self.offset_s
        self.offset_s = there_s - self._now_s()
        return abs(there_s - signed_s) > _TOLERATED_S


def _seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        return 0.0  # nobody's time


CLOCK: Final = Clock()
"""That of this process."""
