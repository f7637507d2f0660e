"""Decodes a Gemini response into events: its chunks. `parts.py` has what is inside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Place, StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.gemini.parts import FunctionCalls, Parts, holds_more, snake
from llmstream.dialects.gemini.wire import (
    CONTINUATION,
    NO_COUNTS,
    Candidate,
    Chunk,
    Counts,
    GeminiFraming,
    Part,
    PlainChunk,
    PlainPart,
    decode_chunk,
    decode_plain_chunk,
    finish_reason,
    is_block_reason,
    sources_of,
)
from llmstream.dialects.google import KEY, Responses, Sources
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.payload_size import held_size
from llmstream.dialects.wire_values import iso_time
from llmstream.errors import LimitExceeded, LLMStreamError, ServerError
from llmstream.events import (
    ErrorEvent,
    Event,
    FinishReason,
    Metadata,
    Raw,
    ResponseMetadata,
    TextDelta,
    Usage,
)
from llmstream.grammar import TRUNCATING

__all__ = ["GeminiDecoder"]

# Fields of a candidate that become metadata of the finish.
_FINISH_FIELDS: Final = (
    "grounding_metadata",
    "url_context_metadata",
    "citation_metadata",
    "safety_ratings",
    "finish_message",
    "logprobs_result",
    "avg_logprobs",
    "token_count",
)
_NO_CONTENT: Final = (Raw, ResponseMetadata, ErrorEvent)
_UNKNOWN: Final = Part()
_SILENT: Final = (_UNKNOWN, Part(text=""))


class GeminiDecoder(PayloadDecoder[Chunk]):
    """Decodes one response body; see `dialects.base.Decoder`.

    The wire has no last event. A finish reason may come in the middle (code execution on Gemini 2.5), so
    `finish` is held back until the end of the body: the last reason counts, and parts after a reason make
    the answer incomplete again. A long answer comes in several bodies; see
    `dialects.base.ContinuingDecoder`.
    """

    _blocked: str | None = None
    _model_status: Any = None

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        framing = GeminiFraming(max_bytes=limits.max_event_bytes)
        super().__init__(framing, decode_chunk, provider=provider, include_raw=include_raw, limits=limits)
        self._blocks = Blocks(self, Block, key=KEY, closing=lambda block: block.metadata)
        self._calls = FunctionCalls(self, self._blocks, new_call_id)
        self._parts = Parts(self, self._blocks, self._calls, new_call_id)
        self._sources = Sources(self._blocks.source_id, self.hold)
        self._counts = Counts()
        self._raw_reason: str | None = None
        self._named = False
        self._finish_fields: dict[str, Any] = {}
        self._earlier_fields: list[dict[str, Any]] = []
        self._responses = Responses()
        self._place_at = 0  # number of events in `out` before the latest place
        self.gap: LLMStreamError | None = None
        self._all_fields: tuple[bytes, Any] = (b"", None)

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes chunks. Nearly every one continues the open text and becomes a delta here."""
        # A strict type for such chunks costs less than looking for everything else in each (measured).
        decode, reported, blocks = decode_plain_chunk.decode, self._counts.reported, self._blocks
        out, raw, read_other = self.out, self._include_raw, self._read_one
        ready = self._named and not self.complete
        for payload in payloads:
            text_id = blocks.text_id
            # Between calls no prose is open: this decoder would raise an error for each of them, which takes
            # as long as to decode it.
            if text_id is None and blocks.reasoning_id is None and self._named:
                read_other(payload)
                if self.done:
                    return
                continue
            try:
                plain = decode(payload)
            except UNREADABLE:
                read_other(payload)
            else:
                if raw:
                    self._raw(payload)
                # Only collected here: each chunk repeats the counts, of which the last ones count.
                if plain.usage_metadata is not NO_COUNTS:
                    reported.append(plain.usage_metadata)
                part = plain.candidates[0].content.parts[0]
                if ready and text_id is not None and part.thought is None:
                    if text := part.text:
                        out.append(TextDelta(text, text_id))
                    continue
                self._on_plain(plain, part)
            if self.done:
                return
            ready = self._named and not self.complete
        if not self._counts.settle(payloads):
            self.fail(LimitExceeded("the usage has more fields than can be meant", provider=self.provider))
        if self._responses.last is not None:
            self._note_content(self.out[self._place_at :])
            self._place_at = 0

    def _on_plain(self, wire: PlainChunk, part: PlainPart) -> None:
        """Maps a chunk of text or reasoning alone; its counts are already stored."""
        if not self._named:
            self._introduce(wire)
        if self.complete and self._blocked is None and (part.text or part.thought is not None):
            # Text after a finish reason: the answer continues, and a body that ends here is incomplete.
            self.complete = False
        if part.thought:
            self._blocks.reasoning(part.text)
        else:
            self._parts.has_text = self._parts.has_text or bool(part.text.strip())
            self._blocks.text(part.text)

    def on(self, wire: Chunk) -> None:
        """Maps one chunk to events."""
        if self._joiner is not None:
            wire = _encodable(wire)
        if wire.error:
            self.fail(error_from_value({"error": wire.error}, provider=self.provider))
            return
        if not self._named:
            self._introduce(wire, wire.model_status)
        if wire.model_status is not None and wire.model_status != self._model_status:
            self._model_status = self._finish_fields["model_status"] = wire.model_status
        if wire.usage_metadata is not None:
            self._counts.add(wire.usage_metadata)
        if wire.prompt_feedback is not None:
            self._feedback(wire.prompt_feedback)
        for position, candidate in enumerate(wire.candidates or ()):
            if candidate is not None and not candidate.index:
                self._candidate(candidate, position)
                if self.done:
                    return

    @property
    def usage(self) -> Usage:
        """Usage of all responses, as far as the vendor has reported it."""
        return self._responses.usage(self._counts.usage)

    def end(self) -> None:
        """Ends the response, if the last reason was the end of the answer."""
        if not self.complete:
            return
        reason = self._reason()
        self._blocks.close_prose()
        # Calls whose end the limit cut off stay open; `finish` drops them.
        if reason not in TRUNCATING:
            self._calls.complete_all()
        if self.done:
            return
        if reason == "error":
            # The error comes right before the finish.
            self._blocks.end(reason)
            self.out.append(ErrorEvent(self._failure().info))
        self._blocks.finish(reason, self._blocked or self._raw_reason, self._finish_metadata())

    # Long answers, which come in several responses.

    @property
    def next_place(self) -> Place | None:
        """See `ContinuingDecoder`. The vendor also gives places in the middle of a response."""
        if self._blocked is not None or (self.complete and self._raw_reason != CONTINUATION):
            return None
        return self._responses.next

    @property
    def unfinished(self) -> Metadata | None:
        """Metadata for the finish of an interrupted response, if it can be continued."""
        return self._finish_metadata() if self._responses.last is not None else None

    def _finish_metadata(self) -> Metadata | None:
        """Returns the metadata of the finish."""
        earlier = {"earlier_responses": self._earlier_fields} if self._earlier_fields else {}
        metadata = {**self._finish_fields, **earlier, **self._responses.metadata()}
        return {KEY: metadata} if metadata else None

    def next_body(self) -> None:
        """Prepares for another body: blocks and calls stay open."""
        self._responses.next_body(self._counts.usage)
        self._counts = Counts()
        if self._finish_fields:
            self._earlier_fields.append(self._finish_fields)
            self.hold(held_size(self._finish_fields))
            self._finish_fields = {}
        # The old body may have ended inside an event, whose beginning must not be put before the new one.
        self._framing = GeminiFraming(max_bytes=self.limits.max_event_bytes)
        self._raw_reason = self.gap = None
        self.complete = False
        self._calls.expect_repeats()

    def fail(self, error: LLMStreamError) -> None:
        """Ends the stream with an error, unless the response can be requested again from its last place."""
        self._note_content(self.out[self._place_at :])
        if self._responses.count and error.retryable and self.next_place is not None:
            self.gap = error
        else:
            super().fail(error)

    def _note_content(self, events: list[Event]) -> None:
        """Records content after the latest position, which a response from there would repeat."""
        if any(not isinstance(event, _NO_CONTENT) for event in events):
            self._responses.content_followed = True

    def _note_place(self, candidate: Candidate) -> None:
        """Records where the next response begins; only after an end by length is there one."""
        if candidate.continuation_token is not None:
            self._responses.place(candidate.continuation_token)
            self._place_at = len(self.out)
        elif candidate.finish_reason and candidate.finish_reason != CONTINUATION:
            self._responses.forget()

    def _introduce(self, wire: Chunk | PlainChunk, status: Any = None) -> None:
        """Emits id and model of the response, once."""
        # The status announces when the vendor retires the model.
        model, number = wire.model_version, wire.response_id
        model = model if isinstance(model, str) and model else None
        number = str(number) if isinstance(number, (str, int)) and number else None
        if model is None and number is None:
            return
        self._named = True
        self._model_status = status
        metadata = None if status is None else {KEY: {"model_status": status}}
        self.out.append(ResponseMetadata(model, number, iso_time(wire.create_time), metadata))

    def _feedback(self, feedback: Any) -> None:
        if not isinstance(feedback, dict):
            return
        self._finish_fields["prompt_feedback"] = feedback
        if is_block_reason(feedback.get("blockReason")):
            self._blocked = feedback["blockReason"]
            self.complete = True

    def _candidate(self, candidate: Candidate, position: int) -> None:
        content = candidate.content
        if content is not None and content.parts:
            if (
                self.complete
                and self._blocked is None
                and any(_continues_answer(part) for part in content.parts)
            ):
                self.complete = False
            for number, part in enumerate(content.parts):
                if part is None:
                    continue
                call = part.function_call
                if call is not None and part.thought_signature is None and part == Part(function_call=call):
                    # A call and nothing else: one comparison instead of a look at each field (4 % of a call).
                    self._calls.read(call, None)
                elif part == _UNKNOWN:
                    self._unknown_part(position, number)
                else:
                    self._parts.read(part)
                if self.done:
                    return
        if candidate.finish_reason:
            self._raw_reason = str(candidate.finish_reason)
            self.complete = True
        # After the parts: content of the same chunk lies before the place that its token names.
        if candidate.finish_reason or candidate.continuation_token is not None:
            self._note_place(candidate)
        if (
            candidate.grounding_metadata is not None
            or candidate.url_context_metadata is not None
            or candidate.citation_metadata is not None
            or candidate.safety_ratings is not None
            or candidate.finish_message is not None
            or candidate.logprobs_result is not None
            or candidate.avg_logprobs is not None
            or candidate.token_count is not None
        ):
            self._read_metadata(candidate)

    def _unknown_part(self, position: int, number: int) -> None:
        """Emits a part of a kind that `Part` does not know; an empty one emits nothing."""
        # A chunk is decoded again once, however many such parts it has.
        if self._all_fields[0] is not self.payload:
            try:
                self._all_fields = (self.payload, self.untyped_payload())
            except RecursionError:
                self.defect("a part of an unknown kind is nested too deeply")
                return
        for kind, inner in self._all_fields[1]["candidates"][position]["content"]["parts"][number].items():
            if inner is not None:
                self._parts.custom(snake(kind), inner)

    def _read_metadata(self, candidate: Candidate) -> None:
        """Reads the fields of a candidate beside its parts."""
        self.out.extend(sources_of(candidate, self._sources))
        for name in _FINISH_FIELDS:
            value = getattr(candidate, name)
            if value is None or value == {} or value == []:
                continue
            known = self._finish_fields.get(name)
            if name == "logprobs_result" and isinstance(known, dict) and isinstance(value, dict):
                # Each chunk has those of its own tokens.
                _extend(known, value)
                self.hold(held_size(value))
            else:
                self._finish_fields[name] = value

    def _reason(self) -> FinishReason:
        return "content-filter" if self._blocked is not None else finish_reason(self._raw_reason)

    def _failure(self) -> ServerError:
        message = self._finish_fields.get("finish_message")
        detail = f": {message}" if isinstance(message, str) and message else ""
        return ServerError(
            f"the model's answer was not usable ({self._raw_reason}{detail}). Send the request again.",
            provider=self.provider,
            reason=self._raw_reason,
        )


def _continues_answer(part: Part | None) -> bool:
    """Whether a part continues the answer; fields beside an empty one do not."""
    return part is not None and (
        bool(part.text)
        or part.thought is not None
        or part.thought_signature is not None
        or part.audio_transcription is not None
        or holds_more(part)
    )


def _extend(known: dict[str, Any], more: dict[str, Any]) -> None:
    for key, value in more.items():
        if isinstance(value, list) and isinstance(known.get(key), list):
            known[key].extend(value)
        else:
            known[key] = value


def _encodable(wire: Chunk) -> Chunk:
    """Replaces lone surrogates, except in streamed text, where the next chunk may have the other half."""
    repaired = msgspec.convert(encodable_value(msgspec.to_builtins(wire)), Chunk)
    for part, original in zip(_parts(repaired), _parts(wire), strict=True):
        part.text = original.text
        if part.function_call is not None and original.function_call is not None:
            part.function_call.partial_args = original.function_call.partial_args
    return repaired


def _parts(wire: Chunk) -> Iterator[Part]:
    for candidate in wire.candidates or ():
        if candidate is not None and candidate.content is not None:
            yield from (part for part in candidate.content.parts or () if part is not None)
