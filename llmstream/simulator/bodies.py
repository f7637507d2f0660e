"""The bodies that the simulator sends: events in pieces, complete responses, errors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from llmstream.dialects.errors import error_from_value
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import ErrorEvent, Finish
from llmstream.exchange import HttpResponse
from llmstream.request import Request
from llmstream.server_side.wires import EventEncoder, ServerSide
from llmstream.simulator.recording import Received
from llmstream.simulator.script import Cut, Refuse, Stall, Turn
from llmstream.simulator.timeline import TimedEvent

__all__ = [
    "complete_body",
    "complete_response",
    "error_response",
    "failure_of",
    "id_headers",
    "pieces_of",
    "refusal_of",
    "shown_share",
]


def pieces_of(
    timeline: Iterable[TimedEvent], encoder: EventEncoder, turn: Turn
) -> Iterator[tuple[float, bytes]]:
    """Yields the bytes of each event, b"" for some; the end of the body only without an earlier fault."""
    due_s = 0.0
    for timed in timeline:
        due_s = timed.due_s
        yield due_s, encoder.feed(timed.event)
    if not isinstance(turn.fault, Cut | Stall):
        yield due_s, encoder.close()


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


def error_response(side: ServerSide, error: ErrorInfo, received: Received) -> HttpResponse:
    """Builds an error response in the vendor's form, with the simulator's request id."""
    # Some vendors repeat it in the body.
    if error.request_id is None:
        error = msgspec.structs.replace(error, request_id=received.request_id)
    response = side.encode_error(error)
    headers = {**id_headers(received), **response.headers}
    if error.retry_after_s is not None:
        headers.setdefault("retry-after", f"{error.retry_after_s:g}")
    return msgspec.structs.replace(response, headers=headers)


def id_headers(received: Received) -> dict[str, str]:
    """Returns the request id under the header names of the vendors, and the rate limits."""
    ids = dict.fromkeys(("x-request-id", "request-id", "x-amzn-requestid"), received.request_id)
    return ids | received.limit_headers


def complete_response(body: bytes, received: Received) -> HttpResponse:
    """Builds a response without streaming."""
    return HttpResponse(200, body, {"content-type": "application/json", **id_headers(received)})


def refusal_of(fault: Refuse) -> ErrorInfo:
    """Returns the error of a script, typed by its status."""
    headers = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
    return error_from_value(
        {"message": fault.message}, provider="simulator", status=fault.status, headers=headers
    ).info
