"""Requests of clients for a response in the background: to read on, to look up, to cancel."""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import parse_qsl

import msgspec

from llmstream.dialects.base import Position
from llmstream.dialects.openai_responses.background import RESPONSE_ID
from llmstream.exchange import HttpRequest

__all__ = ["KeptRequest", "read_kept_request"]


class KeptRequest(msgspec.Struct, frozen=True):
    """What a client wants of an answer that is kept."""

    wish: Literal["stream", "whole", "cancel"]
    position: Position


def read_kept_request(http: HttpRequest, path: str) -> KeptRequest | None:
    """The reverse of both; None for any other request."""
    where, _, query = http.url.partition("?")
    _, found, rest = where.partition(f"{path}/")
    response_id, _, action = rest.partition("/")
    if not found or not RESPONSE_ID.fullmatch(response_id):
        return None
    if http.method == "POST" and action == "cancel":
        return KeptRequest("cancel", Position(response_id))
    if http.method != "GET" or action:
        return None
    fields: dict[str, Any] = dict(parse_qsl(query))
    after = fields.get("starting_after", "-1")
    number = int(after) if re.fullmatch(r"-?\d{1,9}", after) else -1
    return KeptRequest("stream" if fields.get("stream") == "true" else "whole", Position(response_id, number))
