"""Decodes a Cohere chat stream into events."""

from __future__ import annotations

import sys
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.cohere.wire import (
    KEY,
    Call,
    Content,
    WireEvent,
    cited,
    decode_event,
    decode_plain_event,
    finish_reason,
    read_usage,
)
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import (
    as_data,
    encodable_value,
    encoded_json,
    is_json,
    json_object,
    on_one_line,
    without_lone_surrogates,
)
from llmstream.dialects.payload_size import most_held
from llmstream.dialects.tool_calls import as_id, json_text, mint_call_id
from llmstream.dialects.wire_values import UsageCounts
from llmstream.events import (
    ErrorEvent,
    Metadata,
    ReasoningDelta,
    ResponseMetadata,
    TextDelta,
    ToolInputDelta,
    Usage,
)
from llmstream.first_use import prepared
from llmstream.framing.sse import SSEDecoder

__all__ = ["CohereDecoder", "streamed_form"]

# White space before `null`; with more of it the input is not held back.
_WAITING_CHARS: Final = 100

# Some models send it as the arguments of a call without any.
_NULL: Final = "null"

# Content and calls are numbered separately, so both can have index 0: the key of a call holds more than
# its index. The tool plan has no index, start or end; it closes with the next block.
_PLAN: Final = ("plan",)


class OpenBlock(Block, eq=False):
    """A content block, the tool plan or a call.

    waiting: pieces of an input that may still be only `null`, of `waiting_chars` characters
    begun:   these without surrounding white space
    """

    waiting: list[str] = msgspec.field(default_factory=list)
    waiting_chars: int = 0
    begun: str = ""

    def may_be_null(self, text: str) -> bool:
        """Adds a piece of the input. Returns whether it may still be only `null`."""
        piece = text.strip()
        if piece:
            before = self.waiting[-1] if self.waiting else ""
            parted = bool(self.begun) and (before[-1:].isspace() or text[0].isspace())
            self.begun = f"{self.begun} {piece}" if parted else self.begun + piece
        self.waiting.append(text)
        self.waiting_chars += len(text)
        return self.waiting_chars <= _WAITING_CHARS and _NULL.startswith(self.begun)

    def take_waiting(self) -> str:
        """Returns the pieces held back, once they are known to be input."""
        text = "".join(self.waiting)
        self.waiting, self.begun = [], ""
        return text


