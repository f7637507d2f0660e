"""Parts of a Gemini answer as events: runs of text become blocks, calls and files stand alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.dialects.base import Limits
from llmstream.dialects.call_ids import mint_call_id
from llmstream.dialects.decoder import Framing
from llmstream.dialects.gemini.call_decoder import CallDecoder
from llmstream.dialects.gemini.wire import Blob, Part
from llmstream.dialects.google_media import base64_bytes
from llmstream.events import (
    Custom,
    File,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningFile,
    ReasoningStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["CODE_EXECUTION", "KEY", "PartDecoder"]

KEY: Final = "google"
"""The key of all metadata of this dialect, whoever serves it."""

CODE_EXECUTION: Final = "code_execution"
"""What we call the tool behind `executableCode` and `codeExecutionResult`."""

_encode = msgspec.json.Encoder().encode


class PartDecoder(CallDecoder):
    """The part of the decoder that knows parts; what stands around them is its subclass's."""

    def __init__(
        self,
        framing: Framing,
        *,
        provider: str,
        include_raw: bool = False,
        limits: Limits = Limits(),
        new_call_id: Callable[[], str] = mint_call_id,
    ) -> None:
        super().__init__(
            framing, provider=provider, include_raw=include_raw, limits=limits, new_call_id=new_call_id
        )
        self._vendor_calls: dict[str, str] = {}  # wire id -> our id
        self._running: str | None = None  # the vendor's call that has no result yet
        self._settled: set[str] = set()

    def on_part(self, part: Part) -> None:
        """One part."""
        if part.text is not None:
            self._prose(part)
        if part.function_call is not None:
            self.function_call(part.function_call, _signed(part))
        elif part.inline_data is not None:
            self._file(part, part.inline_data)
        elif part.file_data is not None:
            self._file(part, part.file_data)
        elif part.executable_code is not None:
            self._code(part.executable_code, _signed(part))
        elif part.code_execution_result is not None:
            self._code_result(part.code_execution_result, _signed(part))
        elif part.tool_call is not None:
            self._vendor_call(part.tool_call, _signed(part))
        elif part.tool_response is not None:
            self._vendor_result(part.tool_response, _signed(part))
        elif part.text is None and part.thought_signature:
            self._prose(part)

    # text and reasoning

    def _prose(self, part: Part) -> None:
        """A signed part is a block of its own: the vendor takes it back only as it was."""
        text = part.text or ""
        if not part.thought_signature:
            if part.thought:
                self.reasoning(text)
            else:
                self.text(text)
            return
        self.end_prose()
        block_id, signed = self.next_id(), _signed(part)
        if part.thought:
            self.out.append(ReasoningStart(block_id, signed))
            if text:
                self.out.append(ReasoningDelta(text, block_id))
            self.out.append(ReasoningEnd(block_id, provider_metadata=signed))
        else:
            self.out.append(TextStart(block_id, signed))
            if text:
                self.out.append(TextDelta(text, block_id))
            self.out.append(TextEnd(block_id, provider_metadata=signed))

    # files

    def _file(self, part: Part, blob: Blob) -> None:
        self.end_prose()
        data: bytes | str
        if blob.data is not None:
            try:
                data = base64_bytes(blob.data)
            except ValueError as error:
                self.defect(f"the data of a file is not base64: {error}")
                return
        elif blob.file_uri and ":" in blob.file_uri:
            data = blob.file_uri
        else:
            self.defect("a file has neither data nor an address")
            return
        kind = ReasoningFile if part.thought else File
        self.out.append(kind(blob.mime_type or "application/octet-stream", data, _signed(part)))

    # tools that the vendor runs

    def _code(self, code: dict[str, Any], metadata: Metadata | None) -> None:
        given = {key: value for key, value in code.items() if key != "id"}
        self._vendor_tool(code.get("id"), CODE_EXECUTION, given, metadata)

    def _vendor_call(self, call: dict[str, Any], metadata: Metadata | None) -> None:
        args = call.get("args")
        own = {"tool_type": call.get("toolType")}
        metadata = {KEY: {**own, **(metadata or {}).get(KEY, {})}}
        self._vendor_tool(call.get("id"), _tool_name(call), {} if args is None else args, metadata)

    def _vendor_tool(self, wire_id: Any, name: str, given: Any, metadata: Metadata | None) -> None:
        self.end_prose()
        call_id = self.fresh(str(wire_id) if wire_id else self.new_call_id())
        if wire_id:
            self._vendor_calls[str(wire_id)] = call_id
        self._running = call_id
        text = _encode(given).decode()
        self.out.append(ToolInputStart(name, call_id, provider_executed=True, provider_metadata=metadata))
        self.out.append(ToolInputDelta(text, call_id))
        self.out.append(ToolInputEnd(call_id))
        self.out.append(ToolCall(name, text, call_id, provider_executed=True, provider_metadata=metadata))

    def _code_result(self, result: dict[str, Any], metadata: Metadata | None) -> None:
        given = {key: value for key, value in result.items() if key != "id"}
        failed = given.get("outcome") not in ("OUTCOME_OK", None)
        if self._vendor_outcome(result.get("id"), CODE_EXECUTION, given, failed, metadata):
            return
        self.out.append(
            Custom(f"{KEY}.code_execution_result", {KEY: {**result, **(metadata or {}).get(KEY, {})}})
        )

    def _vendor_result(self, result: dict[str, Any], metadata: Metadata | None) -> None:
        own = {"tool_type": result.get("toolType")}
        metadata = {KEY: {**own, **(metadata or {}).get(KEY, {})}}
        given = result.get("response", {})
        if not self._vendor_outcome(result.get("id"), _tool_name(result), given, False, metadata):
            self.out.append(Custom(f"{KEY}.tool_response", {KEY: {**result, **metadata[KEY]}}))

    def _vendor_outcome(
        self, wire_id: Any, name: str, given: Any, failed: bool, metadata: Metadata | None
    ) -> bool:
        """The result of the call it names, or of the last one; False where that has a result already."""
        self.end_prose()
        call_id = self._vendor_calls.get(str(wire_id)) if wire_id else None
        call_id = call_id or self._running
        if call_id is None or call_id in self._settled:
            return False
        self._settled.add(call_id)
        self.out.append(
            ToolResult(given, call_id, name, failed, provider_executed=True, provider_metadata=metadata)
        )
        return True


def _signed(part: Part) -> Metadata | None:
    return {KEY: {"thought_signature": part.thought_signature}} if part.thought_signature else None


def _tool_name(wire: dict[str, Any]) -> str:
    return str(wire.get("toolType") or "tool").lower()
