"""Makes the names of a server's tools valid for all vendors, and unique."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from llmstream.errors import InvalidRequest

__all__ = ["valid_names"]

_MAX_CHARS = 64
_PREFIX = re.compile(r"([A-Za-z_][A-Za-z0-9_-]{0,31})?")


def valid_names(names: Iterable[str], prefix: str) -> list[str]:
    """Returns a valid, unique name for each name, in the same order.

    Invalid characters become `_`. A name that is too long or not unique ends in a digest of the
    original name and the number of its repetitions, so that it is the same in every process.

    raises: InvalidRequest for a prefix that cannot begin a name or is longer than 32
    """
    if not _PREFIX.fullmatch(prefix):
        raise InvalidRequest(
            f"invalid prefix {prefix!r}. Use up to 32 letters, digits, _ and -, not beginning with a digit."
        )
    given: dict[str, None] = {}
    copies: dict[str, int] = {}
    for name in names:
        # Cut first: the name that a server sends may have megabytes.
        plain = valid = prefix + re.sub(r"[^A-Za-z0-9_-]", "_", name[: _MAX_CHARS + 1])
        if not re.match(r"[A-Za-z_]", valid):
            plain = valid = f"_{valid}"
        while len(valid) > _MAX_CHARS or valid in given:
            valid = f"{plain[: _MAX_CHARS - 9]}_{_digest(name, copies.get(name, 0))}"
            copies[name] = copies.get(name, 0) + 1
        given[valid] = None
    return list(given)


def _digest(name: str, copy: int) -> str:
    text = f"{name}\n{copy}" if copy else name
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
