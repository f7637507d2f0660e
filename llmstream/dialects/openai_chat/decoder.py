"""Reads a Chat Completions stream into events.

The wire marks neither blocks nor the end of a call, and says its finish reason before its last
words: blocks open as they come, calls end as `tool_calls.py` says, and `finish` is held until
`[DONE]` or the end of the body.
"""

from __future__ import annotations

import datetime
import functools
import json
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.openai_chat import wire as wire
from llmstream.dialects.openai_chat.delta_reader import DeltaReader
from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.dialects.openai_chat.wire import Chunk, FirstChunk, finish_reason, read_usage
from llmstream.dialects.token_counts import UsageCounts
from llmstream.dialects.tool_calls import mint_call_id
from llmstream.errors import DecodeError, IncompleteStream, LLMStreamError
from llmstream.events import (
    Custom,
    ErrorEvent,
    Finish,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    Usage,
)
from llmstream.events.types import merge_metadata

__all__ = ["OpenAIChatDecoder", "extras_chunk"]


# What some vendors say beside the answer, in chunks of their own or on every chunk.
#
# Perplexity repeats the pictures it found; Azure says first what its filter made of the prompt; OpenAI
# says on every chunk which tier and which configuration answers, and in a chunk of its own how it judges
# prompt and answer. They become metadata of the finish, and go out again in a chunk without choices.


class _Extras(msgspec.Struct):
    images: Any = None
    prompt_filter_results: Any = None
    moderation: Any = None
    service_tier: Any = None
    system_fingerprint: Any = None


_NAMES: Final = _Extras.__struct_fields__
_QUOTED: Final = tuple([f'"{name}"'.encode() for name in _NAMES])
_decode: Final = msgspec.json.Decoder(_Extras).decode


class AnswerExtras:
    """Stores the last value of each name; a null changes nothing."""

    def __init__(self) -> None:
        self._said: dict[str, Any] = {}

    def look(self, payload: bytes) -> None:
        """A payload that may hold more than choices."""
        if any(quoted in payload for quoted in _QUOTED):
            found = _read(payload)
            self._said.update({name: found[name] for name in _NAMES if found.get(name)})

    def metadata(self, provider: str) -> Metadata | None:
        """All that was said, under the provider's name; None where nothing was."""
        return {provider: self._said} if self._said else None


def _read(payload: bytes) -> dict[str, Any]:
    try:
        return msgspec.structs.asdict(_decode(payload))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        pass
    try:
        value = encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def extras_chunk(metadata: Metadata | None) -> Mapping[str, Any]:
    """The fields of the chunk that says it again; empty where there is nothing to say."""
    said = {name: own[name] for own in (metadata or {}).values() for name in _NAMES if own.get(name)}
    return {"choices": [], **said} if said else {}


_UNREADABLE = (msgspec.MsgspecError, ValueError, RecursionError)


