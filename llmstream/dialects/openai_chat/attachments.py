"""What stands beside the text of an answer: sources, files, tools the vendor ran itself, and other fields."""

from __future__ import annotations

import base64
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.media import Base64Pieces
from llmstream.dialects.tool_calls import json_text
from llmstream.errors import DecodeError
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
)

__all__ = [
    "AnswerExtras",
    "AudioFile",
    "ExecutedTools",
    "Sources",
    "audio_type",
    "extras_chunk",
    "image_file",
]


_SLOT_BYTES: Final = 64
_CALL_KEYS: Final = ("index", "type", "name", "arguments")
_SAID: Final = ("url", "title", "type")
"""What a source says itself."""


class Sources:
    """Web pages in any of their forms, each URL once.

    Perplexity repeats `citations` (URLs) and `search_results` (objects) on every chunk; OpenAI
    and OpenRouter send `annotations` of type url_citation. What else they say of a page is metadata.

    held: what the addresses take that were seen, in bytes
    """

    def __init__(self, provider: str) -> None:
        self.held = 0
        self._provider = provider
        self._seen: set[str] = set()
        self._last: object = None

    def read(self, found: object) -> Iterator[Source]:
        """The sources in a list that were not seen before."""
        if not isinstance(found, list) or found == self._last:
            return
        self._last = found
        for item in found:
            page = _page(item)
            url, title = page.get("url"), page.get("title")
            if isinstance(url, str) and url and url not in self._seen:
                self._seen.add(url)
                self.held += sys.getsizeof(url) + _SLOT_BYTES
                told = {name: value for name, value in page.items() if name not in _SAID and _says(value)}
                kept = {self._provider: told} if told else None
                title = title if isinstance(title, str) and title else None
                yield Source("url", f"source-{len(self._seen)}", url, title, provider_metadata=kept)


def _page(item: object) -> dict[str, Any]:
    if isinstance(item, str):
        return {"url": item}
    if not isinstance(item, dict):
        return {}
    page = item.get("url_citation")
    return page if isinstance(page, dict) else item


def image_file(image: object) -> File:
    """The file of an `image_url` object, whose URL may hold the data.

    raises: DecodeError where there is neither
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
    """Spoken answers: base64 fragments in, one file at the end.

    rest: what was said of a recording that did not come
    held: what has come of it, in bytes
    """

    def __init__(self, provider: str) -> None:
        self.rest: dict[str, Any] = {}
        self._provider = provider
        self._recording = Base64Pieces()

    @property
    def held(self) -> int:
        """What has come, in bytes."""
        return self._recording.size

    def add(self, audio: dict[str, Any]) -> str:
        """Takes a fragment; returns the words it adds to the transcript."""
        if isinstance(audio.get("id"), str):
            self.rest["audio_id"] = audio["id"]
        if audio.get("expires_at") is not None:
            self.rest["audio_expires_at"] = audio["expires_at"]
        if isinstance(audio.get("data"), str):
            self._recording.add(audio["data"])
        words = audio.get("transcript")
        return words if isinstance(words, str) else ""

    def take(self) -> File | None:
        """The whole recording, if there is one; its id is what the vendor wants back.

        raises: DecodeError where it is not base64
        """
        recording, self._recording = self._recording, Base64Pieces()
        if not recording:
            return None
        try:
            data = recording.whole()
        except ValueError as error:
            raise DecodeError(f"the audio is not base64: {error}") from None
        said, self.rest = self.rest, {}
        metadata = {self._provider: said} if said else None
        return File(audio_type(data), data, metadata)


def audio_type(data: bytes) -> str:
    """The media type by the first bytes; streamed audio is bare 16 bit samples."""
    if data[:4] == b"RIFF":
        return "audio/wav"
    if data[:3] == b"ID3" or data[:2] in (b"\xff\xfb", b"\xff\xf3", b"\xff\xf2"):
        return "audio/mpeg"
    return {b"fLaC": "audio/flac", b"OggS": "audio/ogg"}.get(data[:4], "audio/pcm")


class ExecutedTools:
    """Groq's `executed_tools`: a run appears once it begins, and again with what it gave."""

    def __init__(self, new_id: Callable[[], str]) -> None:
        self._new_id = new_id
        self._ids: dict[object, str] = {}
        self._settled: set[str] = set()

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._ids)

    def read(self, runs: Iterable[object]) -> Iterator[Event]:
        """The calls that were not seen before, and the results that are new."""
        for place, run in enumerate(runs):
            if not isinstance(run, dict):
                continue
            name = str(run.get("name") or run.get("type") or "tool")
            key = (run.get("index") if isinstance(run.get("index"), int) else place, name)
            if key not in self._ids:
                self._ids[key] = self._new_id()
                yield from self._call(self._ids[key], name, run.get("arguments"))
            call_id = self._ids[key]
            given = {k: v for k, v in run.items() if k not in _CALL_KEYS and _says(v)}
            if given and call_id not in self._settled:
                self._settled.add(call_id)
                yield ToolResult(given, call_id, name, provider_executed=True)

    def _call(self, call_id: str, name: str, arguments: object) -> Iterator[Event]:
        text = json_text(arguments)
        yield ToolInputStart(name, call_id, provider_executed=True)
        if text:
            yield ToolInputDelta(text, call_id)
        yield ToolInputEnd(call_id)
        yield ToolCall(name, text or "{}", call_id, provider_executed=True)


def _says(value: object) -> bool:
    """Whether a value says anything; a list of no results says that the run goes on."""
    if isinstance(value, dict):
        return any(_says(inner) for inner in value.values())
    return value not in (None, "", [])


# Fields beside the answer, in chunks of their own or on every chunk.
#
# Perplexity repeats the pictures it found; Azure begins with what its filter made of the prompt; OpenAI
# has in every chunk which tier and which configuration answers, and in a chunk of its own how it judges
# prompt and answer. They become metadata of the finish, and go out again in a chunk without choices.


class _Extras(msgspec.Struct):
    images: Any = None
    prompt_filter_results: Any = None
    moderation: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


_EXTRAS: Final = _Extras.__struct_fields__
_QUOTED_EXTRAS: Final = tuple([f'"{name}"'.encode() for name in _EXTRAS])
_decode_extras: Final = msgspec.json.Decoder(_Extras).decode


class AnswerExtras:
    """Stores the last value of each name; a null changes nothing."""

    def __init__(self) -> None:
        self._fields: dict[str, Any] = {}

    def look(self, payload: bytes) -> None:
        """A payload that may hold more than choices."""
        if any(quoted in payload for quoted in _QUOTED_EXTRAS):
            found = _read_extras(payload)
            self._fields.update({name: found[name] for name in _EXTRAS if found.get(name)})

    def metadata(self, provider: str) -> Metadata | None:
        """All of them, under the provider's name; None where there was none."""
        return {provider: self._fields} if self._fields else None


def _read_extras(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.structs.asdict(_decode_extras(payload))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        value = encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def extras_chunk(metadata: Metadata | None) -> Mapping[str, Any]:
    """The fields of the chunk that repeats them; empty where there are none."""
    fields = {name: own[name] for own in (metadata or {}).values() for name in _EXTRAS if own.get(name)}
    return {"choices": [], **fields} if fields else {}
