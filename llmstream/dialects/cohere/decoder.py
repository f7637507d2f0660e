"""Bytes of a chat stream to events: the message around its blocks."""

from __future__ import annotations

import sys
from collections.abc import Callable

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.cohere.block_decoder import BlockDecoder
from llmstream.dialects.cohere.citations import cited
from llmstream.dialects.cohere.finish import KEY, finish_reason, read_usage
from llmstream.dialects.cohere.wire import Content, WireEvent
from llmstream.dialects.surrogates import encodable_value, without_lone_surrogates
from llmstream.dialects.tool_fragments import mint_call_id
from llmstream.dialects.usage_counts import UsageCounts
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import IncompleteStream
from llmstream.events import ErrorEvent, Finish, Metadata, ReasoningDelta, ResponseMetadata, TextDelta, Usage
from llmstream.events.base import merge_metadata

__all__ = ["CohereDecoder"]


class CohereDecoder(BlockDecoder):
    """One answer of the v2 chat API.

    The answer is complete with `message-end`; finish waits for the `[DONE]` behind it or the
    end of the body.
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(provider=provider, include_raw=include_raw, limits=limits, new_call_id=new_call_id)
        self._named = False
        self._raw_reason: str | None = None
        self._counts = UsageCounts(read_usage, self.hold)
        self._error: str | None = None
        self._prompt: list[str] = []

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours; the deltas of content, which are most of them, go first."""
        kind = wire.type
        message = wire.delta.message if wire.delta is not None else None
        if kind == "content-delta":
            content = message.content if message is not None else None
            block = self.contents.get(wire.index) if type(wire.index) is int else None
            if block is not None and type(content) is Content and wire.logprobs is None:
                if block.kind == "text" and content.text and content.thinking is None:
                    self.out.append(TextDelta(content.text, block.id))
                    return
                if block.kind == "thinking" and content.thinking and content.text is None:
                    self.out.append(ReasoningDelta(content.thinking, block.id))
                    return
            self.content_delta(wire.index, content, wire.logprobs)
        elif kind == "content-start":
            self.content_start(wire.index, message.content if message is not None else None)
        elif kind == "content-end":
            self.end_content(wire.index)
        elif kind == "tool-plan-delta":
            self.tool_plan(message.tool_plan if message is not None else None)
        elif kind == "tool-call-start":
            self.call_start(wire.index, message.tool_calls if message is not None else None)
        elif kind == "tool-call-delta":
            self.call_delta(wire.index, message.tool_calls if message is not None else None)
        elif kind == "tool-call-end":
            self.call_end(wire.index)
        elif kind == "citation-start":
            self._cite(message.citations if message is not None else None)
        elif kind == "message-start":
            self._name(wire.id)
        elif kind == "message-end":
            self._name(wire.id)
            self._message_end(wire)
        elif kind == "debug":
            self._debug(wire.prompt)
        elif not kind or kind == "error":
            self._maybe_fail(wire)

    @property
    def usage(self) -> Usage:
        """Usage as far as the vendor has reported it."""
        return self._counts.usage

    @usage.setter
    def usage(self, usage: Usage) -> None:
        """The base begins with none; from then on the chunks say it."""

    def on_sentinel(self, payload: bytes) -> bool:
        """`[DONE]` ends the body; `null` says nothing."""
        text = payload.strip()
        if text.startswith(b"[DONE]"):
            self._on_done()
            return True
        return text == b"null"

    def end(self) -> None:
        """The body is over: a `message-end` without `[DONE]` is a complete answer."""
        if self.complete:
            self._finish()

    def _name(self, number: object) -> None:
        if not self._named and isinstance(number, (str, int)) and number:
            self._named = True
            self.out.append(ResponseMetadata(id=str(number)))

    def _cite(self, citations: object) -> None:
        for citation in citations if isinstance(citations, list) else [citations]:
            if isinstance(citation, dict):
                self.out.extend(cited(citation, self.new_source_id))
            else:
                self.defect("a citation-start came without a citation")

    def _debug(self, prompt: object) -> None:
        """What the model was given, as text; only where the request asks for it."""
        if isinstance(prompt, str) and prompt:
            self._prompt.append(without_lone_surrogates(prompt))
            self.hold(sys.getsizeof(prompt))

    def _message_end(self, wire: WireEvent) -> None:
        """The model is done: reason, counts, and the words of an error."""
        self.complete = True
        delta = wire.delta
        if delta is not None:
            self._counts.add(delta.usage if self._joiner is None else encodable_value(delta.usage))
            if isinstance(delta.finish_reason, str) and delta.finish_reason:
                self._raw_reason = delta.finish_reason
            if delta.error:
                self._error = delta.error if isinstance(delta.error, str) else str(delta.error)
        self._end_blocks()

    def _end_blocks(self) -> None:
        self.end_all(cut=finish_reason(self._raw_reason) in ("length", "content-filter", "error"))

    def _maybe_fail(self, wire: WireEvent) -> None:
        """`{message, id}`, as in a refused request, or an error in a gateway's form."""
        if not wire.message and not wire.error:
            return
        names = ("error", "message", "error_type", "code", "status_code")
        told = {name: getattr(wire, name) for name in names}
        self.fail(error_from_value(encodable_value(told), provider=self.provider))

    def _on_done(self) -> None:
        if self.complete or self.answered:
            self.complete = True
            self._finish()
            return
        self.fail(
            IncompleteStream(
                "the stream said [DONE] before any answer. Look at the model's name, or ask again.",
                provider=self.provider,
            )
        )

    def _finish(self) -> None:
        self._end_blocks()
        raw = self._raw_reason
        reason = finish_reason(raw)
        if self._error is not None or reason == "error":
            reason = "error"
            words = self._error or f"the vendor ended the answer with {raw!r}"
            told = {"message": words, "code": raw}
            self.out.append(ErrorEvent(error_from_value(told, provider=self.provider).info))
        elif self.called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        self.done = True
        said: Metadata | None = None
        if self._prompt:
            said = {KEY: {"debug": {"prompt": "".join(self._prompt)}}}
        self.out.append(Finish(reason, self.usage, raw, merge_metadata(said, self.logprobs.of_rest())))
