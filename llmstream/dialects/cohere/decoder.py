"""Bytes of a chat stream to events: the message around its blocks."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Final, Literal

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Logprobs
from llmstream.dialects.cohere.wire import (
    KEY,
    Call,
    Content,
    WireEvent,
    cited,
    decode_event,
    finish_reason,
    read_usage,
)
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value, is_json, without_lone_surrogates
from llmstream.dialects.token_counts import UsageCounts
from llmstream.dialects.tool_calls import as_id, json_text, mint_call_id
from llmstream.errors import IncompleteStream, LimitExceeded
from llmstream.events import (
    ErrorEvent,
    Finish,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.events.types import merge_metadata
from llmstream.framing.sse import SSEDecoder

__all__ = ["CohereDecoder"]


# Blocks of a chat stream: content, the tool plan and calls, each opened, grown and closed as events.
#
# An index counts content and calls apart, so both may be at 0 at once. The tool plan has no index,
# start or end: it opens with its first fragment and closes with whatever comes next.

_WAITING_CHARS: Final = 100  # white space before `null`; more of it is looked at as input
_SLOT_BYTES: Final = 8
_NAME_BYTES: Final = 64  # a place in a set
_NOTHING: Final = "null"
"""What some models write for the arguments of a call that takes none."""


@dataclasses.dataclass(slots=True)
class _Block:
    """An open text or thinking block."""

    kind: Literal["text", "thinking"]
    id: str


@dataclasses.dataclass(slots=True)
class _Input:
    """A call as far as it has come.

    waiting: a beginning that may still turn out to be nothing but `null`; its pieces, of `waiting_chars`
    begun:   what that is without the white space around it
    size:    of the pieces, in characters
    held:    what they take, in bytes of memory
    """

    name: str
    id: str
    pieces: list[str] = dataclasses.field(default_factory=list)
    waiting: list[str] = dataclasses.field(default_factory=list)
    waiting_chars: int = 0
    begun: str = ""
    size: int = 0
    held: int = 0

    def may_be_nothing(self, text: str) -> bool:
        """Takes one more piece of the beginning; whether it may still turn out to be nothing."""
        piece = text.strip()
        if piece:
            before = self.waiting[-1] if self.waiting else ""
            parted = bool(self.begun) and (before[-1:].isspace() or text[0].isspace())
            self.begun = f"{self.begun} {piece}" if parted else self.begun + piece
        self.waiting.append(text)
        self.waiting_chars += len(text)
        return self.waiting_chars <= _WAITING_CHARS and _NOTHING.startswith(self.begun)


class BlockDecoder(PayloadDecoder[WireEvent]):
    """The part of the decoder that knows blocks; what stands around them is its subclass's.

    contents: open content by index
    answered: whether anything of an answer has come
    called:   whether the caller has calls to run
    """

    def __init__(
        self, *, provider: str, include_raw: bool, limits: StreamLimits, new_call_id: Callable[[], str]
    ) -> None:
        framing = SSEDecoder(limits.max_event_bytes)
        super().__init__(framing, decode_event, provider=provider, include_raw=include_raw, limits=limits)
        self.contents: dict[Hashable, _Block] = {}
        self.called = False
        self.logprobs = Logprobs(KEY)
        self._new_call_id = new_call_id
        self._plan: str | None = None
        self._inputs: dict[Hashable, _Input] = {}
        self._ended: list[_Input] = []
        self._lost: set[Hashable] = set()
        self._used: set[str] = set()
        self._blocks = 0
        self._sources = 0
        self._cited = 0

    @property
    def answered(self) -> bool:
        """Whether anything of an answer has come."""
        return bool(self._used)

    # content and the tool plan

    def content_start(self, index: object, content: object) -> None:
        """A content block opens; other types than text and thinking are not known to exist."""
        key = _key(index)
        self.end_content(key)
        for one in _contents(content):
            if one.type == "thinking" or (one.type is None and one.thinking is not None):
                self._open_content(key, "thinking")
            elif one.type in ("text", None):
                self._open_content(key, "text")
            self._say(key, one)

    def content_delta(self, index: object, content: object, logprobs: object = None) -> None:
        """A fragment of content, whether its block is open or not."""
        if logprobs is not None:
            self.hold(self.logprobs.add(logprobs if self._joiner is None else encodable_value(logprobs)))
        for one in _contents(content):
            self._say(_key(index), one)

    def end_content(self, index: object) -> None:
        """Closes a content block, if it is open."""
        block = self.contents.pop(_key(index), None)
        if block is not None:
            end = TextEnd if block.kind == "text" else ReasoningEnd
            self.let_go(self.logprobs.held)
            self.out.append(end(block.id, provider_metadata=self.logprobs.of_block()))

    def tool_plan(self, words: str | None) -> None:
        """A fragment of what the model says before its calls."""
        if not words:
            return
        if self._plan is None:
            self._end_contents()
            self._give(cut=False)
            self._plan = self._new_block_id()
            self.out.append(ReasoningStart(self._plan, {KEY: {"tool_plan": True}}))
        self.out.append(ReasoningDelta(words, self._plan))

    def _say(self, key: Hashable, content: Content) -> None:
        if content.thinking:
            thinking = self._block(key, "thinking").id
            self.out.append(ReasoningDelta(content.thinking, thinking, self.logprobs.of_delta()))
        if content.text:
            text = self._block(key, "text").id
            self.out.append(TextDelta(content.text, text, self.logprobs.of_delta()))

    def _block(self, key: Hashable, kind: Literal["text", "thinking"]) -> _Block:
        """The open block of a kind; one of another kind under the same index ends."""
        block = self.contents.get(key)
        if block is not None and block.kind == kind:
            return block
        self.end_content(key)
        return self._open_content(key, kind)

    def _open_content(self, key: Hashable, kind: Literal["text", "thinking"]) -> _Block:
        self._end_plan()
        self._give(cut=False)
        block = _Block(kind, self._new_block_id())
        self.contents[key] = block
        self.out.append(TextStart(block.id) if kind == "text" else ReasoningStart(block.id))
        return block

    def _end_plan(self) -> None:
        if self._plan is not None:
            self.out.append(ReasoningEnd(self._plan))
            self._plan = None

    def _end_contents(self) -> None:
        for key in list(self.contents):
            self.end_content(key)

    # calls

    def call_start(self, index: object, calls: object) -> None:
        """A call begins; one that is open under its index ends."""
        self._end_plan()
        self._end_contents()
        begun = _calls(calls)
        if not begun:
            self.defect("a tool-call-start came without a call")
        for place, call in enumerate(begun):
            key = _key(index) if not place else (_key(index), place)
            self.call_end(key)
            self._give(cut=False)
            name = call.function.name if call.function is not None else None
            if not name:
                self._lost.add(key)
                self.defect("a tool call came without a name. It was left out.")
                continue
            self._lost.discard(key)
            opened = _Input(without_lone_surrogates(name), self._new_input_id(call.id))
            self._inputs[key] = opened
            self.out.append(ToolInputStart(opened.name, opened.id))
            self._grow(opened, json_text(call.function.arguments) if call.function is not None else "")

    def call_delta(self, index: object, calls: object) -> None:
        """A fragment of a call's arguments."""
        key = _key(index)
        for call in _calls(calls):
            text = json_text(call.function.arguments) if call.function is not None else ""
            opened = self._inputs.get(key)
            if opened is not None:
                self._grow(opened, text)
            elif text and key not in self._lost:
                self._lost.add(key)
                self.defect(f"arguments came for the tool call {index!r}, which is not open")

    def call_end(self, index: object) -> None:
        """The wire says that a call is over.

        One whose input is no whole JSON value is held: the token limit may have cut it, which only
        the next block or the finish reason tells.
        """
        opened = self._inputs.pop(_key(index), None)
        if opened is None:
            return
        if opened.begun not in ("", _NOTHING):
            self._add(opened, "".join(opened.waiting))
        self._ended.append(opened)
        if opened.pieces and is_json("".join(opened.pieces)):
            self._give(cut=False)

    def end_all(self, *, cut: bool) -> None:
        """Nothing more will come; cut: by the token limit or an error, so open calls are no calls."""
        self._end_plan()
        self._end_contents()
        self._give(cut=cut)
        for key in list(self._inputs):
            if cut:
                self.out.append(ToolInputEnd(self._inputs.pop(key).id, incomplete=True))
            else:
                self.call_end(key)
        self._give(cut=cut)

    def _give(self, *, cut: bool) -> None:
        """Gives out the calls that were held; of those that were cut only the end."""
        ended, self._ended = self._ended, []
        for call in ended:
            self.let_go(call.held)
            text = "".join(call.pieces)
            whole = is_json(text)
            if cut and not whole:
                self.out.append(ToolInputEnd(call.id, incomplete=True))
                continue
            self.out.append(ToolInputEnd(call.id))
            self.out.append(ToolCall(call.name, text or "{}", call.id, invalid=bool(text) and not whole))
            self.called = True

    def _grow(self, call: _Input, text: str) -> None:
        if not text or self.done:
            return
        if not call.pieces:
            if call.may_be_nothing(text):
                return
            text = "".join(call.waiting)
            call.waiting, call.begun = [], ""
        self._add(call, text)

    def _add(self, call: _Input, text: str) -> None:
        call.size += len(text)
        if call.size > self.limits.max_tool_input_bytes:
            limit = self.limits.max_tool_input_bytes
            self.fail(LimitExceeded(f"the input of {call.name!r} is longer than {limit} bytes"))
            return
        call.pieces.append(text)
        call.held += sys.getsizeof(text) + _SLOT_BYTES
        self.hold(sys.getsizeof(text) + _SLOT_BYTES)
        self.out.append(ToolInputDelta(text, call.id))

    # ids

    def new_source_id(self) -> str:
        """An id for a source, unlike every other."""
        while True:
            self._sources += 1
            name = f"source-{self._sources}"
            if name not in self._used:
                self._used.add(name)
                self._cited += 1
                self.hold(_NAME_BYTES)
                return name

    def _new_block_id(self) -> str:
        while str(self._blocks) in self._used:
            self._blocks += 1
        return self._taken(str(self._blocks))

    def _new_input_id(self, given: Any) -> str:
        """The vendor's id where it tells the calls apart, else one of ours."""
        wanted = as_id(given)
        wanted = None if wanted is None else without_lone_surrogates(wanted)
        while wanted is None or wanted in self._used:
            wanted = self._new_call_id()
        return self._taken(wanted)

    def _taken(self, name: str) -> str:
        self._used.add(name)
        self.hold(sys.getsizeof(name) + _NAME_BYTES)
        if len(self._used) - self._cited > self.limits.max_blocks and not self.done:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
        return name


def _key(index: object) -> Hashable:
    """An index as a key; anything odd counts as one place."""
    return index if isinstance(index, (int, str, tuple)) else None


def _contents(content: object) -> Sequence[Content]:
    if isinstance(content, Content):
        return (content,)
    if isinstance(content, str):
        return (Content(text=content),)
    return _converted(content, Content)


def _calls(calls: object) -> Sequence[Call]:
    return (calls,) if isinstance(calls, Call) else _converted(calls, Call)


def _converted(items: object, kind: type[Any]) -> list[Any]:
    """The items of a list that fit; servers that imitate this wire send lists of one."""
    out = []
    for item in items if isinstance(items, list) else ():
        try:
            out.append(msgspec.convert(item, kind))
        except (msgspec.ValidationError, ValueError):  # half a character has an error of its own
            continue
    return out


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
