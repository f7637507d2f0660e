"""Everything besides the text of an answer: sources, files, tools that the vendor ran, and other fields."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from operator import attrgetter
from typing import Any, Final

import msgspec

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import Base64Pieces, audio_type
from llmstream.dialects.openai_chat.wire import Chunk, FullChunk
from llmstream.dialects.tool_calls import json_text
from llmstream.errors import DecodeError, LimitExceeded
from llmstream.events import (
    Event,
    File,
    Metadata,
    Source,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    merge_metadata,
)

__all__ = [
    "AnswerExtras",
    "Attachments",
    "AudioFile",
    "ExecutedTools",
    "Sources",
    "audio_type",
    "extras_chunk",
    "image_file",
]


# Memory of an entry in a CPython set, with its spare room.
_SLOT_BYTES: Final = 64

# The keys of a vendor's run that belong to the call; all others are its result.
_CALL_KEYS: Final = ("index", "type", "name", "arguments")

# The keys that a `Source` has as fields; all others of a page become its metadata.
_SOURCE_KEYS: Final = ("url", "title", "type")


class Attachments:
    """The content of one response besides its text; the events go to the decoder's `out`."""

    def __init__(self, reader: PayloadDecoder[Any], new_call_id: Callable[[], str]) -> None:
        self._reader = reader
        self._new_call_id = new_call_id
        self._extras = AnswerExtras()
        # Created when the first of its kind arrives, which for most answers is never.
        self._sources: Sources | None = None
        self._audio: AudioFile | None = None
        self._executed: ExecutedTools | None = None

    def look(self, chunk: Chunk) -> None:
        """Reads the fields beside the answer from the reader's chunk, which may hold some."""
        if isinstance(chunk, FullChunk):
            self._extras.add(chunk, self._reader.encodable)
        else:
            self._extras.look(self._reader.payload)

    def add_audio(self, audio: dict[str, Any]) -> str:
        """Adds a piece of a recording; returns its transcript, which is text of the answer."""
        if self._audio is None:
            self._audio = AudioFile(self._reader.provider)
        before = self._audio.held
        transcript = self._audio.add(audio)
        self._reader.hold(self._audio.held - before)
        return transcript

    def end_audio(self) -> None:
        """Emits the recording, if there is one."""
        try:
            recording = None if self._audio is None else self._audio.take()
        except DecodeError as error:
            self._reader.defect(error.message)
            return
        if recording is not None:
            self._reader.out.append(recording)

    def add_sources(self, found: object) -> None:
        """Emits the sources in a list that are new."""
        if self._sources is None:
            self._sources = Sources(self._reader.provider)
        before = self._sources.held
        self._reader.out.extend(self._sources.read(found))
        self._reader.hold(self._sources.held - before)

    def add_executed(self, runs: Iterable[object]) -> None:
        """Emits calls that the vendor ran itself, and their results."""
        reader = self._reader
        if self._executed is None:
            self._executed = ExecutedTools(self._new_call_id)
        reader.out.extend(self._executed.read(runs))
        if self._executed.count > reader.limits.max_blocks and not reader.done:
            reader.fail(LimitExceeded(f"the response holds more than {reader.limits.max_blocks} calls"))

    def add_image(self, image: object) -> None:
        """Emits an image."""
        try:
            self._reader.out.append(image_file(image))
        except DecodeError as error:
            self._reader.defect(error.message)

    def metadata(self) -> Metadata | None:
        """Returns the fields that belong to no part of the answer, for its finish."""
        fields = self._extras.metadata(self._reader.provider)
        if self._audio is not None and self._audio.rest:
            fields = merge_metadata(fields, {self._reader.provider: {"audio": self._audio.rest}})
        return fields


class Sources:
    """Web pages in any of their forms, each URL once.

    Perplexity repeats `citations` (URLs) and `search_results` (objects) on every chunk; OpenAI
    and OpenRouter send `annotations` of type url_citation. Their other fields become metadata.

    held: memory of the URLs seen so far, in bytes
    """

    def __init__(self, provider: str) -> None:
        self.held = 0
        self._provider = provider
        self._seen: set[str] = set()
        self._last: object = None

    def read(self, found: object) -> Iterator[Source]:
        """Yields the sources of a list that were not seen before."""
        # Perplexity's lists are the same on nearly every chunk: one comparison spares the loop.
        if not isinstance(found, list) or found == self._last:
            return
        self._last = found
        for item in found:
            page = _page(item)
            url, title = page.get("url"), page.get("title")
            if isinstance(url, str) and url and url not in self._seen:
                self._seen.add(url)
                self.held += sys.getsizeof(url) + _SLOT_BYTES
                rest = {
                    key: value for key, value in page.items() if key not in _SOURCE_KEYS and _has_value(value)
                }
                metadata = {self._provider: rest} if rest else None
                title = title if isinstance(title, str) and title else None
                yield Source("url", f"source-{len(self._seen)}", url, title, provider_metadata=metadata)


def _page(item: object) -> dict[str, Any]:
    if isinstance(item, str):
        return {"url": item}
    if not isinstance(item, dict):
        return {}
    page = item.get("url_citation")
    return page if isinstance(page, dict) else item


