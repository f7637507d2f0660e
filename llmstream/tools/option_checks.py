"""What a tool's options cannot mean is said where the tool is made."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from llmstream.errors import InvalidRequest

__all__ = ["check_tool_options"]


def check_tool_options(
    name: str,
    *,
    timeout_s: object,
    flags: Mapping[str, object],
    concurrency: object,
    needs_approval: object,
    limits: Mapping[str, object],
) -> None:
    """Whether the options of a tool mean something; see `Tool` for what.

    raises: InvalidRequest
    """
    where = f"tool {name}"
    if timeout_s is not None and not _is_time(timeout_s):
        raise InvalidRequest(f"{where}: timeout_s is a number of seconds above 0, got {timeout_s!r}")
    for option, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidRequest(f"{where}: {option} is True or False, got {flag!r}")
    if concurrency is not None and not _is_count(concurrency, 1):
        raise InvalidRequest(f"{where}: concurrency is at least 1, got {concurrency!r}")
    if flags.get("sequential") and concurrency not in (None, 1):
        raise InvalidRequest(f"{where}: sequential calls run one by one; leave out concurrency={concurrency}")
    if not isinstance(needs_approval, bool) and not callable(needs_approval):
        raise InvalidRequest(
            f"{where}: needs_approval is True, False or a function of the arguments; got {needs_approval!r}"
        )
    for option, limit in limits.items():
        if not _is_count(limit, 0):
            raise InvalidRequest(f"{where}: {option} is a whole number, at least 0; got {limit!r}")


def _is_count(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_time(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value) and value > 0
    )
