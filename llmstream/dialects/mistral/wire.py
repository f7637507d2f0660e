"""Chunks of a Mistral chat stream as typed values, tolerant where servers differ.

source: Mistral's API reference, chat completion (streaming)
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.wire_values import token_count
from llmstream.events import FinishReason
from llmstream.usage import Usage

__all__ = [
    "FINISH_REASONS",
    "KEY",
    "CallFragment",
    "Choice",
    "Chunk",
    "decode_chunk",
    "decode_plain_chunk",
    "finish_reason",
    "places",
    "read_usage",
    "write_usage",
]


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a call; arguments is JSON text, a JSON value, or null."""

    name: str | None = None
    arguments: Any = None


class CallFragment(msgspec.Struct, gc=False):
    """A call, usually complete; models of other vendors send fragments, with name "" and no id."""

    index: Any = None
    id: Any = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    """The delta of one chunk; a complete message has the same keys.

    content:           text, or a list of typed parts
    reasoning_content: of models of other vendors
    metadata:          any JSON object
    """

    content: Any = None
    tool_calls: list[CallFragment | None] | None = None
    reasoning_content: Any = None
    metadata: Any = None


class Choice(msgspec.Struct, gc=False):
    """One of the choices."""

    index: Any = None
    delta: Delta | None = None
    finish_reason: str | None = None
    message: Delta | None = None
    logprobs: Any = None
    prompt_logprobs: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream; an error has `object`, `message`, `type` and `code` or `detail`."""

    choices: list[Choice | None] | None = None
    usage: Any = None
    id: Any = None
    model: Any = None
    created: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    detail: Any = None
    type: Any = None
    code: Any = None
    raw_status_code: Any = None


class PlainDelta(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A piece of text and nothing else."""

    content: str
    role: str | None = None
    tool_calls: None = None


class PlainChoice(msgspec.Struct, gc=False, kw_only=True):
    """The first choice, while it streams."""

    index: Literal[0] = 0
    delta: PlainDelta
    finish_reason: None = None
    logprobs: None = None
    prompt_logprobs: None = None


class PlainChunk(msgspec.Struct, gc=False):
    """A chunk that is one more piece of text, as nearly all are. No other chunk fits it."""

    choices: tuple[PlainChoice]
    usage: None = None
    error: None = None


decode_chunk: Final = msgspec.json.Decoder(Chunk)
decode_plain_chunk: Final = msgspec.json.Decoder(PlainChunk)


# Finish reasons and token counts, read and written.

# Key of this dialect's metadata, on every provider.
KEY: Final = "mistral"

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "model_length": "length",
    "tool_calls": "tool-calls",
    "content_filter": "content-filter",
    "error": "error",
}


def finish_reason(raw: str | None) -> FinishReason:
    """Maps the vendor's finish reason to ours."""
    return "unknown" if not raw else FINISH_REASONS.get(raw.lower(), "other")


def read_usage(raw: dict[str, Any]) -> Usage:
    """Reads a usage object; seconds of audio are included only in the total."""
    prompt, completion = token_count(raw.get("prompt_tokens")), token_count(raw.get("completion_tokens"))
    total = token_count(raw.get("total_tokens"))
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    cached = token_count(raw.get("num_cached_tokens"))
    for name in ("prompt_tokens_details", "prompt_token_details"):
        if cached is None and isinstance(raw.get(name), dict):
            cached = token_count(raw[name].get("cached_tokens"))
    made = raw.get("completion_tokens_details")
    reasoning = token_count(made.get("reasoning_tokens")) if isinstance(made, dict) else None
    return Usage(prompt, completion, total, reasoning, cached, raw=raw)


def write_usage(usage: Usage) -> dict[str, Any]:
    """Returns the vendor's own object if it has these counts, else a new one; 0 for unknown counts."""
    if isinstance(usage.raw, dict) and "prompt_tokens" in usage.raw and read_usage(usage.raw) == usage:
        return usage.raw
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    total = usage.total_tokens if usage.total_tokens is not None else prompt + completion
    raw: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": total, "completion_tokens": completion}
    if usage.cached_input_tokens is not None:
        raw["prompt_tokens_details"] = {"cached_tokens": usage.cached_input_tokens}
    if usage.reasoning_tokens is not None:
        raw["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return raw


def places(body: bytes) -> str | None:
    """Lists the rejected fields with their paths; None for other responses."""
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None
    if isinstance(value, dict) and isinstance(value.get("message"), dict):
        value = value["message"]
    detail = value.get("detail") if isinstance(value, dict) else None
    found = []
    for defect in detail if isinstance(detail, list) else ():
        if isinstance(defect, dict) and isinstance(defect.get("loc"), list):
            place = ".".join(str(step) for step in defect["loc"])
            found.append(f"{place}: {defect.get('msg') or 'not accepted'}")
    return "; ".join(found) or None
