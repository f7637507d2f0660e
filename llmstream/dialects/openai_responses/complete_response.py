"""A Responses stream as one `response` object: the last event has all of it."""

from __future__ import annotations

from typing import Any

from llmstream.dialects.complete_responses import sse_objects

__all__ = ["complete_response"]


def complete_response(body: bytes) -> dict[str, Any]:
    """The response as far as it is made, without the stream."""
    last: dict[str, Any] = {}
    for event in sse_objects(body):
        last = event.get("response", last)
    return last