def image_file(image: object) -> File:
    """Returns the file of an `image_url` object, whose URL may hold the data.

    raises: DecodeError if it has no URL, or data that is not base64
    """
    url = image.get("image_url", image.get("url")) if isinstance(image, dict) else image
    if isinstance(url, dict):
        url = url.get("url")
    if not isinstance(url, str) or ":" not in url:
        raise DecodeError("an image has no URL")
    if not url.startswith("data:"):
        return File("image/*", url)
    head, _, data = url[5:].partition(",")
    try:
        return File(head.partition(";")[0] or "image/png", base64.b64decode(data, validate=True))
    except ValueError as error:
        raise DecodeError(f"an image's data is not base64: {error}") from None


class AudioFile:
    """A spoken answer: base64 fragments in, one file at the end.

    rest: id and expiry of a recording whose data has not arrived
    """

    def __init__(self, provider: str) -> None:
        self.rest: dict[str, Any] = {}
        self._provider = provider
        self._recording = Base64Pieces()

    @property
    def held(self) -> int:
        """Size of the data so far, in bytes."""
        return self._recording.size

    def add(self, audio: dict[str, Any]) -> str:
        """Adds a fragment; returns what it adds to the transcript."""
        if isinstance(audio.get("id"), str):
            self.rest["audio_id"] = audio["id"]
        if audio.get("expires_at") is not None:
            self.rest["audio_expires_at"] = audio["expires_at"]
        if isinstance(audio.get("data"), str):
            self._recording.add(audio["data"])
        transcript = audio.get("transcript")
        return transcript if isinstance(transcript, str) else ""

    def take(self) -> File | None:
        """Returns the recording, if there is one.

        raises: DecodeError if it is not base64
        """
        recording, self._recording = self._recording, Base64Pieces()
        if not recording:
            return None
        try:
            data = recording.joined()
        except ValueError as error:
            raise DecodeError(f"the audio is not base64: {error}") from None
        # The history refers to a recording by this id; OpenAI takes no bytes of an assistant's audio.
        fields, self.rest = self.rest, {}
        metadata = {self._provider: fields} if fields else None
        return File(audio_type(data), data, metadata)


class ExecutedTools:
    """Groq's `executed_tools`: a run appears when it begins, and again with its result."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._ids: dict[object, str] = {}
        self._settled: set[str] = set()

    @property
    def count(self) -> int:
        """Number of calls so far."""
        return len(self._ids)

    def read(self, runs: Iterable[object]) -> Iterator[Event]:
        """Yields the events of calls and results that were not seen before."""
        for place, run in enumerate(runs):
            if not isinstance(run, dict):
                continue
            name = str(run.get("name") or run.get("type") or "tool")
            key = (run.get("index") if isinstance(run.get("index"), int) else place, name)
            if key not in self._ids:
                self._ids[key] = self._new_id()
                yield from self._call(self._ids[key], name, run.get("arguments"))
            call_id = self._ids[key]
            result = {k: v for k, v in run.items() if k not in _CALL_KEYS and _has_value(v)}
            if result and call_id not in self._settled:
                self._settled.add(call_id)
                yield ToolResult(result, call_id, name, provider_executed=True)

    def _call(self, call_id: str, name: str, arguments: object) -> Iterator[Event]:
        text = json_text(arguments)
        yield ToolInputStart(name, call_id, provider_executed=True)
        if text:
            yield ToolInputDelta(text, call_id)
        yield ToolInputEnd(call_id)
        yield ToolCall(name, text or "{}", call_id, provider_executed=True)


def _has_value(value: object) -> bool:
    """Whether a value is more than a placeholder; Groq sends an empty list of results while a tool runs."""
    if isinstance(value, dict):
        return any(_has_value(inner) for inner in value.values())
    return value not in (None, "", [])


# Fields beside the answer, in chunks of their own or on every chunk.
#
# Perplexity repeats the images it found; Azure begins with the results of its prompt filter; OpenAI has the
# service tier and the system fingerprint in every chunk, and moderation results in a chunk of their own.
# They become metadata of the finish. The server side writes them in a chunk without choices.


class _Extras(msgspec.Struct):
    images: Any = None
    prompt_filter_results: Any = None
    moderation: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


_EXTRAS: Final = _Extras.__struct_fields__
_values: Final = attrgetter(*_EXTRAS)
_decode_extras: Final = msgspec.json.Decoder(_Extras).decode


class AnswerExtras:
    """Stores the last value of each name; a null changes nothing."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}
        self._last: tuple[Any, ...] = ()

    def add(self, chunk: FullChunk, encodable: Callable[[Any], Any]) -> None:
        """Stores the fields of a chunk that was decoded with them."""
        found = _values(chunk)
        if found == self._last:  # as in most answers: all chunks have the same
            return
        self._last = found
        for name, value in zip(_EXTRAS, found, strict=True):
            if value:
                self._fields[name] = encodable(value)

    def look(self, payload: bytes) -> None:
        """Stores the fields of a payload that may hold some."""
        try:
            # To skip all else costs no more than a search for the names.
            found = _decode_extras(payload)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            read = _read_extras(payload)
            self._fields.update({name: read[name] for name in _EXTRAS if read.get(name)})
            return
        for name in _EXTRAS:
            if value := getattr(found, name):
                self._fields[name] = value

    def metadata(self, provider: str) -> Metadata | None:
        """Returns all fields under the provider's name; None if there are none."""
        return {provider: self._fields} if self._fields else None


def _read_extras(payload: bytes) -> dict[str, Any]:
    try:
        value = encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def extras_chunk(metadata: Metadata | None) -> Mapping[str, Any]:
    """Returns the chunk that repeats the fields; empty if there are none."""
    fields = {name: own[name] for own in (metadata or {}).values() for name in _EXTRAS if own.get(name)}
    return {"choices": [], **fields} if fields else {}
