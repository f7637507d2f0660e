"""Chunks of a Gemini response as typed values, tolerant where servers differ.

Each chunk is a complete GenerateContentResponse with what is new: parts, counts, a reason.
source: "GenerateContentResponse" in Google's references of the Gemini API and of Vertex AI
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, Literal
from urllib.parse import quote, unquote

import msgspec

from llmstream.dialects.gemini.partial_args import PartialArg
from llmstream.dialects.google import Sources, document_uri
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.wire_values import UsageCounts, added, objects_in, token_count
from llmstream.errors import InvalidRequest, LimitExceeded, LLMStreamError
from llmstream.events import FinishReason, Source, Usage
from llmstream.framing.sse import SSEDecoder

__all__ = [
    "CODE_EXECUTION",
    "CONTINUATION",
    "FINISH_REASONS",
    "NO_COUNTS",
    "ArrayElements",
    "Blob",
    "Candidate",
    "Chunk",
    "Counts",
    "FunctionCall",
    "GeminiFraming",
    "Part",
    "PlainChunk",
    "decode_chunk",
    "decode_plain_chunk",
    "finish_reason",
    "grounding_of",
    "is_block_reason",
    "model_of",
    "path_for",
    "raw_reason",
    "sources_of",
    "write_usage",
]

# The name of the tool that writes `executableCode` and `codeExecutionResult`, which the wire does not name.
CODE_EXECUTION: Final = "code_execution"


class FunctionCall(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """A call for the caller to run: complete, or the next piece of one that streams."""

    id: str | int | None = None
    name: str | None = None
    args: Any = None
    partial_args: list[PartialArg | None] | None = None
    will_continue: bool | None = None


class Blob(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Bytes in base64, or the URI of a file."""

    mime_type: str | None = None
    data: str | None = None
    file_uri: str | None = None
    display_name: str | None = None


