"""Decodes the lines of an Ollama chat stream into events."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import UNREADABLE, PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.dialects.media import image_type
from llmstream.dialects.ollama.wire import (
    FINISH_REASONS,
    USAGE_FIELDS,
    Call,
    Line,
    RepairedLine,
    decode_line,
    decode_plain_line,
)
from llmstream.dialects.wire_values import iso_time, token_count
from llmstream.events import (
    File,
    FinishReason,
    ResponseMetadata,
    TextDelta,
    Usage,
)
from llmstream.framing.ndjson import NDJSONDecoder

__all__ = ["OllamaDecoder"]


class OllamaDecoder(PayloadDecoder[Line[Any]]):
    """Decodes one response: thinking as reasoning, content as text, a complete call in one line.

    new_id: makes ids for calls without one
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
        self._type = RepairedLine
        self._new_id = new_id
        self._blocks = Blocks(self, Block, key=provider)
        self._named = False

    def _read(self, payloads: list[bytes]) -> None:
        """Decodes lines. A measured hot loop: a piece of the open text becomes its delta here."""
        if not self._tries_plain:
            super()._read(payloads)
            return
        out, blocks, decode, misses = self.out, self._blocks, decode_plain_line.decode, 0
        read_other = self._read_one
        for payload in payloads:
            text_id = blocks.text_id
            # Outside of an open text the line may begin a block, and has the name of the model.
            if text_id is not None:
                try:
                    line = decode(payload)
                except UNREADABLE:
                    misses += 1
                else:
                    if not line.done and (text := line.message.content):
                        out.append(TextDelta(text, text_id))
                        continue
            read_other(payload)
            if self.done:
                return
        if misses or self._misses:
            self._count_misses(misses, len(payloads))

    def on(self, wire: Line[Any]) -> None:
        """Maps one line to events."""
        if wire.error:
            self.fail(error_from_value({"error": wire.error}, provider=self.provider))
            return
        if not self._named:
            self._introduce(wire)
        if wire.logprobs:
            self._blocks.add_logprobs(wire.logprobs)
        message = wire.message
        if message is not None:
            if message.thinking:
                self._blocks.reasoning(message.thinking)
            if message.content:
                self._blocks.text(message.content)
            for image in message.images if isinstance(message.images, list) else ():
                self._image(image)
            for call in message.tool_calls or ():
                self._call(call)
        if wire.done and not self.done:
            self._finish(wire)

    def end(self) -> None:
        """Decodes a last line without a line feed; an incomplete line is not reported here."""
        # A line that was cut is no defect of the wire: the guard reports that the response is incomplete.
        self._read([line for line in self._lines.close() if _is_complete(line)])

    def _introduce(self, wire: Line[Any]) -> None:
        self._named = True
        model = without_lone_surrogates(wire.model) if isinstance(wire.model, str) else None
        timestamp = iso_time(wire.created_at)
        if model or timestamp is not None:
            self.out.append(ResponseMetadata(model or None, timestamp=timestamp))

    def _image(self, image: object) -> None:
        """Emits an image of the model, which is base64 without a media type."""
        try:
            data = base64.b64decode(image if isinstance(image, str) else "?", validate=True)
        except ValueError:
            self.defect("an image is not base64")
            return
        self.out.append(File(image_type(data), data))

    def _call(self, call: Call[Any]) -> None:
        function = call.function
        if function is None or not function.name:
            self.defect("a tool call without a name was left out")
            return
        name, given = function.name, "" if call.id is None else str(call.id)
        if self._joiner is not None:
            name, given = without_lone_surrogates(name), without_lone_surrogates(given)
        call_id = self._blocks.call_id(given, self._new_id)
        self._blocks.complete_call(name, call_id, _arguments(function.arguments))

    def _finish(self, wire: Line[Any]) -> None:
        self.reported_usage = _usage(wire)
        given = wire.done_reason
        raw = without_lone_surrogates(given) if isinstance(given, str) and given else None
        reason: FinishReason = "unknown" if raw is None else FINISH_REASONS.get(raw, "other")
        self._blocks.finish(reason, raw)


def _arguments(arguments: Any) -> str:
    """Returns the input as JSON text, "" for none.

    Some compatible servers send the JSON text as a string.
    """
    if isinstance(arguments, msgspec.Raw):
        text = str(arguments, "utf-8", "replace").strip()
    else:
        text = json.dumps(arguments, ensure_ascii=False, separators=(",", ":"))
    # A JSON text in a JSON string.
    if text.startswith('"'):
        text = json.loads(text)
    return "" if text.strip() in ("", "null") else text


def _is_complete(line: bytes) -> bool:
    """Whether a line is complete; other defects are found when it is decoded."""
    try:
        json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return False
    return True


def _usage(wire: Line[Any]) -> Usage:
    """Reads the counts of the last line; that of the prompt is missing if all of it was cached."""
    raw = {name: value for name in USAGE_FIELDS if (value := token_count(getattr(wire, name))) is not None}
    given, made = raw.get("prompt_eval_count"), raw.get("eval_count")
    total = given + made if given is not None and made is not None else None
    return Usage(given, made, total, raw=raw or None)
