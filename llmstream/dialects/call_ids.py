"""Ids for calls that come without one, on wires that match calls and results by their order.

A minted id is told by its prefix, so that it never goes back to the vendor as if it were its own.
"""

from __future__ import annotations

import secrets
from typing import Final

__all__ = ["is_minted", "mint_call_id"]

_PREFIX: Final = "minted-"


def mint_call_id() -> str:
    """A new id, unique across responses."""
    return f"{_PREFIX}{secrets.token_hex(10)}"


def is_minted(call_id: str) -> bool:
    """Whether an id is one of ours."""
    return call_id.startswith(_PREFIX)
