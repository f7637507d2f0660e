"""Signatures of approvals, for a history stored in the page: a decision applies to the call that was shown.

The signature is the end of the approval's id: the field `signature` of the protocol ends the response in
releases that do not know it (6.0.0 to 6.0.180).
"""

from __future__ import annotations

import math
from typing import Any

import msgspec

from llmstream.agent.suspension import digest_of
from llmstream.tools.approval import PendingCall

__all__ = ["signed_approval"]


def signed_approval(key: bytes, approval_id: str, call: PendingCall) -> str:
    """Returns the id with an HMAC over it and the call, after a dot."""
    digest = digest_of(
        key, "llmstream.approval", approval_id, call.call_id, call.name, _canonical(call.arguments)
    )
    return f"{approval_id}.{digest}"


def _canonical(arguments: str) -> str:
    """The arguments in the form they have after a page has read and written them."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return arguments
    # Sorted: JavaScript moves keys that are integers to the front.
    return msgspec.json.encode(_as_javascript(value), order="sorted").decode()


def _as_javascript(value: Any) -> Any:
    """The value with its numbers as JavaScript writes them: 1.0 is 1."""
    match value:
        case float() if math.isfinite(value) and value == int(value):
            return int(value)
        case list():
            return [_as_javascript(item) for item in value]
        case dict():
            return {name: _as_javascript(item) for name, item in value.items()}
    return value
