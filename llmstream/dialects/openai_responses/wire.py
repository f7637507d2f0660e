"""Events of a Responses stream as typed values, tolerant where servers differ.

Only fields that the decoder reads are named. Which of them an event has depends on its `type`; all events
share one Struct, so that an event is decoded once, and a harmless difference is not an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.dialects.wire_values import token_count
from llmstream.events import FinishReason, Source
from llmstream.usage import Usage

__all__ = [
    "KEY",
    "LISTED",
    "TERMINAL",
    "PlainEvent",
    "WireEvent",
    "annotation_of",
    "ending",
    "events",
    "extras_of",
    "finish_fields",
    "listed_sources",
    "pages_of",
    "plain_events",
    "read_usage",
    "reason_of",
    "source_of",
    "write_usage",
]


Place: TypeAlias = int | float | str | None


class WireEvent(msgspec.Struct, gc=False):
    """One event of the stream.

    item:     an output item, complete or in progress
    response: the response, complete or in progress
    delta:    a fragment: text, base64, or an object (outputs of a shell)
    thought:  reasoning while the vendor's tools run (Perplexity)
    choices:  present only in Chat Completions: the URL is wrong
    """

    type: str | None = None
    output_index: Place = None
    delta: Any = None
    logprobs: list[Any] | None = None
    item_id: Place = None
    content_index: Place = None
    summary_index: Place = None
    item: dict[str, Any] | None = None
    part: dict[str, Any] | None = None
    annotation: dict[str, Any] | None = None
    response: dict[str, Any] | None = None
    text: Any = None
    refusal: Any = None
    arguments: Any = None
    input: Any = None
    code: Any = None
    diff: Any = None
    command: Any = None
    command_index: Place = None
    partial_image_b64: Any = None
    partial_image_index: Any = None
    background: Any = None
    output_format: Any = None
    quality: Any = None
    size: Any = None
    error: Any = None
    message: Any = None
    detail: Any = None
    param: Any = None
    thought: Any = None
    choices: Any = None
    object: Any = None


class PlainPart(msgspec.Struct, gc=False):
    """A part of a message, when it starts or is complete."""

    type: str = ""
    logprobs: tuple[()] | None = None


class PlainEvent(msgspec.Struct, gc=False):
    """A piece of text or of the arguments of a call, as nearly all events are; all of it again; or an item.

    Any type of event is accepted: to raise an error costs as much as to decode four pieces. Fields are in the
    order of the wire, in which they are found first.
    """

    type: str
    output_index: int = -1
    content_index: int = -1
    delta: str = ""
    logprobs: tuple[()] | None = None
    arguments: str = ""
    item: dict[str, Any] | None = None
    part: PlainPart | None = None


events: Final = msgspec.json.Decoder(WireEvent)
plain_events: Final = msgspec.json.Decoder(PlainEvent)


# How a response ended, in both directions.
#
# The wire has no finish reason: a status shows whether the response is complete, and if not,
# `incomplete_details.reason` has the cause.

# Last events, and the status of a response that does not have one.
TERMINAL: Final = {
    "response.completed": "completed",
    "response.incomplete": "incomplete",
    "response.failed": "failed",
    "response.cancelled": "cancelled",
    "response.done": "completed",  # ChatGPT's backend and some gateways
}

_STATUSES: Final = frozenset({"completed", "incomplete", "failed", "cancelled"})
_INCOMPLETE: Final[dict[str, FinishReason]] = {
    "max_output_tokens": "length",
    "max_tokens": "length",
    "content_filter": "content-filter",
    "max_messages": "length",
}
# Fields of a response that other events have, or that are of no use in metadata.
_KNOWN_FIELDS: Final = frozenset(
    {"id", "object", "created_at", "model", "status", "output", "output_text", "usage", "error"}
    | {"incomplete_details", "background"}
)

# And fields that repeat the request: the tools may be longer than the answer.
_LEFT_OUT: Final = _KNOWN_FIELDS | frozenset(
    {"input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "parallel_tool_calls"}
    | {"previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"}
    | {"reasoning", "safety_identifier", "store", "temperature", "text", "tool_choice", "tools"}
    | {"top_logprobs", "top_p", "truncation", "user", "frequency_penalty", "presence_penalty"}
    | {"include", "stream", "stream_options", "context_management", "max_tokens", "seed", "stop"}
)


def finish_fields(response: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields of a last event beyond the answer: `service_tier`, `tool_usage`, `moderation` ..."""
    return {
        name: value
        for name, value in response.items()
        if name not in _LEFT_OUT and value not in (None, [], {})
    }


def reason_of(event_type: str, response: dict[str, Any]) -> tuple[FinishReason, str]:
    """Returns our reason of a last event, and the vendor's; "error" if the response failed."""
    status = response.get("status")
    if not isinstance(status, str) or status not in _STATUSES:
        status = TERMINAL[event_type]
    details = response.get("incomplete_details")
    why = details.get("reason") if isinstance(details, dict) else None
    if status == "failed":
        return "error", status
    if isinstance(why, str) and why:
        return _INCOMPLETE.get(why, "other"), why
    if status == "completed":
        return "stop", status
    return "other", status


