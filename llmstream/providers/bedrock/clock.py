"""The time that signatures carry: this machine's, corrected by the time in AWS's responses.

AWS refuses a signature whose time is more than minutes off its own, and every answer has its time in
the header `date`. The correction of one refusal applies to all requests of the process to the same address:
other servers, or a malicious one, do not affect the signatures for AWS.
source: "Troubleshoot Signature Version 4 signing" in the IAM user guide
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final
from urllib.parse import urlsplit

__all__ = ["CLOCK", "Clock", "address_of"]

_ABOUT_TIME: Final = re.compile(
    r"RequestTimeTooSkewed|RequestExpired|RequestInTheFuture|Signature expired|Signature not yet current"
    r"|time.{0,40}too (?:skewed|large)|clock skew",
    re.IGNORECASE,
)
_TIME: Final = re.compile(r"\b\d{8}T\d{6}Z\b")

# A signature within this difference was refused for another reason than its time.
_TOLERATED_S: Final = 60.0

# A wrong time zone means hours; a larger difference is not that of a clock.
_MAX_OFFSET_S: Final = 24 * 3600.0

# One for each region and endpoint in use; a gateway may name endpoints without end.
_MAX_ADDRESSES: Final = 64


class Clock:
    """The time of AWS for each requested address: host and port.

    now_s: seconds since 1970 by this machine
    """

    def __init__(self, now_s: Callable[[], float] = time.time) -> None:
        self._offsets: dict[str, float] = {}
        self._now_s = now_s

    def offset_at(self, address: str) -> float:
        """How far the server at an address is ahead of this machine."""
        return self._offsets.get(address, 0.0)

    def now(self, address: str) -> datetime:
        """The time to sign with, in UTC."""
        return datetime.fromtimestamp(self._now_s() + self.offset_at(address), UTC)

    def learn(self, address: str, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Sets the clock by a refusal of a signature for its time; returns whether to sign again.

        Not where the signature had the right time already, as after a correction.

        headers: lower case names
        """
        # The beginning is enough: a gateway's page of HTML may be long.
        message = f"{headers.get('x-amzn-errortype', '')} {body[:4096].decode('utf-8', 'replace')}"
        if not 400 <= status < 500 or not _ABOUT_TIME.search(message):
            return False
        try:
            there_s = parsedate_to_datetime(headers.get("date", "")).timestamp()
        except (ValueError, TypeError, OverflowError):
            return False
        offset_s = there_s - self._now_s()
        if abs(offset_s) > _MAX_OFFSET_S:
            return False
        stamp = _TIME.search(message)  # the first time in the message is the signature's
        signed_s = _seconds(stamp[0]) if stamp else self._now_s() + self.offset_at(address)
        # Removed and added again, so that the first entry is the oldest.
        self._offsets.pop(address, None)
        self._offsets[address] = offset_s
        if len(self._offsets) > _MAX_ADDRESSES:
            del self._offsets[next(iter(self._offsets))]
        return abs(there_s - signed_s) > _TOLERATED_S


def address_of(url: str) -> str:
    """Host and port of a URL, as a clock knows them."""
    return urlsplit(url).netloc.rpartition("@")[2].lower()


def _seconds(stamp: str) -> float:
    try:
        return datetime.strptime(stamp, "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
    except ValueError:
        # No clock is that wrong: the date is not one.
        return 0.0


# The clock difference of this process.
CLOCK: Final = Clock()