class Part(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """One part: one of the fields up to `audio_transcription` is its content, the others are beside it."""

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
    """One of the answers, of which only the first is read."""

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


NO_COUNTS: Final = msgspec.Raw(b"")


class PlainPart(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A part that is text or reasoning, unsigned."""

    text: str
    thought: bool | None = None


class PlainContent(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """Text or reasoning of a turn."""

    parts: tuple[PlainPart]
    role: str | None = None


class PlainCandidate(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """An answer that continues its text or reasoning."""

    content: PlainContent
    index: Literal[0] = 0


class PlainChunk(msgspec.Struct, rename="camel", gc=False, forbid_unknown_fields=True):
    """The form of most chunks: text, and the counts so far. Any other field makes decoding fail."""

    candidates: tuple[PlainCandidate]
    usage_metadata: msgspec.Raw = NO_COUNTS
    model_version: Any = None
    response_id: Any = None
    create_time: Any = None


decode_chunk = msgspec.json.Decoder(Chunk)
decode_plain_chunk = msgspec.json.Decoder(PlainChunk)


# The paths of the API, and the models they name.

METHOD: Final = "streamGenerateContent"

_COLLECTIONS: Final = ("models", "tunedModels", "endpoints")
_PATH: Final = re.compile(
    rf"/(?P<collection>models|tunedModels|endpoints)/(?P<name>[^/]+?)(:|%3A){METHOD}/?$", re.IGNORECASE
)


def path_for(model: str) -> str:
    """Returns the path of a request to a model, whose name may include its collection: `tunedModels/x`.

    Of a full resource name, as Vertex AI writes them, only the end is used.

    raises: InvalidRequest for a name that is not Unicode text
    """
    steps = model.split("/")
    collection, name = "models", model
    if len(steps) > 1 and steps[-2] in _COLLECTIONS:
        collection, name = steps[-2], steps[-1]
    try:
        return f"/{collection}/{quote(name, safe='@.-_~')}:{METHOD}?alt=sse"
    except UnicodeEncodeError:
        raise InvalidRequest(f"{model!r} cannot be the name of a model") from None


def model_of(url: str) -> str | None:
    """Returns the model that a URL names; None for any other path."""
    match = _PATH.search(url.partition("?")[0].partition("#")[0])
    if match is None:
        return None
    name = unquote(match["name"])
    return name if match["collection"] == "models" else f"{match['collection']}/{name}"


# Token counts of a Gemini response, in both directions.
#
# On the wire `candidatesTokenCount` excludes thoughts, and `promptTokenCount` what the vendor's
# tools added to the prompt. Counts are cumulative; a later chunk may omit some.
# source: UsageMetadata in the references of the Gemini API and of Vertex AI

# Chunks whose counts are stored before they are merged: enough to make merging cheap, few enough for memory.
_MAX_HELD_BYTES: Final = 128 * 1024

_DIGITS: Final = b"0123456789"
_A_DIGIT: Final = re.compile(r"[0-9]").search

# Merging copies all known fields, so a server must not add more and more. The vendor has 12.
_MAX_FIELDS: Final = 200


class Counts:
    """The counts of all chunks. Every chunk has them, so they are merged only when they are read.

    reported: the decoder appends the JSON of what chunks of text report. It stays the same list
    """

    def __init__(self) -> None:
        self.reported: list[msgspec.Raw] = []
        self._held_bytes = 0
        self._known = UsageCounts(read_usage)

    def add(self, counts: Any) -> None:
        """Adds what another chunk reports; values other than objects are ignored."""
        self._merge()
        self._known.add(counts)

    def settle(self, payloads: list[bytes]) -> bool:
        """Merges the stored counts, if there are many; returns False if they have too many fields.

        payloads: the latest; stored counts keep theirs in memory
        """
        if self.reported:
            # Once a chunk of 16 KiB, merging was 12 % of a response.
            self._held_bytes += sum(map(len, payloads))
            if self._held_bytes > _MAX_HELD_BYTES:
                self._merge()
        return len(self._known) <= _MAX_FIELDS

    @property
    def usage(self) -> Usage:
        """The last value of each count."""
        self._merge()
        return self._known.usage

    def _merge(self) -> None:
        if not self.reported:
            return
        # Nearly always all have the same names, and differ only in their numbers: then the last one has all.
        *before, last = self.reported
        shape, counts = bytes(last).translate(None, _DIGITS), _counts_of(last)
        if b"".join(before).translate(None, _DIGITS) != shape * len(before) or _has_numbered_name(counts):
            for raw in before:
                self._known.add(_counts_of(raw))
        self._known.add(counts)
        self.reported.clear()
        self._held_bytes = 0


def _counts_of(raw: msgspec.Raw) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        return encodable_value(json.loads(bytes(raw).decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return None


def _has_numbered_name(counts: Any) -> bool:
    """Whether a name has a digit, at any depth."""
    # No recursion: a server may nest it nearly as deep as the stack.
    rest = [counts]
    while rest:
        value = rest.pop()
        if isinstance(value, dict):
            if any(map(_A_DIGIT, value)):
                return True
            rest += value.values()
        elif isinstance(value, list):
            rest += value
    return False


def read_usage(raw: dict[str, Any]) -> Usage:
    """Reads the vendor's usage object."""
    thoughts = token_count(raw.get("thoughtsTokenCount"))
    given = added(token_count(raw.get("promptTokenCount")), token_count(raw.get("toolUsePromptTokenCount")))
    made = added(token_count(raw.get("candidatesTokenCount")), thoughts)
    total = token_count(raw.get("totalTokenCount"))
    return Usage(
        input_tokens=given,
        output_tokens=made,
        total_tokens=added(given, made) if total is None and None not in (given, made) else total,
        reasoning_tokens=thoughts,
        cached_input_tokens=token_count(raw.get("cachedContentTokenCount")),
        raw=raw or None,
    )


def write_usage(usage: Usage) -> dict[str, Any] | None:
    """Writes the vendor's usage object; one that the vendor itself sent is returned unchanged."""
    if isinstance(usage.raw, dict) and read_usage(usage.raw) == usage:
        return dict(usage.raw)
    out: dict[str, Any] = {}
    if usage.input_tokens is not None:
        out["promptTokenCount"] = usage.input_tokens
    if usage.cached_input_tokens is not None:
        out["cachedContentTokenCount"] = usage.cached_input_tokens
    if usage.output_tokens is not None:
        out["candidatesTokenCount"] = max(0, usage.output_tokens - (usage.reasoning_tokens or 0))
    if usage.reasoning_tokens is not None:
        out["thoughtsTokenCount"] = usage.reasoning_tokens
    if usage.total_tokens is not None:
        out["totalTokenCount"] = usage.total_tokens
    return out or None


# The framing of a response: SSE, or the JSON array that a request without `alt=sse` receives.

_MARKS: Final = re.compile(rb'["{}\[\]]')
_STRING_ENDS: Final = re.compile(rb'["\\]')


class ArrayElements:
    """Splits a JSON array into its objects, each as soon as it is complete; also takes one object alone.

    max_bytes: cap on one object
    """

    def __init__(self, *, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._max_bytes = max_bytes
        self._tail = bytearray()
        self._at = 0  # how far the tail has been scanned
        self._begin: int | None = None  # where the object begins
        self._depth = 0
        self._in_string = False

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Returns the objects that a slice completes."""
        if self.error is not None:
            return []
        self._tail += chunk
        out: list[bytes] = []
        while self._step(out):
            pass
        done = self._at if self._begin is None else self._begin
        del self._tail[:done]
        self._at -= done
        if self._begin is not None:
            self._begin = 0
        if len(self._tail) > self._max_bytes:
            self.error = LimitExceeded(f"an element of the answer is longer than {self._max_bytes} bytes")
            self._tail.clear()
        return out

    def _step(self, out: list[bytes]) -> bool:
        """Moves to the next mark; returns False if there is none yet."""
        found = (_STRING_ENDS if self._in_string else _MARKS).search(self._tail, self._at)
        if found is None:
            self._at = len(self._tail)
            return False
        place, mark = found.start(), found.group()
        if mark == b"\\":
            if place + 1 >= len(self._tail):
                self._at = place
                return False
            self._at = place + 2
            return True
        self._at = place + 1
        if mark == b'"':
            self._in_string = not self._in_string
        elif self._begin is None:
            if mark == b"{":
                self._begin, self._depth = place, 1
        elif mark in b"{[":
            self._depth += 1
        else:
            self._depth -= 1
            if self._depth == 0:
                out.append(bytes(self._tail[self._begin : self._at]))
                self._begin = None
        return True


class GeminiFraming:
    """Either form, recognized by the first byte that is not white space."""

    def __init__(self, *, max_bytes: int) -> None:
        self.error: LLMStreamError | None = None
        self._max_bytes = max_bytes
        self._form: SSEDecoder | ArrayElements = SSEDecoder(max_bytes=max_bytes)
        self._known = False

    def feed_data(self, chunk: bytes) -> list[bytes]:
        """Returns the payloads that a slice completes."""
        if not self._known:
            begin = chunk.removeprefix(b"\xef\xbb\xbf").lstrip()
            self._known = bool(begin)
            if begin[:1] in (b"[", b"{"):
                self._form = ArrayElements(max_bytes=self._max_bytes)
        payloads = self._form.feed_data(chunk)
        self.error = self._form.error
        return payloads


# Finish reasons of a Gemini response, in both directions.

# The reason of a response that another one continues.
CONTINUATION: Final = "CONTINUATION"

# source: Candidate.FinishReason in the references of the Gemini API and of Vertex AI; google-genai 3.4.0
# ESCALATION is a rule of a filter; PUP_LIMITED_DISABLED an account limited for prohibited use.
FINISH_REASONS: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "CONTINUATION": "length",
    "SAFETY": "content-filter",
    "RECITATION": "content-filter",
    "BLOCKLIST": "content-filter",
    "PROHIBITED_CONTENT": "content-filter",
    "SPII": "content-filter",
    "MODEL_ARMOR": "content-filter",
    "IMAGE_SAFETY": "content-filter",
    "IMAGE_PROHIBITED_CONTENT": "content-filter",
    "IMAGE_RECITATION": "content-filter",
    "ESCALATION": "content-filter",
    "PUP_LIMITED_DISABLED": "content-filter",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MISSING_THOUGHT_SIGNATURE": "error",
    "MALFORMED_RESPONSE": "error",
    "LANGUAGE": "error",
    "NO_IMAGE": "error",
    "IMAGE_OTHER": "error",
}


_RAW_REASONS: Final[dict[FinishReason, str]] = {
    "stop": "STOP",
    "tool-calls": "STOP",
    "length": "MAX_TOKENS",
    "content-filter": "SAFETY",
    "other": "OTHER",
    "unknown": "FINISH_REASON_UNSPECIFIED",
}


def finish_reason(raw: str | None) -> FinishReason:
    """Maps the vendor's reason to ours."""
    if not raw or raw.endswith("_UNSPECIFIED"):
        return "unknown"
    return FINISH_REASONS.get(raw, "other")


def is_block_reason(raw: object) -> bool:
    """Whether `promptFeedback.blockReason` means that the prompt was refused."""
    return isinstance(raw, str) and bool(raw) and not raw.endswith("_UNSPECIFIED")


def raw_reason(reason: FinishReason, raw: str | None) -> str:
    """Maps our reason to the vendor's; prefers the vendor's original value if it means the same."""
    if raw and raw.isupper():
        meant = finish_reason(raw)
        if meant == reason or (reason == "tool-calls" and meant in ("stop", "other", "unknown")):
            return raw
    return _RAW_REASONS.get(reason, "OTHER")


# Sources of a candidate: search results, fetched pages, recited texts.
#
# They are in the metadata of a chunk, usually the last one, after the text they belong to.
# source: GroundingMetadata, UrlContextMetadata and CitationMetadata in Google's references


def sources_of(candidate: Candidate, sources: Sources) -> Iterator[Source]:
    """Yields the sources of a chunk that no earlier chunk had."""
    for chunk in _list(candidate.grounding_metadata, "groundingChunks"):
        yield from _grounding(chunk, sources)
    for page in _list(candidate.url_context_metadata, "urlMetadata"):
        status = str(page.get("urlRetrievalStatus") or "SUCCESS")
        if status.endswith("SUCCESS"):
            yield from sources.page(page.get("retrievedUrl"))
    recited = candidate.citation_metadata
    for citation in [*_list(recited, "citationSources"), *_list(recited, "citations")]:
        yield from sources.page(citation.get("uri"), citation.get("title"))


def grounding_of(sources: list[Source]) -> dict[str, Any]:
    """Reverse of `sources_of`: returns grounding metadata with these sources."""
    return {"groundingChunks": [_chunk(source) for source in sources]}


def _grounding(chunk: dict[str, Any], sources: Sources) -> Iterator[Source]:
    match chunk:
        case {"web": dict(web)}:
            yield from sources.page(web.get("uri"), web.get("title"))
        case {"image": dict(image)}:
            yield from sources.page(image.get("sourceUri"), image.get("title"))
        case {"maps": dict(place)}:
            yield from sources.page(place.get("uri"), place.get("title"))
        case {"retrievedContext": dict(context)}:
            name = context.get("uri") or context.get("fileSearchStore") or context.get("title")
            yield from sources.document(name, context.get("title"))


def _chunk(source: Source) -> dict[str, Any]:
    if source.source_type == "url":
        page = {"uri": source.url or ""}
        return {"web": {**page, "title": source.title} if source.title else page}
    document = {"uri": document_uri(source)}
    return {"retrievedContext": {**document, "title": source.title} if source.title else document}


def _list(holder: Any, key: str) -> list[dict[str, Any]]:
    return objects_in(holder.get(key)) if isinstance(holder, dict) else []