class CohereDecoder(PayloadDecoder[WireEvent]):
    """Decodes one response of the v2 chat API.

    The response is complete with `message-end`; finish waits for the `[DONE]` after it or the end of the
    body.

    new_call_id: makes ids for calls without one
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
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self._blocks = Blocks(self, OpenBlock, key=KEY, closing=self._closing)
        self._opened = self._blocks.opened
        self._new_call_id = new_call_id
        # Keys of calls that were ignored.
        self._nameless: set[Hashable] = set()
        self._named = False
        self._raw_reason: str | None = None
        self._counts = UsageCounts(read_usage, self.hold)
        self._error: str | None = None
        self._prompt: list[str] = []

    @property
    def usage(self) -> Usage:
        """Usage that the vendor has reported so far."""
        return self._counts.usage

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes events. A measured hot loop: a piece of an open text or call becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        decode, out, opened, misses = decode_plain_event.decode, self.out, self._opened, 0
        growing: OpenBlock | None = None  # a call whose latest fragments are not counted yet
        index: int | None = None
        most = 0
        for payload in payloads:
            kind = ""
            if opened:  # outside of blocks nothing fits
                try:
                    event = decode(payload)
                    kind = event.type
                except UNREADABLE:
                    misses += 1
            if kind == "content-delta" and (delta := event.delta) is not None:
                block, content = opened.get(event.index), delta.message.content
                if block is not None and block.kind == "text" and content is not None and content.text:
                    out.append(TextDelta(content.text, block.id))
                    continue
            elif kind == "tool-call-delta" and (delta := event.delta) is not None:
                call = delta.message.tool_calls
                if call is not None and (text := call.function.arguments):
                    if growing is None or event.index != index:
                        index, most = event.index, most or most_held(payloads)
                        growing = self._plain_call(index, text, growing, most)
                    if growing is not None:
                        growing.parts.append(text)
                        out.append(ToolInputDelta(text, growing.id))
                        continue
            elif kind and event.delta is None:
                misses += 1
                if kind == "tool-call-end":
                    if growing is not None:
                        self.count(growing)
                        growing = None
                    self._call_end(event.index)
                    if self.done:
                        return
                    continue
            self._read_other(payload, growing)
            growing = None
            if self.done:
                return
        self._end_plain(growing, misses, len(payloads))

    def _plain_call(
        self, index: int | None, text: str, before: OpenBlock | None, most: int
    ) -> OpenBlock | None:
        """The open call of an index, after another one; None if its input may still be `null`, in pieces."""
        if before is not None:
            self.count(before)
        block = self._opened.get(("call", index, 0))  # see `_call_key`
        if block is None or not (block.parts or (text[0] == "{" and not block.waiting)):
            return None
        return self.growing(block, None, most)

    def on(self, wire: WireEvent) -> None:
        """Maps one event."""
        kind = wire.type
        message = wire.delta.message if wire.delta is not None else None
        if kind == "content-delta":
            content = message.content if message is not None else None
            block = self._opened.get(wire.index) if type(wire.index) is int else None
            if block is not None and type(content) is Content and wire.logprobs is None:
                # Nearly every event: without a call, and without a list of contents.
                if block.kind == "text" and content.text and content.thinking is None:
                    self.out.append(TextDelta(content.text, block.id))
                    return
                if block.kind == "reasoning" and content.thinking and content.text is None:
                    self.out.append(ReasoningDelta(content.thinking, block.id))
                    return
            if wire.logprobs is not None:
                self._blocks.add_logprobs(wire.logprobs)
            for one in _contents(content):
                self._content(_key(wire.index), one)
        elif kind == "content-start":
            self._content_start(_key(wire.index), message.content if message is not None else None)
        elif kind == "content-end":
            if _key(wire.index) in self._opened:
                self._blocks.close(_key(wire.index))
        elif kind == "tool-plan-delta":
            self._tool_plan(message.tool_plan if message is not None else None)
        elif kind == "tool-call-start":
            self._call_start(wire.index, message.tool_calls if message is not None else None)
        elif kind == "tool-call-delta":
            self._call_delta(wire.index, message.tool_calls if message is not None else None)
        elif kind == "tool-call-end":
            self._call_end(wire.index)
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

    def on_done(self) -> None:
        """Ends the stream; it arrives after `message-end`, or instead of it."""
        self.end_at("[DONE]", has_content=bool(self._blocks.ids))

    # Start and end of the message.

    def _name(self, number: object) -> None:
        if not self._named and isinstance(number, (str, int)) and number:
            self._named = True
            self.out.append(ResponseMetadata(id=str(number)))

    def _cite(self, citations: object) -> None:
        for citation in citations if isinstance(citations, list) else [citations]:
            if isinstance(citation, dict):
                self.out.extend(cited(citation, self._blocks.source_id))
            else:
                self.defect("a citation-start has no citation")

    def _debug(self, prompt: object) -> None:
        """Emits the model's prompt as text, which is sent only if requested."""
        if isinstance(prompt, str) and prompt:
            self._prompt.append(without_lone_surrogates(prompt))
            self.hold(sys.getsizeof(prompt))

    def _message_end(self, wire: WireEvent) -> None:
        """Stores reason, counts, and the message of an error."""
        self.complete = True
        delta = wire.delta
        if delta is not None:
            self._counts.add(self.encodable(delta.usage))
            if isinstance(delta.finish_reason, str) and delta.finish_reason:
                self._raw_reason = delta.finish_reason
            if delta.error:
                self._error = delta.error if isinstance(delta.error, str) else str(delta.error)
        self._blocks.end(finish_reason(self._raw_reason))

    def _maybe_fail(self, wire: WireEvent) -> None:
        """Fails on `{message, id}`, as in an error response, or on an error in a gateway's form."""
        if not wire.message and not wire.error:
            return
        names = ("error", "message", "error_type", "code", "status_code")
        error = {name: getattr(wire, name) for name in names}
        self.fail(error_from_value(encodable_value(error), provider=self.provider))

    def finish(self) -> None:
        """Closes open blocks, then emits finish."""
        raw = self._raw_reason
        reason = finish_reason(raw)
        self._blocks.end(reason)
        if self._error is not None or reason == "error":
            # The vendor reports errors of a running response in `message-end`, with any reason.
            reason = "error"
            error = {"message": self._error or f"the vendor ended the response with {raw!r}", "code": raw}
            self.out.append(ErrorEvent(error_from_value(error, provider=self.provider).info))
        metadata: Metadata | None = None
        if self._prompt:
            metadata = {KEY: {"debug": {"prompt": "".join(self._prompt)}}}
        self._blocks.finish(reason, raw, metadata)

    # Content and tool plan.

    def _content_start(self, key: Hashable, content: object) -> None:
        """Opens a content block; only the types text and thinking are known."""
        if key in self._opened:
            self._blocks.close(key)
        for one in _contents(content):
            if one.type == "thinking" or (one.type is None and one.thinking is not None):
                self._open(key, OpenBlock("reasoning"))
            elif one.type in ("text", None):
                self._open(key, OpenBlock("text"))
            self._content(key, one)

    def _content(self, key: Hashable, content: Content) -> None:
        """Adds a fragment of content; opens its block if needed."""
        for kind, text in (("reasoning", content.thinking), ("text", content.text)):
            if not text:
                continue
            block = self._opened.get(key)
            if block is None or block.kind != kind:
                block = self._open(key, OpenBlock(kind))
            if block is not None:
                self._blocks.delta(block, text)

    def _tool_plan(self, text: str | None) -> None:
        """Adds a fragment of the plan before the calls, as reasoning."""
        if not text:
            return
        block = self._opened.get(_PLAN)
        if block is None:
            self._blocks.close_prose()
            block = self._open(_PLAN, OpenBlock("reasoning", metadata={KEY: {"tool_plan": True}}))
        if block is not None:
            self.out.append(ReasoningDelta(text, block.id))

    def _open(self, key: Hashable, block: OpenBlock) -> OpenBlock | None:
        """Opens a block of text or reasoning; None past the cap on blocks."""
        if _PLAN in self._opened:
            self._blocks.close(_PLAN)
        block.id = self._blocks.next_id()
        return block if self._blocks.open(key, block) else None

    # Calls.

    def _call_start(self, index: object, calls: object) -> None:
        """Opens a call; closes a call that is open at its index."""
        self._blocks.close_prose()
        begun = _calls(calls)
        if not begun:
            self.defect("a tool-call-start has no call")
        for place, call in enumerate(begun):
            key = _call_key(index, place)
            # The model has continued, so a call that was held back is complete.
            self._blocks.release()
            if key in self._opened:
                self._blocks.close(key)
            name = call.function.name if call.function is not None else None
            if not name:
                self._nameless.add(key)
                self.defect("a tool call has no name. It was ignored.")
                continue
            # An index may be used again, by a call that has a name.
            self._nameless.discard(key)
            call_id = as_id(call.id)
            block = OpenBlock(
                "tool",
                self._blocks.call_id(call_id and without_lone_surrogates(call_id), self._new_call_id),
                name=without_lone_surrogates(name),
            )
            if self._blocks.open(key, block):
                self._grow(block, json_text(call.function.arguments) if call.function is not None else "")

    def _call_delta(self, index: object, calls: object) -> None:
        key = _call_key(index)
        for call in _calls(calls):
            text = json_text(call.function.arguments) if call.function is not None else ""
            block = self._opened.get(key)
            if block is not None:
                self._grow(block, text)
            elif text and key not in self._nameless:
                message = f"arguments were sent for the tool call {index!r}, which is not open"
                self._blocks.orphan(key, message)

    def _grow(self, block: OpenBlock, text: str) -> None:
        if not text or self.done:
            return
        if not block.parts:
            if block.may_be_null(text):
                return
            # The API sends "null" or "" for a call without arguments, in pieces; only what is more than that
            # is input.
            text = block.take_waiting()
        self._blocks.input(block, text)

    def _call_end(self, index: object) -> None:
        """Closes a call. If its input is not JSON, the token limit may have cut it."""
        key = _call_key(index)
        block = self._opened.get(key)
        if block is None:
            return
        self._closing(block)
        if block.parts and is_json(block.input):
            self._blocks.release()
            self._blocks.close(key, is_known_json=True)
        else:
            # Closed once the reason is known: at the token limit the call is cut, else it is invalid.
            self._blocks.hold_back(key)

    def _closing(self, block: OpenBlock) -> None:
        """Emits input that was held back."""
        if block.begun not in ("", _NULL):
            self._blocks.input(block, block.take_waiting())


