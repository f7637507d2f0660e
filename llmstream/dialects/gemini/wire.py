"""The chunks of a Gemini answer as typed values, generous in all that may vary.

Each chunk is a whole GenerateContentResponse that holds what is new: parts, counts, a reason.
source: "GenerateContentResponse" in Google's references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

__all__ = [
    "Blob",
    "Candidate",
    "Chunk",
    "Content",
    "FunctionCall",
    "Part",
    "PartialArg",
    "PlainChunk",
    "decode_chunk",
    "decode_plain_chunk",
]


class PartialArg(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A value, or a piece of a string, at a JSON path inside the arguments of a call."""

    json_path: str | None = None
    string_value: str | None = None
    number_value: int | float | str | None = None
    bool_value: bool | None = None
    null_value: Any | UnsetType = UNSET
    will_continue: bool | None = None


class FunctionCall(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A call for the caller to run: whole, or the next piece of one that continues."""

    id: str | int | None = None
    name: str | None = None
    args: Any = None
    partial_args: list[PartialArg | None] | None = None
    will_continue: bool | None = None


class Blob(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Bytes in base64, or the address of a file."""

    mime_type: str | None = None
    data: str | None = None
    file_uri: str | None = None
    display_name: str | None = None


class Part(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """One part: exactly one of its first fields says what it is; the others may stand beside it."""

    text: str | None = None
    function_call: FunctionCall | None = None
    inline_data: Blob | None = None
    file_data: Blob | None = None
    executable_code: dict[str, Any] | None = None
    code_execution_result: dict[str, Any] | None = None
    tool_call: dict[str, Any] | None = None
    tool_response: dict[str, Any] | None = None
    function_response: Any = None
    audio_transcription: Any = None
    thought: bool | None = None
    thought_signature: str | None = None
    part_metadata: Any = None
    speech_metadata: Any = None
    video_metadata: Any = None
    audio_metadata: Any = None
    document_metadata: Any = None
    spreadsheet_metadata: Any = None
    media_resolution: Any = None
    media_processing: Any = None


class Content(msgspec.Struct, gc=False, omit_defaults=True):
    """The parts of a turn."""

    parts: list[Part | None] | None = None


class Candidate(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """One of the answers; we read the first."""

    content: Content | None = None
    index: int | None = None
    finish_reason: str | int | None = None
    finish_message: Any = None
    grounding_metadata: Any = None
    url_context_metadata: Any = None
    citation_metadata: Any = None
    token_count: Any = None
    safety_ratings: Any = None
    logprobs_result: Any = None
    avg_logprobs: Any = None
    continuation_token: Any = None


class Chunk(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """One event of the stream."""

    candidates: list[Candidate | None] | None = None
    usage_metadata: Any = None
    prompt_feedback: Any = None
    model_version: Any = None
    model_status: Any = None
    response_id: Any = None
    create_time: Any = None
    error: Any = None


class PlainPart(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part that is text or reasoning, unsigned."""

    text: str
    thought: bool | None = None


class PlainContent(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Text and reasoning of a turn."""

    parts: list[PlainPart]
    role: str | None = None


class PlainCandidate(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An answer that says some more."""

    content: PlainContent
    index: int = 0


class PlainChunk(msgspec.Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """What most events of a stream are: text, and the counts so far.

    Whatever holds anything else is no plain chunk, so nothing else has to be looked for in one.
    """

    candidates: list[PlainCandidate]
    usage_metadata: Any = None
    model_version: Any = None
    response_id: Any = None
    create_time: Any = None


decode_chunk = msgspec.json.Decoder(Chunk)
decode_plain_chunk = msgspec.json.Decoder(PlainChunk)