def ending(reason: FinishReason, raw: str | None) -> tuple[str, str | None]:
    """Reverse of `reason_of`: returns status and incomplete reason; the vendor's own value applies first."""
    if reason == "length":
        return "incomplete", raw if _INCOMPLETE.get(raw or "") == "length" else "max_output_tokens"
    if reason == "content-filter" and raw != "completed":
        return "incomplete", "content_filter"
    if reason == "other":
        if raw in ("cancelled", "incomplete"):
            return raw, None
        return ("incomplete", raw) if raw and raw not in _STATUSES else ("cancelled", None)
    return "completed", None


# Token counts of a response: input includes cached tokens, output includes reasoning.


def read_usage(raw: object) -> Usage:
    """Reads a usage object; missing counts are None."""
    if not isinstance(raw, dict) or not raw:
        return Usage()
    given, made = raw.get("input_tokens_details"), raw.get("output_tokens_details")
    given, made = given if isinstance(given, dict) else {}, made if isinstance(made, dict) else {}
    input_tokens, output_tokens = token_count(raw.get("input_tokens")), token_count(raw.get("output_tokens"))
    total = token_count(raw.get("total_tokens"))
    if total is None and input_tokens is not None and output_tokens is not None:
        total = input_tokens + output_tokens
    return Usage(
        input_tokens,
        output_tokens,
        total,
        token_count(made.get("reasoning_tokens")),
        token_count(given.get("cached_tokens")),
        token_count(given.get("cache_write_tokens")),
        raw,
    )


def write_usage(usage: Usage) -> dict[str, Any]:
    """Writes a usage object, 0 for unknown counts; one that the vendor itself sent is returned unchanged."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    given, made = usage.input_tokens or 0, usage.output_tokens or 0
    total = usage.total_tokens if usage.total_tokens is not None else given + made
    cached = {"cached_tokens": usage.cached_input_tokens, "cache_write_tokens": usage.cache_write_tokens}
    return {
        "input_tokens": given,
        "input_tokens_details": {name: count or 0 for name, count in cached.items()},
        "output_tokens": made,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens or 0},
        "total_tokens": total,
    }


_ORDINARY = frozenset(
    {"id", "type", "status", "role", "content", "summary", "encrypted_content"}
    | {"call_id", "name", "arguments", "input"}
)


def extras_of(wire: dict[str, Any]) -> dict[str, Any]:
    """Returns the unusual fields of an item, which the vendor wants back, such as phase and namespace."""
    if wire.keys() <= _ORDINARY:  # nearly all; a comprehension takes seven times as long
        return {}
    return {k: v for k, v in wire.items() if k not in _ORDINARY and v is not None}


# Annotations of a text as sources, in both directions.

# The key of metadata of this dialect for every provider: the fields that go back are the dialect's.
KEY = "openai"

# Type in the metadata of a source that a search lists; the item of the search has it too.
LISTED: Final = "web_search_source"

# Perplexity's items with pages, and the field that has them.
_PAGES: Final = {
    "search_results": "results",
    "people_search_results": "results",
    "fetch_url_results": "contents",
}


def source_of(annotation: dict[str, Any], source_id: str) -> Source | None:
    """Returns the page or document that an annotation names; None if it names none."""
    kind, metadata = annotation.get("type"), {KEY: annotation}
    if kind == "url_citation" and isinstance(annotation.get("url"), str):
        return Source("url", source_id, annotation["url"], _text(annotation, "title"), None, None, metadata)
    if kind in ("file_citation", "container_file_citation", "file_path"):
        name = _text(annotation, "filename")
        title = name or _text(annotation, "file_id")
        media_type = "application/octet-stream" if kind == "file_path" else "text/plain"
        return Source("document", source_id, None, title, media_type, name, metadata)
    return None


def pages_of(item: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yields the pages of a search item as annotations (Perplexity)."""
    found = item.get(_PAGES.get(str(item.get("type")), ""))
    for page in found if isinstance(found, list) else ():
        if isinstance(page, dict) and isinstance(page.get("url"), str):
            named = {name: page[name] for name in ("url", "title", "date") if page.get(name)}
            number = {} if page.get("id") is None else {"result_id": page["id"]}
            yield {"type": "url_citation", **named, **number}


def listed_sources(item: dict[str, Any]) -> Iterator[str]:
    """Yields the URLs that a web search lists in its action, if `include` requested them."""
    action = item.get("action") if item.get("type") == "web_search_call" else None
    found = action.get("sources") if isinstance(action, dict) else None
    for source in found if isinstance(found, list) else ():
        if isinstance(source, dict) and isinstance(source.get("url"), str):
            yield source["url"]


def annotation_of(source: Source) -> dict[str, Any]:
    """Reverse of `source_of`: returns the annotation of a source, unchanged if it came from this wire."""
    original = (source.provider_metadata or {}).get(KEY, {})
    if isinstance(original.get("type"), str):
        return dict(original)
    if source.source_type == "url":
        page = {"type": "url_citation", "url": source.url or "", "title": source.title or ""}
        return {**page, "start_index": 0, "end_index": 0}
    name = source.filename or source.title or ""
    return {"type": "file_citation", "file_id": source.id, "filename": name, "index": 0}


def _text(annotation: dict[str, Any], name: str) -> str | None:
    value = annotation.get(name)
    return value if isinstance(value, str) and value else None