def _key(index: object) -> Hashable:
    """Converts an index to a key; all invalid values have the same key."""
    return index if isinstance(index, (int, str)) else None


def _call_key(index: object, place: int = 0) -> Hashable:
    """Returns the key of a call; place: in a list of calls, which compatible servers send."""
    # Content and calls both count their indexes from 0.
    return ("call", _key(index), place)


def _contents(content: object) -> Sequence[Content]:
    if isinstance(content, Content):
        return (content,)
    if isinstance(content, str):
        return (Content(text=content),)
    return _converted(content, Content)


def _calls(calls: object) -> Sequence[Call]:
    return (calls,) if isinstance(calls, Call) else _converted(calls, Call)


def _converted(items: object, kind: type[Any]) -> list[Any]:
    """Converts the valid items of a list; compatible servers send lists of one."""
    out = []
    for item in items if isinstance(items, list) else ():
        try:
            out.append(msgspec.convert(item, prepared(kind)))
        # A lone surrogate raises a ValueError that is not a ValidationError.
        except (msgspec.ValidationError, ValueError):
            continue
    return out


# A complete response: the body of `POST /v2/chat` as the events of its stream, for the same decoder.
# source: Cohere's API reference, chat v2 and its streamed events


def streamed_form(body: bytes) -> bytes:
    """The events of a stream with the same content; the body itself if it is not a response."""
    response = json_object(body)
    if response is None or not isinstance(response.get("message"), dict):
        return as_data(on_one_line(body))
    return as_data(*map(encoded_json, _streamed(response)), b"[DONE]")


