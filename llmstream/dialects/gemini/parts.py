"""Maps the parts of a Gemini response to events: runs of text become blocks, calls and files stand alone."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.blocks import Block, Blocks
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.gemini.partial_args import ArgumentsText
from llmstream.dialects.gemini.wire import CODE_EXECUTION, Blob, FunctionCall, Part
from llmstream.dialects.google import KEY, SIDE_FIELDS, TRANSCRIPTION
from llmstream.dialects.media import base64_bytes
from llmstream.errors import DecodeError
from llmstream.events import (
    Custom,
    File,
    Metadata,
    ReasoningFile,
    ToolResult,
)

__all__ = ["FunctionCalls", "Parts", "holds_more", "snake"]

_side_values = operator.attrgetter(*SIDE_FIELDS)
_NOTHING_BESIDE: Final = (None,) * len(SIDE_FIELDS)

_CONTENT_FIELDS: Final = (
    "function_call",
    "inline_data",
    "file_data",
    "executable_code",
    "code_execution_result",
    "tool_call",
    "tool_response",
    "function_response",
)
_encode = msgspec.json.Encoder().encode
# Shows which file it was; base64 would show nothing.
_EXCERPT_BYTES: Final = 200


def snake(name: str) -> str:
    """Converts a name of the wire to ours: `googleSearch` is `google_search`."""
    return re.sub(r"(?<=[a-z0-9])([A-Z])", lambda m: "_" + m.group(1).lower(), name)


class Parts:
    """The parts of one response.

    new_call_id: makes the ids of calls that come without one

    has_text: whether there has been any text other than a transcription
    """

    def __init__(
        self,
        reader: PayloadDecoder[Any],
        blocks: Blocks[Block],
        calls: FunctionCalls,
        new_call_id: Callable[[], str],
    ) -> None:
        self.has_text = False
        self._reader = reader
        self._blocks = blocks
        self._calls = calls
        self._new_call_id = new_call_id
        self._vendor_calls: dict[str, str] = {}  # wire id -> our id
        self._running: str | None = None  # the vendor's call that has no result yet
        self._settled: set[str] = set()

    def read(self, part: Part) -> None:
        """Maps one part to events. It holds one thing as a rule; if there are more, none is lost."""
        beside = _beside(part)
        if part.audio_transcription is not None:
            self._transcription(part, part.audio_transcription, beside)
        elif part.text is not None or (beside is not None and not holds_more(part)):
            self._prose(part.text or "", bool(part.thought), beside)
        if part.function_call is not None:
            self._calls.read(part.function_call, beside)
        if part.inline_data is not None:
            self._file(part, part.inline_data, beside)
        if part.file_data is not None:
            self._file(part, part.file_data, beside)
        if part.executable_code is not None:
            self._code(part.executable_code, beside)
        if part.code_execution_result is not None:
            self._code_result(part.code_execution_result, beside)
        if part.tool_call is not None:
            self._vendor_call(part.tool_call, beside)
        if part.tool_response is not None:
            self._vendor_result(part.tool_response, beside)
        if part.function_response is not None:
            self.custom("function_response", part.function_response, beside)

    def custom(self, kind: str, inner: Any, beside: Metadata | None = None) -> None:
        """Emits a part that only this vendor knows."""
        self._blocks.close_prose()
        fields = inner if isinstance(inner, dict) else {"value": inner}
        self._reader.out.append(Custom(f"{KEY}.{kind}", {KEY: {**fields, **(beside or {}).get(KEY, {})}}))

    # Text and reasoning.

    def _prose(self, text: str, thought: bool, beside: Metadata | None) -> None:
        # A part with other fields is a separate block: the vendor wants it back unchanged.
        if not thought and text.strip():
            self.has_text = True
        if beside is not None:
            self._block(text, thought, beside)
        elif thought:
            self._blocks.reasoning(text)
        else:
            self._blocks.text(text)

    def _block(self, text: str, thought: bool, beside: Metadata) -> None:
        """Emits a part as a block. A signature is metadata of only this block."""
        self._blocks.close_prose()
        signed = beside if not text or "thought_signature" in beside[KEY] else None
        rest = {name: value for name, value in beside[KEY].items() if name != "thought_signature"}
        block = Block("reasoning" if thought else "text", self._blocks.next_id(), metadata=signed)
        if not self._blocks.open(None, block):
            return
        if text:
            self._blocks.delta(block, text, {KEY: rest} if rest else None)
        self._blocks.close(None)

    def _transcription(self, part: Part, transcription: Any, beside: Metadata | None) -> None:
        """Emits a transcription: as text, unless the response has the text beside or before it."""
        # gemini-3.5-transcribe sends parts without `text`, one for each segment of a speaker (seen 2026-09).
        fields = transcription if isinstance(transcription, dict) else {"value": transcription}
        spoken = fields.get("text")
        if part.text:
            text, rest = part.text, fields
        elif isinstance(spoken, str) and spoken and not self.has_text:
            text, rest = spoken, {key: value for key, value in fields.items() if key != "text"}
        else:
            self.custom(TRANSCRIPTION, fields, beside)
            return
        if rest:
            beside = {KEY: {TRANSCRIPTION: rest, **(beside or {}).get(KEY, {})}}
        has_text = self.has_text
        self._prose(text, bool(part.thought), beside)
        # A transcription is not text of the model: the segments after it become text too.
        self.has_text = has_text

    # Files.

    def _file(self, part: Part, blob: Blob, beside: Metadata | None) -> None:
        self._blocks.close_prose()
        data: bytes | str
        if blob.data is not None:
            try:
                data = base64_bytes(blob.data)
            except ValueError as error:
                self._reader.defect(f"the data of a file is not base64: {error}")
                return
        elif blob.file_uri and ":" in blob.file_uri:
            data = blob.file_uri
        else:
            encoded = _encode(blob)
            excerpt = encoded[:_EXCERPT_BYTES].decode("utf-8", "replace")
            self._reader.defect(f"a file has neither data nor an address. It holds: {excerpt}")
            if blob.file_uri:
                self.custom("file_data", msgspec.json.decode(encoded), beside)
            return
        if blob.display_name is not None:
            beside = {KEY: {"display_name": blob.display_name, **(beside or {}).get(KEY, {})}}
        kind = ReasoningFile if part.thought else File
        self._reader.out.append(kind(blob.mime_type or "application/octet-stream", data, beside))

    # Tools that the vendor runs.

    def _code(self, code: dict[str, Any], metadata: Metadata | None) -> None:
        given = {key: value for key, value in code.items() if key != "id"}
        self._vendor_tool(code.get("id"), CODE_EXECUTION, given, metadata)

    def _vendor_call(self, call: dict[str, Any], metadata: Metadata | None) -> None:
        args = call.get("args")
        own = {"tool_type": call.get("toolType")}
        metadata = {KEY: {**own, **(metadata or {}).get(KEY, {})}}
        self._vendor_tool(call.get("id"), _tool_name(call), {} if args is None else args, metadata)

    def _vendor_tool(self, wire_id: Any, name: str, given: Any, metadata: Metadata | None) -> None:
        self._blocks.close_prose()
        call_id = self._blocks.fresh_id(str(wire_id) if wire_id else self._new_call_id())
        if wire_id:
            self._vendor_calls[str(wire_id)] = call_id
        self._running = call_id
        self._blocks.complete_call(name, call_id, _encode(given).decode(), metadata, provider_executed=True)

    def _code_result(self, result: dict[str, Any], metadata: Metadata | None) -> None:
        given = {key: value for key, value in result.items() if key != "id"}
        failed = given.get("outcome") not in ("OUTCOME_OK", None)
        if self._vendor_outcome(result.get("id"), CODE_EXECUTION, given, failed, metadata):
            return
        self.custom("code_execution_result", result, metadata)

    def _vendor_result(self, result: dict[str, Any], metadata: Metadata | None) -> None:
        own = {"tool_type": result.get("toolType")}
        metadata = {KEY: {**own, **(metadata or {}).get(KEY, {})}}
        given = result.get("response", {})
        if not self._vendor_outcome(result.get("id"), _tool_name(result), given, False, metadata):
            self.custom("tool_response", result, metadata)

    def _vendor_outcome(
        self, wire_id: Any, name: str, given: Any, failed: bool, metadata: Metadata | None
    ) -> bool:
        """Emits the result of the call with this id, else of the last one; False if that has a result."""
        self._blocks.close_prose()
        call_id = self._vendor_calls.get(str(wire_id)) if wire_id else None
        call_id = call_id or self._running
        if call_id is None or call_id in self._settled:
            return False
        self._settled.add(call_id)
        self._reader.out.append(
            ToolResult(given, call_id, name, failed, provider_executed=True, provider_metadata=metadata)
        )
        return True


def _beside(part: Part) -> Metadata | None:
    """Returns the fields beside the content of a part, as metadata."""
    values = _side_values(part)
    if values == _NOTHING_BESIDE:
        return None
    fields = {name: value for name, value in zip(SIDE_FIELDS, values, strict=True) if value is not None}
    if fields.get("thought_signature") == "":
        del fields["thought_signature"]
    return {KEY: fields} if fields else None


def holds_more(part: Part) -> bool:
    """Whether a part holds anything but text."""
    return any(getattr(part, name) is not None for name in _CONTENT_FIELDS)


def _tool_name(wire: dict[str, Any]) -> str:
    return str(wire.get("toolType") or "tool").lower()


# Calls of the caller's tools: in one piece, or streamed value by value.


class OpenCall(Block):
    """A call whose arguments are still streaming, until it is `over`."""

    text: ArgumentsText = msgspec.field(default_factory=ArgumentsText)
    over: bool = False


class _OpenCalls:
    """The calls whose arguments are streaming, by order and by id.

    Each call is added and removed once, so that many calls take linear time.
    """

    def __init__(self) -> None:
        self._latest: list[OpenCall] = []
        self._unnamed: list[OpenCall] = []
        self._by_wire_id: dict[str, list[OpenCall]] = {}

    def add(self, opened: OpenCall) -> None:
        """Adds a call."""
        self._latest.append(opened)
        if not opened.wire_id:
            self._unnamed.append(opened)
        else:
            self._by_wire_id.setdefault(opened.wire_id, []).append(opened)

    def latest(self, wire_id: str | None) -> OpenCall | None:
        """Returns the open call that began last, of all or with an id."""
        calls = self._latest if wire_id is None else self._by_wire_id.get(wire_id, [])
        # A call that ended stays in the list until it is the last one: removing it from the middle would
        # search.
        while calls and calls[-1].over:
            calls.pop()
        return calls[-1] if calls else None

    def end(self, opened: OpenCall) -> None:
        """Marks a call as complete."""
        opened.over = True
        for wire_id in {None, opened.wire_id or None}:
            # Drops the complete ones.
            self.latest(wire_id)

    def take(self, *, named: bool) -> list[OpenCall]:
        """Removes and returns open calls: those without an id, or all."""
        calls = self._latest if named else self._unnamed
        if not calls:
            return []
        open_calls = [opened for opened in calls if not opened.over]
        self._unnamed = []
        if named:
            self._latest, self._by_wire_id = [], {}
        for opened in open_calls:
            opened.over = True
        return open_calls


class FunctionCalls:
    """The calls of one response, as blocks.

    new_call_id: makes the ids of calls that come without one
    """

    def __init__(
        self, reader: PayloadDecoder[Any], blocks: Blocks[Block], new_call_id: Callable[[], str]
    ) -> None:
        self._reader = reader
        self._blocks = blocks
        self._new_call_id = new_call_id
        self._streaming = _OpenCalls()
        self._before: frozenset[str] = frozenset()  # ids of the responses before this one

    def read(self, call: FunctionCall, metadata: Metadata | None) -> None:
        """Reads a call, or more of one that is streaming."""
        given = call.id
        wire_id = None if given is None or given == "" else str(given)
        if call.name:
            if self._before and wire_id in self._before:
                self._repeated(call, wire_id)
                return
            # Another call begins: the ones before it are complete, unless ids distinguish them.
            for opened in self._streaming.take(named=wire_id is None):
                self._complete(opened)
            if call.partial_args is None and call.will_continue is not True:
                self._complete_call(call, call.name, wire_id, metadata)
            else:
                self._begin(call, call.name, wire_id, metadata)
            return
        open_call = self._streaming.latest(wire_id)
        if open_call is None:
            if call.args is not None or call.partial_args:
                self._reader.defect("a function call came without a name. It was left out.")
            return
        if metadata is not None:
            known = open_call.metadata or {}
            # The first value applies: a later fragment may add metadata, but not replace any.
            open_call.metadata = {key: {**own, **known.get(key, {})} for key, own in metadata.items()}
        self._continue(open_call, call)

    def expect_repeats(self) -> None:
        """Prepares for another response, which may repeat calls of this one."""
        self._before = self._blocks.ids.names()

    def complete_all(self) -> None:
        """Completes all calls at the end of the response."""
        # Vertex AI may omit the end of the last call.
        for opened in self._streaming.take(named=True):
            self._complete(opened)

    def _complete_call(
        self, call: FunctionCall, name: str, wire_id: str | None, metadata: Metadata | None
    ) -> None:
        call_id, args = self._blocks.ids.fresh(wire_id or self._new_call_id()), call.args
        if type(args) is str:  # already JSON text
            self._blocks.complete_call(name, call_id, args, metadata)
        else:
            text = "" if args is None else _encode(args).decode()
            self._blocks.complete_call(name, call_id, text, metadata, is_known_json=True)

    def _begin(self, call: FunctionCall, name: str, wire_id: str | None, metadata: Metadata | None) -> None:
        self._blocks.close_prose()
        call_id = self._blocks.ids.fresh(wire_id or self._new_call_id())
        opened = OpenCall("tool", call_id, name, wire_id or "", metadata=metadata)
        if not self._blocks.open(call_id, opened):
            return
        self._streaming.add(opened)
        if call.partial_args is not None:
            self._continue(opened, call)

    def _continue(self, opened: OpenCall, call: FunctionCall) -> None:
        """Adds values; a fragment without any means that the call is complete."""
        continues = call.will_continue is True
        for piece in call.partial_args or ():
            if piece is None:
                continue
            continues = continues or piece.will_continue is True
            if opened.text.broken:
                continue
            try:
                text = opened.text.add(piece)
            except DecodeError as error:
                # Later pieces would be appended after a gap. The call is reported as invalid, instead of
                # running with the rest.
                opened.text.broken = True
                self._reader.defect(f"the arguments of {opened.name!r} cannot be joined: {error.message}")
            else:
                if text:
                    self._blocks.input(opened, text)
            if self._reader.done:
                return
        if not continues:
            self._streaming.end(opened)
            self._complete(opened)

    def _repeated(self, call: FunctionCall, wire_id: str | None) -> None:
        """A call that was still open continues; one that was complete has been emitted."""
        opened = self._streaming.latest(wire_id)
        if opened is not None and call.args is None:
            self._continue(opened, call)

    def _complete(self, opened: OpenCall) -> None:
        rest = opened.text.close()
        if rest:
            self._blocks.input(opened, rest)
        opened.invalid = opened.text.broken
        self._blocks.close(opened.id)
