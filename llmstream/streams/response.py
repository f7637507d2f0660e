"""Who gave a response: provider, model, the ids for the vendor's support, the time, and the rate limits."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from llmstream.accumulate.blocks import OWN_KEY
from llmstream.chats.message import Message

__all__ = ["ResponseInfo", "mark_message", "rate_headers", "unmarked"]

_MARKS: Final = ("provider", "model", "id", "request_id")
"""What the message of a response carries of it: flat texts, since objects here are the vendors' own."""

_RETRY_HEADERS: Final = ("retry-after", "retry-after-ms")


class ResponseInfo(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One response, as far as the vendor has reported it; None is what it has not reported, or not yet.

    provider:   who answered; after a fallback not the one who was asked first
    model:      the model that was asked, so that "provider:model" is what prices are known by
    model_id:   what the vendor calls it, often with a date
    id:         of the response
    request_id: of the HTTP exchange, for the vendor's support
    timestamp:  when the vendor made the response
    headers:    those about rate limits, names in lower case
    """

    provider: str
    model: str
    id: str | None = None
    model_id: str | None = None
    request_id: str | None = None
    timestamp: datetime.datetime | None = None
    headers: dict[str, str] = msgspec.field(default_factory=dict)


def rate_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers that tell of rate limits and waits; no other header of an answer is kept."""
    return {
        name: value
        for name, value in headers.items()
        if "ratelimit" in name or "rate-limit" in name or name in _RETRY_HEADERS
    }


def mark_message(message: Message, response: ResponseInfo) -> None:
    """Notes in the message's metadata, under "llmstream", whose answer it is."""
    own = (message.metadata or {}).get(OWN_KEY, {})
    marks = {name: value for name in _MARKS if (value := getattr(response, name)) is not None}
    message.set_meta(OWN_KEY, {**own, **marks})


def unmarked(metadata: dict[str, Any] | None) -> dict[str, Any] | None:
    """The metadata without those notes: two conversations that differ only in ids are the same."""
    own = (metadata or {}).get(OWN_KEY)
    if metadata is None or not isinstance(own, dict):
        return metadata
    rest = {name: value for name, value in own.items() if name not in _MARKS}
    others = {name: value for name, value in metadata.items() if name != OWN_KEY}
    return ({**others, OWN_KEY: rest} if rest else others) or None