def _streamed(response: dict[str, Any]) -> Iterator[dict[str, Any]]:
    message = response["message"]
    yield {"type": "message-start", "id": response.get("id")}
    if response.get("prompt"):
        yield {"type": "debug", "prompt": response["prompt"]}
    if message.get("tool_plan"):
        yield _streamed_event("tool-plan-delta", tool_plan=message["tool_plan"])
    logprobs = response.get("logprobs")
    for index, content in enumerate(_listed(message.get("content"))):
        yield from _streamed_content(index, content, logprobs if isinstance(logprobs, list) else [])
    for citation in _listed(message.get("citations")):
        yield _streamed_event("citation-start", citations=citation)
    for index, call in enumerate(_listed(message.get("tool_calls"))):
        yield _streamed_event("tool-call-start", index, tool_calls=call)
        yield {"type": "tool-call-end", "index": index}
    delta = {name: response[name] for name in ("finish_reason", "usage", "error") if name in response}
    yield {"type": "message-end", "id": response.get("id"), "delta": delta}


def _streamed_content(index: int, content: Any, logprobs: list[Any]) -> Iterator[dict[str, Any]]:
    """One content block, with the log probabilities of its tokens."""
    content = content if isinstance(content, dict) else {"type": "text", "text": content}
    kind, text = content.get("type"), content.get("text")
    yield _streamed_event("content-start", index, content={"type": kind} if logprobs else content)
    if logprobs and kind == "text" and _joined(logprobs) == text:
        for entry in logprobs:
            yield {
                **_streamed_event("content-delta", index, content={"text": entry["text"]}),
                "logprobs": entry,
            }
    elif logprobs:
        yield {**_streamed_event("content-delta", index, content=content), "logprobs": logprobs[0]}
    yield {"type": "content-end", "index": index}


def _joined(logprobs: list[Any]) -> str | None:
    """The text of log probabilities; None if one has none."""
    texts = [entry.get("text") if isinstance(entry, dict) else None for entry in logprobs]
    return "".join(texts) if all(isinstance(text, str) for text in texts) else None  # type: ignore[arg-type]


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _streamed_event(kind: str, index: int | None = None, **message: Any) -> dict[str, Any]:
    place = {} if index is None else {"index": index}
    return {"type": kind, **place, "delta": {"message": message}}
