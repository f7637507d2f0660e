"""Answers that OpenAI makes in the background and keeps for a while: asked for, read on, ended.

source: "Background mode" in OpenAI's documents: `background` wants `store`; an event has a
`sequence_number`, and `starting_after` gives those behind it
"""

from __future__ import annotations

import re
from typing import Any, Final, Literal
from urllib.parse import parse_qsl, quote

import msgspec

from llmstream.dialects.base import Position
from llmstream.dialects.openai_responses.sources import KEY
from llmstream.dialects.options import options_of
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = [
    "KeptRequest",
    "cancel_request",
    "is_kept",
    "is_made",
    "kept",
    "read_kept_request",
    "resume_request",
    "whole_request",
]

_ID: Final = re.compile(r"[^/?#]+")


class _Response(msgspec.Struct):
    status: str | None = None


class KeptRequest(msgspec.Struct, frozen=True):
    """What a client wants of an answer that is kept."""

    wish: Literal["stream", "whole", "cancel"]
    position: Position


def kept(request: Request, *, provider: str) -> Request:
    """The request with the fields that make the vendor keep its answer.

    raises: InvalidRequest where the request wants nothing stored
    """
    said = options_of(request, KEY, provider)
    for name in ("background", "store"):
        if said.get(name) is False:
            raise InvalidRequest(
                f"resume=True needs the answer to be kept at {provider}, but provider_options say "
                f"{name}=False. Leave out one of the two."
            )
    ours = {**request.provider_options.get(KEY, {}), "background": True, "store": True}
    return msgspec.structs.replace(request, provider_options={**request.provider_options, KEY: ours})


def is_kept(request: Request, *, provider: str) -> bool:
    """Whether a request asks for an answer in the background."""
    return options_of(request, KEY, provider).get("background") is True


def resume_request(path: str, position: Position) -> HttpRequest:
    """The request for what comes after a position, as a stream."""
    after = f"&starting_after={position.sequence_number}" if position.sequence_number >= 0 else ""
    url = f"{path}/{_segment(position.response_id)}?stream=true{after}"
    return HttpRequest(url, b"", {"accept": "text/event-stream"}, "GET")


def cancel_request(path: str, response_id: str) -> HttpRequest:
    """The request that ends the making of an answer."""
    return HttpRequest(f"{path}/{_segment(response_id)}/cancel", b"", {"accept": "application/json"})


def whole_request(path: str, response_id: str) -> HttpRequest:
    """The request for an answer in one piece, as far as it is made."""
    return HttpRequest(f"{path}/{_segment(response_id)}", b"", {"accept": "application/json"}, "GET")


def is_made(body: bytes) -> bool:
    """Whether a response is over; what is none will not change by waiting either."""
    try:
        response = msgspec.json.decode(body, type=_Response)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return True
    return response.status not in ("queued", "in_progress")


def read_kept_request(http: HttpRequest, path: str) -> KeptRequest | None:
    """The reverse of both; None for any other request."""
    where, _, query = http.url.partition("?")
    _, found, rest = where.partition(f"{path}/")
    response_id, _, action = rest.partition("/")
    if not found or not _ID.fullmatch(response_id):
        return None
    if http.method == "POST" and action == "cancel":
        return KeptRequest("cancel", Position(response_id))
    if http.method != "GET" or action:
        return None
    fields: dict[str, Any] = dict(parse_qsl(query))
    after = fields.get("starting_after", "-1")
    number = int(after) if re.fullmatch(r"-?\d{1,9}", after) else -1
    return KeptRequest("stream" if fields.get("stream") == "true" else "whole", Position(response_id, number))


def _segment(response_id: str) -> str:
    """An id as one segment of a path; it comes from a vendor or a saved token, and is not trusted.

    raises: InvalidRequest
    """
    if response_id in ("", ".", ".."):
        raise InvalidRequest(f"{response_id!r} is no id of a response")
    return quote(response_id, safe="-_.~")
