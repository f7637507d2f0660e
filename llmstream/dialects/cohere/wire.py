"""Events of a Cohere chat stream as typed values, tolerant where servers differ.

source: Cohere's API reference, v2/chat, streaming
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.wire_values import objects_in, token_count
from llmstream.events import Custom, FinishReason, Metadata, Source
from llmstream.usage import Usage

__all__ = [
    "FINISH_REASONS",
    "KEY",
    "Call",
    "Content",
    "WireEvent",
    "answer_id",
    "citation_of",
    "cited",
    "decode_event",
    "decode_plain_event",
    "finish_reason",
    "read_usage",
    "stored_citation",
    "write_usage",
]


class Content(msgspec.Struct, gc=False):
    """The start of a content block (with a type) or a fragment of it (without)."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class Function(msgspec.Struct, gc=False):
    """A called function; `arguments` is a fragment of JSON text."""

    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct, gc=False):
    """The start of a call, or a fragment of its arguments."""

    id: Any = None
    function: Function | None = None


class MessageDelta(msgspec.Struct, gc=False):
    """A delta of the message. `message-start` has empty lists instead of objects."""

    content: Content | list[Any] | str | None = None
    tool_plan: str | None = None
    tool_calls: Call | list[Any] | None = None
    citations: Any = None


class Delta(msgspec.Struct, gc=False):
    """The `delta` of an event; the last one has reason, counts and possibly an error message."""

    message: MessageDelta | None = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None


class WireEvent(msgspec.Struct, gc=False):
    """One event. Events without a type are errors, for example of a gateway.

    logprobs: `{text, token_ids, logprobs}` of a fragment of content
    prompt:   the model's prompt, in an event `debug`
    """

    type: Any = None
    index: Any = None
    delta: Delta | None = None
    id: Any = None
    message: Any = None
    error: Any = None
    error_type: Any = None
    code: Any = None
    status_code: Any = None
    logprobs: Any = None
    prompt: Any = None


class PlainContent(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A piece of text."""

    text: str


class PlainFunction(msgspec.Struct, gc=False):
    """A piece of the input of a call."""

    arguments: str


class PlainCall(msgspec.Struct, gc=False):
    """A piece of a call."""

    function: PlainFunction


class PlainMessage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A piece of the message."""

    content: PlainContent | None = None
    tool_calls: PlainCall | None = None


class PlainDelta(msgspec.Struct, gc=False):
    """A piece of the message."""

    message: PlainMessage


class PlainEvent(msgspec.Struct, gc=False):
    """A piece of text or of an input, as nearly all events are.

    Start and end of a call are accepted: to raise an error costs as much as to decode four pieces.
    """

    type: str
    index: int | None = None
    delta: PlainDelta | None = None
    logprobs: None = None


decode_event: Final = msgspec.json.Decoder(WireEvent)
decode_plain_event: Final = msgspec.json.Decoder(PlainEvent)


# Finish reasons and token counts, read and written.

# Key of this dialect's metadata, on every provider.
KEY: Final = "cohere"

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "COMPLETE": "stop",
    "STOP_SEQUENCE": "stop",
    "MAX_TOKENS": "length",
    "TOOL_CALL": "tool-calls",
    "ERROR": "error",
    "TIMEOUT": "error",
    # Names of API version 1, which clouds that serve these models still use.
    "ERROR_LIMIT": "length",
    "ERROR_TOXIC": "content-filter",
    "USER_CANCEL": "other",
}


def finish_reason(raw: str | None) -> FinishReason:
    """Maps the vendor's finish reason to ours."""
    return "unknown" if not raw else FINISH_REASONS.get(raw.upper(), "other")


def read_usage(raw: dict[str, Any]) -> Usage:
    """Reads the token counts, or the billed ones if these are missing.

    Input includes tokens read from the cache, output includes thinking.
    """
    tokens = raw.get("tokens")
    counts = tokens if isinstance(tokens, dict) and tokens else raw.get("billed_units")
    counts = counts if isinstance(counts, dict) else {}
    given, made = token_count(counts.get("input_tokens")), token_count(counts.get("output_tokens"))
    total = given + made if given is not None and made is not None else None
    reasoning = token_count(counts.get("reasoning_tokens"))
    return Usage(given, made, total, reasoning, token_count(raw.get("cached_tokens")), raw=raw)


def write_usage(usage: Usage) -> dict[str, Any] | None:
    """Returns the vendor's own object if it has these counts, else a new one; None without counts."""
    own = usage.raw
    if isinstance(own, dict) and own.keys() & {"tokens", "billed_units"} and read_usage(own) == usage:
        return own
    tokens = {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
    }
    tokens = {name: count for name, count in tokens.items() if count is not None}
    if not tokens:
        return None
    billed = {name: count for name, count in tokens.items() if name != "reasoning_tokens"}
    out: dict[str, Any] = {"billed_units": billed, "tokens": tokens}
    if usage.cached_input_tokens is not None:
        out["cached_tokens"] = usage.cached_input_tokens
    return out


# Citations: a span of the text and its sources.


def cited(citation: dict[str, Any], new_id: Callable[[], str]) -> Iterator[Source | Custom]:
    """Yields a source for each document or tool output; its metadata has the complete citation.

    A citation without sources becomes a part that only this vendor has.
    """
    sources = objects_in(citation.get("sources"))
    if not sources:
        yield Custom(f"{KEY}.citation", {KEY: {"citation": citation}})
    for place, source in enumerate(sources):
        metadata: Metadata = {KEY: {"citation": citation, "source": place}}
        held = source.get("document") or source.get("tool_output")
        held = held if isinstance(held, dict) else {}
        url = _text(held.get("url"))
        title = _text(held.get("title")) or _text(source.get("id")) or _text(held.get("id"))
        if url is not None and "://" in url:
            yield Source("url", new_id(), url, title, provider_metadata=metadata)
        else:
            yield Source("document", new_id(), title=title, provider_metadata=metadata)


def stored_citation(metadata: Metadata | None) -> dict[str, Any] | None:
    """Returns the citation in a source's metadata; only for its first source, so that it is sent once."""
    own = (metadata or {}).get(KEY) or {}
    citation = own.get("citation")
    return citation if isinstance(citation, dict) and own.get("source", 0) == 0 else None


def citation_of(source: Source) -> dict[str, Any]:
    """Returns a citation for another vendor's source, which has no span."""
    title = source.title or source.filename or source.url or source.id
    document = {"id": source.id, "title": title}
    if source.url is not None:
        document["url"] = source.url
    found = {"type": "document", "id": source.id, "document": document}
    return {"start": 0, "end": 0, "text": "", "sources": [found], "type": "TEXT_CONTENT"}


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


class _Refusal(msgspec.Struct):
    """The fields that identify an error response; its `id` is the only request id."""

    id: str | None = None


_decode = msgspec.json.Decoder(_Refusal).decode


def answer_id(body: bytes) -> str | None:
    """Returns the id of an error response."""
    try:
        return _decode(body).id or None
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