class OpenAIChatDecoder(DeltaReader):
    """One response body of this wire; see `dialects.base.Decoder`.

    new_call_id: names calls that come without an id
    """

    def __init__(
        self,
        quirks: Quirks,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(
            quirks, provider=provider, include_raw=include_raw, limits=limits, new_call_id=new_call_id
        )
        self._counts = UsageCounts(lambda raw: read_usage(raw, quirks.usage), self.hold)
        self._raw_reason: str | None = None
        self._named = False
        self._beginning = True
        self._answered = False

    @functools.cached_property
    def _extras(self) -> AnswerExtras:
        return AnswerExtras()

    # The stream, payload by payload.

    def _read(self, payloads: list[bytes]) -> None:
        decode, out = self._decode, self.out
        for payload in payloads:
            if self._include_raw:
                self._raw(payload)
            try:
                chunk = decode(payload)
            except _UNREADABLE as error:
                second = self._second_look(payload, error)
                if second is None:
                    if self.done:
                        return
                    continue
                chunk = second
            # Nearly every chunk goes on with the open text or reasoning and holds nothing else: that is
            # dealt with here. Written out, since a call costs as much as all of these looks (0.1 us a chunk).
            choices = chunk.choices
            if (
                choices is not None
                and len(choices) == 1
                and chunk.usage is None
                and chunk.error is None
                and chunk.citations is None
                and chunk.search_results is None
                and chunk.x_groq is None
                and chunk.moderation is None
            ):
                choice = choices[0]
                if (
                    choice is not None
                    and choice.finish_reason is None
                    and choice.usage is None
                    and choice.logprobs is None
                    and not choice.index
                ):
                    delta = choice.delta
                    if (
                        delta is not None
                        and delta.reasoning is None
                        and delta.tool_calls is None
                        and delta.refusal is None
                        and delta.reasoning_details is None
                        and delta.annotations is None
                        and delta.function_call is None
                        and delta.images is None
                        and delta.audio is None
                        and delta.executed_tools is None
                        and delta.extra_content is None
                        and delta.reasoning_text is None
                        and delta.reasoning_opaque is None
                        and self._plain
                    ):
                        content, thought = delta.content, delta.reasoning_content
                        if thought is None:
                            if self._text_id is not None and type(content) is str and content != "":
                                out.append(TextDelta(content, self._text_id))
                                continue
                        elif (
                            not content
                            and type(thought) is str
                            and thought
                            and self._reasoning_id is not None
                        ):
                            out.append(ReasoningDelta(thought, self._reasoning_id))
                            continue
            self.payload = payload
            self.on(chunk)
            if self.done:
                return
            decode = self._decode

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """The base begins with none; from then on the chunks say it."""

    def on_sentinel(self, payload: bytes) -> bool:
        """`[DONE]`, whatever follows it; `null` says nothing; a list may hold an error."""
        text = payload.strip()
        if text.startswith(b"[DONE]"):
            self._on_done()
            return True
        if text.startswith(b"["):
            try:
                value = json.loads(text)
            except _UNREADABLE:
                return False
            if value and isinstance(value[0], dict) and value[0].get("error"):
                self.fail(error_from_value(encodable_value(value), provider=self.provider))
                return True
        return text == b"null"

    def on(self, wire: Chunk) -> None:
        """Turns one chunk into events."""
        choices = wire.choices
        if self._beginning:
            self._begin(wire)
        if wire.usage is not None:
            self._count(wire.usage)
        if wire.x_groq is not None:
            self._on_x_groq(wire.x_groq)
        if wire.error or (not choices and self._is_error(wire)):
            self._fail_as_told()
        if self.done:
            return
        if not choices or wire.citations is not None or wire.search_results is not None or wire.moderation:
            self._extras.look(self.payload)
        for choice in choices or ():
            if choice is not None and _is_first(choice.index):
                self._on_choice(choice)
                if self.done:
                    return
        for found in (wire.search_results, wire.citations):
            if found is not None:
                self._give_sources(found)

    def end(self) -> None:
        """The body is over: finish, if the vendor gave a reason or `[DONE]`."""
        if self.complete:
            self._finish()
        else:
            self._release()

    def fail(self, error: LLMStreamError) -> None:
        """The stream cannot go on; text that waited for the rest of a tag is given out first.

        Fields beside the answer stand in the finish all the same.
        """
        self._release()
        error.provider_metadata = self._beside()
        super().fail(error)

    # Parts of a chunk.

    def _begin(self, chunk: Chunk) -> None:
        """Reads what every chunk repeats, up to the chunk with the first text."""
        self._extras.look(self.payload)
        if isinstance(chunk, FirstChunk) and not self._named:
            self._name(chunk)
            if not self._named or not _says_anything(chunk):
                return
        self._beginning = False
        self._decode = wire.chunks.decode

    def _name(self, chunk: FirstChunk) -> None:
        """The response's names, once. Azure's prelude, which has no choices, has empty ones."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = chunk.id if isinstance(chunk.id, (str, int)) and chunk.id else None
        if not chunk.choices or (model is None and number is None):
            return
        created = chunk.created
        when = None
        if isinstance(created, (int, float)) and 0 < created < 32503680000:  # the year 3000, in seconds
            when = datetime.datetime.fromtimestamp(created, datetime.UTC)
        self.out.append(ResponseMetadata(model, None if number is None else str(number), when))
        self._named = True

    def _count(self, usage: object) -> None:
        self._counts.add(usage if self._joiner is None else encodable_value(usage))

    def _on_x_groq(self, extra: object) -> None:
        if isinstance(extra, dict):
            self._count(extra.get("usage"))
            if extra.get("error"):
                self.fail(
                    error_from_value(encodable_value({"error": extra["error"]}), provider=self.provider)
                )

    def _is_error(self, chunk: Chunk) -> bool:
        """Whether a chunk without choices is an error without the usual `error` object."""
        if chunk.error is not None and chunk.error != "" and chunk.error is not False:
            return True  # {} : something failed, nobody says what
        if chunk.usage is not None:
            return False
        value = _generic(self.payload)
        if not isinstance(value, dict):
            return False
        named = value.get("object") == "error" or value.get("type") == "error"
        words = value.get("message", value.get("detail"))
        return named or ("choices" not in value and isinstance(words, str))

    def _fail_as_told(self) -> None:
        self.fail(error_from_value(_generic(self.payload), provider=self.provider))

    def _on_choice(self, choice: wire.Choice) -> None:
        delta = choice.delta
        if choice.usage is not None:
            self._count(choice.usage)
        if choice.logprobs is not None:
            self.keep_logprobs(choice.logprobs, self.provider)
        if delta is not None:
            self._answered = True
            self.read_delta(delta)
        elif not self._answered and bytes(choice.message) not in (b"", b"null"):
            self._on_message(choice.message)
        if choice.finish_reason and not self.done:
            self._on_reason(choice.finish_reason)

    def _on_message(self, message: msgspec.Raw) -> None:
        """A whole answer where chunks were expected."""
        try:
            delta = wire.deltas.decode(message)
        except _UNREADABLE as error:
            self.defect(f"a message could not be read: {error}")
            return
        self._answered = True
        for place, call in enumerate(delta.tool_calls or ()):
            if call is not None and call.index is None:
                call.index = place
        self.read_delta(delta)

    # The end.

    def _on_reason(self, raw: str) -> None:
        """A finish reason: the answer is complete. Some servers repeat it on the usage chunk."""
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._extras.look(self.payload)
        self._end_calls()
        self._release()
        self.end_reasoning()
        self.end_text()

    def _on_done(self) -> None:
        if self._answered or self.complete:
            self.complete = True
            self._finish()
            return
        self.fail(
            IncompleteStream(
                "the stream said [DONE] before any answer. Look at the model's name, or ask again.",
                provider=self.provider,
            )
        )

    def _end_calls(self) -> None:
        unified = finish_reason(self._raw_reason, self._quirks.finish_reasons)
        truncated = unified in ("length", "content-filter", "error")
        started = self._tools.started
        events = self._tools.finish(truncated=truncated)
        if self._tools.started != started:
            self.end_reasoning()
            self.end_text()
        self.out.extend(events)

    def _finish(self) -> None:
        self._release()
        self._end_calls()
        self.end_reasoning()
        self.end_text()
        try:
            recording = self._audio.take()
        except DecodeError as error:
            self.defect(error.message)
        else:
            if recording is not None:
                self.out.append(recording)
        if self._details:
            self.out.append(Custom(f"{self.provider}.reasoning_details", self._take_details()))
        if self._opaque:
            self.out.append(Custom(f"{self.provider}.reasoning_opaque", self._take_opaque()))
        if self._extra:
            metadata = self._metadata("extra_content", self._extra)
            self.out.append(Custom(f"{self.provider}.extra_content", metadata))
        if self._tools.nameless():
            self.defect("a tool call came without a name. It was left out.")
        self._last_word()
        self.done = True

    def _last_word(self) -> None:
        raw = self._raw_reason
        unified = finish_reason(raw, self._quirks.finish_reasons)
        if self._refused and unified in ("stop", "unknown"):
            unified = "content-filter"
        elif self._tools.called and unified in ("stop", "other", "unknown"):
            unified = "tool-calls"
        if unified == "error":
            told = {"message": f"the vendor ended the answer with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(told, provider=self.provider).info))
        self.out.append(Finish(unified, self.usage, raw, self._beside()))

    def _beside(self) -> Metadata | None:
        """Fields beside the answer that belong to no part of it."""
        said = self._extras.metadata(self.provider)
        if self._audio.rest:
            said = merge_metadata(said, self._metadata("audio", self._audio.rest))
        return said if self._logprobs is None else merge_metadata(said, self._logprobs.of_rest())


def _says_anything(chunk: Chunk) -> bool:
    """Whether a chunk holds text: the next one may continue it, and is looked at no more."""
    deltas = [choice.delta for choice in chunk.choices or () if choice is not None]
    return any(delta is not None and (delta.content or delta.reasoning_content) for delta in deltas)


def _is_first(index: object) -> bool:
    return not index or index == "0"


def _generic(payload: bytes) -> object:
    try:
        return encodable_value(json.loads(payload.decode("utf-8", "replace")))
    except _UNREADABLE:
        return {}
