"""The lines of Ollama's answer as events."""

from __future__ import annotations

import base64
import datetime
import json
import sys
from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import LazyBlocks
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.dialects.media import image_type
from llmstream.dialects.ollama.wire import Call, Fragment, Line, LooseLine, decode_fragment, decode_line
from llmstream.errors import LimitExceeded
from llmstream.events import (
    File,
    Finish,
    FinishReason,
    ResponseMetadata,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.framing.ndjson import NDJSONDecoder

__all__ = ["FINISH_REASONS", "USAGE_FIELDS", "OllamaDecoder"]

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, RecursionError)
_NAME_BYTES: Final = 64  # a place in a set
_NO_FRAGMENT: Final = Fragment()

FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "load": "other",
    "unload": "other",
}

USAGE_FIELDS: Final = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)


class OllamaDecoder(LazyBlocks[Line]):
    """Thinking is reasoning, content is text, and each call comes whole in one line.

    new_id: makes the id of a call that has none
    """

    def __init__(
        self,
        *,
        provider: str,
        new_id: Callable[[], str],
        include_raw: bool = False,
        limits: StreamLimits = StreamLimits(),
    ) -> None:
        self._lines = NDJSONDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(self._lines, decode_line, provider=provider, include_raw=include_raw, limits=limits)
        self._type = LooseLine
        self._new_id = new_id
        self._ids: set[str] = set()
        self._named = False
        self._called = False

    def _read(self, payloads: list[bytes]) -> None:
        """Nearly every line is one fragment of text and nothing else: that case is told apart here."""
        out, decode = self.out, decode_fragment.decode
        for payload in payloads:
            text_id = self._text_id
            if text_id is not None and not self._include_raw:
                try:
                    line = decode(payload)
                except _UNREADABLE:
                    line = _NO_FRAGMENT
                message = line.message
                if (
                    message is not None
                    and message.content
                    and not message.thinking
                    and message.tool_calls is None
                    and message.images is None
                    and not line.done
                    and line.error is None
                    and line.logprobs is None
                ):
                    out.append(TextDelta(message.content, text_id))
                    continue
            super()._read([payload])
            if self.done:
                return

    def on(self, wire: Line) -> None:
        """Turns one line into events."""
        if wire.error:
            self.fail(error_from_value({"error": wire.error}, provider=self.provider))
            return
        if not self._named:
            self._introduce(wire)
        if wire.logprobs:
            self.keep_logprobs(wire.logprobs, self.provider)
        message = wire.message
        if message is not None:
            if message.thinking:
                self.reasoning(message.thinking)
            if message.content:
                self.text(message.content)
            for image in message.images if isinstance(message.images, list) else ():
                self._image(image)
            for call in message.tool_calls or ():
                self._call(call)
        if len(self._ids) > self.limits.max_blocks:
            self.fail(LimitExceeded(f"the answer has more than {self.limits.max_blocks} blocks and calls"))
        elif wire.done and not self.done:
            self._finish(wire)

    def end(self) -> None:
        """Reads a last line without its line feed; half a line is left to whoever ends the stream."""
        self._read([line for line in self._lines.close() if _is_whole(line)])

    def next_id(self) -> str:
        """The next block id, unlike every call's."""
        block_id = super().next_id()
        while block_id in self._ids:
            block_id = super().next_id()
        self._ids.add(block_id)
        return block_id

    def _introduce(self, wire: Line) -> None:
        self._named = True
        model = without_lone_surrogates(wire.model) if isinstance(wire.model, str) else None
        timestamp = _timestamp(wire.created_at)
        if model or timestamp is not None:
            self.out.append(ResponseMetadata(model or None, timestamp=timestamp))

    def _image(self, image: object) -> None:
        """A picture that the model made, as base64 without its type."""
        try:
            data = base64.b64decode(image if isinstance(image, str) else "?", validate=True)
        except ValueError:
            self.defect("an image is not base64")
            return
        self.out.append(File(image_type(data), data))

    def _call(self, call: Call) -> None:
        function = call.function
        if function is None or not function.name:
            self.defect("a tool call without a name was left out")
            return
        deltas, invalid = _arguments(function.arguments)
        if len(deltas.encode("utf-8", "replace")) > self.limits.max_tool_input_bytes:
            limit = self.limits.max_tool_input_bytes
            self.fail(LimitExceeded(f"the input of {function.name!r} is longer than {limit} bytes"))
            return
        self.end_reasoning()
        self.end_text()
        call_id = self._call_id(call.id)
        name = without_lone_surrogates(function.name)
        self.out.append(ToolInputStart(name, call_id))
        if deltas:
            self.out.append(ToolInputDelta(deltas, call_id))
        self.out.append(ToolInputEnd(call_id))
        self.out.append(ToolCall(name, deltas or "{}", call_id, invalid=invalid))
        self._called = True

    def _call_id(self, given: str | int | None) -> str:
        """The vendor's id where it tells the calls apart, else one of ours."""
        call_id = "" if given is None else without_lone_surrogates(str(given))
        while not call_id or call_id in self._ids:
            call_id = self._new_id()
        self._ids.add(call_id)
        self.hold(sys.getsizeof(call_id) + _NAME_BYTES)
        return call_id

    def _finish(self, wire: Line) -> None:
        self.complete = self.done = True
        self.usage = _usage(wire)
        said = wire.done_reason
        raw = without_lone_surrogates(said) if isinstance(said, str) and said else None
        reason: FinishReason = "unknown" if raw is None else FINISH_REASONS.get(raw, "other")
        if self._called and reason != "length":
            reason = "tool-calls"
        self.end_reasoning()
        self.end_text()
        said = None if self._logprobs is None else self._logprobs.of_rest()
        self.out.append(Finish(reason, self.usage, raw, said))


def _arguments(arguments: Any) -> tuple[str, bool]:
    """The input's JSON text, "" for none, and whether it is broken.

    A string holds the JSON text, as some servers that imitate Ollama send it.
    """
    if isinstance(arguments, msgspec.Raw):
        text = bytes(arguments).strip().decode("utf-8", "replace")
    else:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    if text.startswith('"'):
        text = json.loads(text)
    if text.strip() in ("", "null"):
        return "", False
    return text, not _is_json(text.encode("utf-8", "replace"))


def _is_whole(line: bytes) -> bool:
    """Whether a line is all there; what else may be wrong with it is for later."""
    try:
        json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data.decode("utf-8", "replace"))
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return True


def _count(value: Any) -> int | None:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return int(value) if value == value // 1 else None


def _usage(wire: Line) -> Usage:
    """The counts of the last line; the prompt's is left out where all of it was cached."""
    raw = {name: value for name in USAGE_FIELDS if (value := _count(getattr(wire, name))) is not None}
    given, made = _count(wire.prompt_eval_count), _count(wire.eval_count)
    total = given + made if given is not None and made is not None else None
    return Usage(given, made, total, raw=raw or None)


def _timestamp(value: Any) -> datetime.datetime | None:
    if not isinstance(value, str):
        return None
    try:
        return msgspec.convert(value, datetime.datetime)
    except (msgspec.ValidationError, ValueError):
        return None
