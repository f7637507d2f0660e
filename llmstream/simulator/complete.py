"""Responses without a stream: detects requests for them and builds their bodies."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import msgspec

from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import ErrorEvent, Finish
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.serving.wires import ServerSide
from llmstream.simulator.script import Cut, Stall, Turn
from llmstream.simulator.timeline import TimedEvent

__all__ = ["as_streamed", "complete_asked", "complete_body", "failure_of", "shown_share"]

_COMPLETE_BY_DEFAULT: Final = frozenset(
    {"openai-chat", "openai-responses", "anthropic", "gemini-interactions", "cohere", "mistral"}
)
"""Dialects whose vendors respond without a stream unless the body has `"stream": true`.

Clouds that serve them name it in the path: `invoke-with-response-stream`, `MODEL:streamRawPredict`.
"""

_STREAMED: Final = {
    re.compile(r"(?<=/)([^/]+)(:|%3A)generateContent(?=/?$)", re.IGNORECASE): r"\1:streamGenerateContent",
    re.compile(r"(?<=/)([^/]+)(:|%3A)rawPredict(?=/?$)", re.IGNORECASE): r"\1:streamRawPredict",
    re.compile(r"(?<=/)converse(?=/?$)"): "converse-stream",
    re.compile(r"(?<=/)invoke(?=/?$)"): "invoke-with-response-stream",
}
"""Paths of responses without a stream, and the corresponding paths with one."""


def as_streamed(http: HttpRequest) -> HttpRequest | None:
    """Returns the corresponding request for a stream; None if the path does not exclude one."""
    path, mark, query = http.url.partition("?")
    for pattern, streamed in _STREAMED.items():
        replaced, count = pattern.subn(streamed, path)
        if count:
            return msgspec.structs.replace(http, url=replaced + mark + query)
    return None


def complete_asked(side: ServerSide, http: HttpRequest) -> bool:
    """Whether the request is for a response without a stream, at a path that serves both."""
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    wanted = body.get("stream") if isinstance(body, dict) else None
    if wanted is None:
        action = http.url.partition("?")[0].rpartition("/")[2].lower()
        wanted = side.name not in _COMPLETE_BY_DEFAULT or "stream" in action
    return not wanted


def complete_body(side: ServerSide, request: Request, timeline: Sequence[TimedEvent]) -> bytes:
    """Builds the JSON of a response.

    raises: BadRequest if the dialect only streams
    """
    if side.complete_response is None:
        raise BadRequest(
            f'the simulator only streams {side.name}. Set "stream": true.',
            status=400,
            reason="invalid_request",
        )
    encoder = side.event_encoder(request)
    streamed = [encoder.feed(timed.event) for timed in timeline]
    return msgspec.json.encode(side.complete_response(b"".join((*streamed, encoder.close()))))


def failure_of(timeline: Sequence[TimedEvent]) -> ErrorInfo | None:
    """Returns the error to send in place of a response; None if the finish reason reports the failure."""
    events = [timed.event for timed in timeline]
    finish = next((event for event in reversed(events) if isinstance(event, Finish)), None)
    if finish is None or finish.finish_reason != "error" or finish.raw_finish_reason is not None:
        return None
    failed = ErrorInfo("server-error", "The model failed.", retryable=True, status=500)
    return next((event.error for event in events if isinstance(event, ErrorEvent)), failed)


def shown_share(turn: Turn, timeline: Sequence[TimedEvent]) -> float:
    """Returns the share of a response to write before a fault of the connection; 1.0 without one."""
    if not isinstance(turn.fault, Cut | Stall):
        return 1.0
    return min(1.0, turn.fault.after_events / max(1, len(timeline)))
