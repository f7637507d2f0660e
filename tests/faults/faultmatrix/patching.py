"""Defects as patches: what is put in, and where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aiohttp
import pytest

from llmstream.transport import http

Patch = Callable[[pytest.MonkeyPatch], object]

NOTHING = lambda *args, **options: None  # noqa: E731


def put(owner: Any, name: str, value: Any) -> Patch:
    """One attribute is another."""
    return lambda patch: patch.setattr(owner, name, value)


def both(*patches: Patch) -> Patch:
    """Several at once."""
    return lambda patch: [one(patch) for one in patches]


def follows(patch: pytest.MonkeyPatch) -> None:
    """aiohttp follows redirects, of requests that go by its sessions."""
    patch.setattr(http, "is_untouched", lambda session: False)
    original = aiohttp.ClientSession.request
    wrapped = lambda self, *args, **options: original(self, *args, **{**options, "allow_redirects": True})  # noqa: E731
    patch.setattr(aiohttp.ClientSession, "request", wrapped)


AIOHTTPS_ERRORS = put(http, "typed_failure", lambda error, host, answered, proxy=None: error)
"""Errors of aiohttp come out as they are."""
