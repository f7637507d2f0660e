"""Reads a Mistral chat stream into events.

The wire marks neither blocks nor the end of a call: text and thinking open as they come, calls end
with the finish reason, and `finish` is held until `[DONE]` or the end of the body.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable
from typing import Any

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.held_size import held_size
from llmstream.dialects.mistral.content_decoder import ContentDecoder
from llmstream.dialects.mistral.finish import KEY, finish_reason, read_usage
from llmstream.dialects.mistral.wire import CallFragment, Choice, Chunk, decode_chunk
from llmstream.dialects.surrogates import encodable_value
from llmstream.dialects.tool_calls import ToolCallTracker
from llmstream.dialects.tool_fragments import mint_call_id
from llmstream.dialects.usage_counts import UsageCounts
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.errors import DecodeError, IncompleteStream, LimitExceeded
from llmstream.events import ErrorEvent, Finish, Metadata, ResponseMetadata, TextDelta, Usage
from llmstream.events.base import merge_metadata
from llmstream.framing.sse import SSEDecoder

__all__ = ["MistralDecoder"]

_YEAR_3000_S = 32503680000


class MistralDecoder(ContentDecoder):
    """One answer of the chat API; of several choices the first.

    new_call_id: names calls that come without an id
    """

    def __init__(
        self,
        *,
        provider: str,
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        framing = SSEDecoder(limits.max_event_bytes)
        super().__init__(framing, decode_chunk, provider=provider, include_raw=include_raw, limits=limits)
        self._tools = ToolCallTracker(limits=limits, new_id=new_call_id, reserved=self.has_block)
        self._named = False
        self._answered = False
        self._raw_reason: str | None = None
        self._counts = UsageCounts(read_usage, self.hold)
        self._beside: dict[str, Any] = {}

    def on(self, wire: Chunk) -> None:
        """Turns one chunk into events."""
        if not self._named:
            self._name(wire)
        if wire.usage is not None:
            self._counts.add(wire.usage if self._joiner is None else encodable_value(wire.usage))
        if not wire.choices:
            self._maybe_fail(wire)
            return
        if wire.error:
            self._maybe_fail(wire)
        for choice in wire.choices:
            if choice is not None and not choice.index and not self.done:
                self._on_choice(choice)

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
        """The body is over: finish, if the vendor gave a reason or `[DONE]`."""
        if self.complete:
            self._finish()

    def has_call(self, block_id: str) -> bool:
        """Whether a call has this id."""
        return block_id in self._tools.ids

    def _name(self, chunk: Chunk) -> None:
        """The response's names, once."""
        model = chunk.model if isinstance(chunk.model, str) and chunk.model else None
        number = str(chunk.id) if isinstance(chunk.id, (str, int)) and chunk.id else None
        if model is None and number is None:
            return
        created, when = chunk.created, None
        if isinstance(created, (int, float)) and 0 < created < _YEAR_3000_S:
            when = datetime.datetime.fromtimestamp(created, datetime.UTC)
        self._named = True
        self.out.append(ResponseMetadata(model, number, when))

    def _maybe_fail(self, chunk: Chunk) -> None:
        """An error in place of a chunk, in any of the vendor's forms; other things are no chunk of ours."""
        told = {"error": chunk.error, "message": chunk.message, "detail": chunk.detail}
        words = chunk.message if isinstance(chunk.message, str) else None
        if not (chunk.error or chunk.detail or words or chunk.object == "error"):
            return
        told |= {"type": chunk.type, "code": chunk.code, "status": chunk.raw_status_code}
        self.fail(error_from_value(encodable_value(told), provider=self.provider))

    def _on_choice(self, choice: Choice) -> None:
        delta = choice.delta
        if delta is None and not self._answered:
            delta = choice.message  # a whole answer where chunks were expected
        if choice.logprobs is not None:
            self.keep_logprobs(choice.logprobs, KEY)
        if choice.prompt_logprobs is not None:
            self._say_beside("prompt_logprobs", choice.prompt_logprobs)
        if delta is not None:
            self._answered = True
            if delta.metadata is not None:
                self._say_beside("metadata", delta.metadata)
            content = delta.content
            if delta.reasoning_content:
                self.content([{"type": "thinking", "thinking": delta.reasoning_content}])
            if type(content) is str:
                if content and self._text_id is not None and choice.logprobs is None:
                    self.out.append(TextDelta(content, self._text_id))
                else:
                    self.text(content)
            elif content is not None:
                self.content(content)
            if delta.tool_calls and not self.done:
                self._on_calls(delta.tool_calls)
        if choice.finish_reason and not self.done:
            self._on_reason(choice.finish_reason)

    def _say_beside(self, name: str, value: Any) -> None:
        """What belongs to no part of the answer; objects of several chunks are one."""
        if not value:
            return
        value = value if self._joiner is None else encodable_value(value)
        known = self._beside.get(name)
        if name == "metadata" and isinstance(known, dict) and isinstance(value, dict):
            self.hold(sum(held_size((name, one)) for name, one in value.items() if name not in known))
            known.update(value)  # the first of them is nobody else's
        else:
            self._beside[name] = value

    def _on_calls(self, fragments: Iterable[CallFragment | None]) -> None:
        tools = self._tools
        tools.next_chunk()
        for fragment in fragments:
            if fragment is None:
                continue
            started, function = tools.started, fragment.function
            try:
                events = tools.add(
                    index=fragment.index,
                    id=fragment.id,
                    name=function.name if function else None,
                    arguments=function.arguments if function else None,
                )
            except LimitExceeded as error:
                self.fail(error)
                return
            except DecodeError as error:
                self.defect(error.message)
                continue
            if tools.started != started:
                self.end_reasoning()
                self.end_text()
            self.out.extend(events)

    def _on_reason(self, raw: str) -> None:
        """A finish reason: the answer is complete; usage may follow with another choice."""
        if self._raw_reason is None:
            self._raw_reason = raw
        self.complete = True
        self._end_blocks()

    def _end_blocks(self) -> None:
        """Ends what is open. A call that the token limit cut is given, but as one that cannot be run:
        this wire sends a call in one piece, so no more of it will ever be told.
        """
        reason = finish_reason(self._raw_reason)
        cut = reason in ("length", "content-filter", "error")
        started = self._tools.started
        events = self._tools.finish(truncated=cut, in_one_piece=True, keep_cut=reason == "length")
        if self._tools.started != started:
            self.end_reasoning()
            self.end_text()
        self.out.extend(events)
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

    def _finish(self) -> None:
        self._end_blocks()
        if self._tools.nameless():
            self.defect("a tool call came without a name. It was left out.")
        raw = self._raw_reason
        reason = finish_reason(raw)
        if self._tools.called and reason in ("stop", "other", "unknown"):
            reason = "tool-calls"
        if reason == "error":
            told = {"message": f"the vendor ended the answer with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(told, provider=self.provider).info))
        self.done = True
        said: Metadata | None = {KEY: self._beside} if self._beside else None
        if self._logprobs is not None:
            said = merge_metadata(said, self._logprobs.of_rest())
        self.out.append(Finish(reason, self.usage, raw, said))
