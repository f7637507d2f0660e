"""Maps calls of a response to events: functions, custom tools and the vendor's own, with their results."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.json_text import is_json, without_lone_surrogates
from llmstream.dialects.openai_responses.items import (
    RESULT_ITEMS,
    as_text,
    call_facts,
    has_result,
    input_layout,
    is_call_item,
    may_wrap,
    quoted,
    wrapped_calls,
)
from llmstream.dialects.openai_responses.prose_items import (
    INPUT,
    Messages,
    OpenItem,
    OpenItems,
    Slot,
    Sources,
)
from llmstream.dialects.openai_responses.wire import KEY, WireEvent, extras_of, listed_sources
from llmstream.dialects.payload_size import utf8_size
from llmstream.errors import LimitExceeded
from llmstream.events import (
    ToolApprovalRequest,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
)

__all__ = ["CALL_EVENTS", "Calls"]

# Items whose call goes back as plain fields; all others go back as the complete item.
_STREAMED: Final = frozenset({"function_call", "custom_tool_call"})

# Fields of a draft of an image.
_DRAFT: Final = (
    *("partial_image_b64", "partial_image_index"),
    *("output_format", "size", "quality", "background"),
)

# The field with the input of an item; of other items, any of the fields is accepted.
_ANY_INPUT: Final = ("arguments", "input", "code")
_INPUT_NAMES: Final = {
    "function_call": ("arguments",),
    "mcp_call": ("arguments",),
    "custom_tool_call": ("input",),
    "code_interpreter_call": ("code",),
}


class Calls:
    """The calls of a response.

    client_called: whether there are calls for the caller to run
    """

    def __init__(
        self, reader: PayloadDecoder[Any], items: OpenItems, messages: Messages, sources: Sources
    ) -> None:
        self.client_called = False
        self._reader = reader
        self._items = items
        self._messages = messages
        self._sources = sources
        self._last_search: str | None = None

    def start(self, item: OpenItem) -> None:
        """Opens the input of a call, once its name is known."""
        item.name, item.wire_id, item.hosted = call_facts(item.wire)
        # What may be a wrapper of parallel calls is shown only when it is known to be none.
        if item.name and not may_wrap(item.wire):
            self._start(item)

    def end(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Handles the complete item of a call; an interrupted call stays open until the finish reason."""
        if item.call_id is None:
            if (inner := wrapped_calls(wire)) is not None:
                self._unwrap(item, wire, inner)
                return
            item.name, item.wire_id, item.hosted = call_facts(item.wire)
            self._update(item, wire)
            if not item.name:
                wire_id = call_facts(wire)[1]
                self._reader.defect(f"the tool call {wire_id!r} has no name. It was left out.")
                item.ended = True
                return
            self._start(item)
        if not item.ended:
            self._update(item, wire)
            # Whether the limit has cut it is known with the end of the response.
            if wire.get("status") == "incomplete" and not item.hosted:
                if item.kind in _STREAMED or not item.parts:
                    self._complete_input(item, input_layout(item.wire).text)
                item.done = False
                return
            self._complete(item)
            self._call(item)
        if item.kind != "function_call":
            self._after_call(item, wire)

    def settle(self, item: OpenItem, *, cut: bool) -> bool:
        """Ends a call whose item has no end; returns whether it is incomplete.

        cut: a limit or a filter ended the response, so the input may be cut even if it is valid JSON
        """
        if item.call_id is None:
            return False
        text = "".join(item.parts) or input_layout(item.wire).text
        complete = INPUT in item.given or (item.kind != "custom_tool_call" and is_json(text or "{}"))
        if not cut and complete and item.wire.get("status") != "incomplete":
            self._complete_input(item, text)
            self._call(item)
            return False
        item.ended = True
        self._reader.out.append(ToolInputEnd(item.call_id, incomplete=True))
        return True

    def result_item(self, wire: dict[str, Any]) -> None:
        """Emits the result of a vendor's call, which is a separate item."""
        kind = str(wire.get("type"))
        call_id = wire.get("call_id") or self._last_search
        if not call_id:
            self._reader.defect(f"a {kind} does not name its call")
            return
        self._result(str(call_id), RESULT_ITEMS[kind], wire)

    def start_event(self, item: OpenItem, call_id: str) -> ToolInputStart:
        """Returns the event that opens the input of a call."""
        kind, hosted = item.kind, item.hosted
        metadata: dict[str, Any] = {"type": kind, **self._items.origin(item)}
        if hosted and kind == "custom_tool_call":
            metadata |= {"call_id": item.wire.get("call_id"), "name": item.wire.get("name")}
        return ToolInputStart(item.name, call_id, hosted, kind.startswith("mcp_"), None, {KEY: metadata})

    # From start to end.

    def _start(self, item: OpenItem) -> None:
        self._messages.close_all()
        # Some servers change ids between the start and the end of an item.
        item.first_id = item.wire_id
        item.call_id = self._items.fresh_id(item.first_id or f"call-{self._items.count}")
        self._reader.out.append(self.start_event(item, item.call_id))
        if item.parts:
            waiting, item.parts = item.parts, []
            self._reader.let_go(item.held)
            item.counted = item.size = item.held = 0
            for fragment in waiting:
                self.grow(item, fragment)
        if not item.hosted:
            self.client_called = True
        elif item.kind == "tool_search_call":
            self._last_search = item.call_id

    def _update(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Stores the latest form of an item; together with its first form where that is less."""
        facts = name, wire_id, hosted = call_facts(wire)
        if name and wire_id and hosted == item.hosted:
            item.wire = wire
            self._reader.hold(self._reader.held_of(wire))
        else:
            item.wire = {**item.wire, **wire}
            facts = call_facts(item.wire)
        item.name, item.wire_id, item.hosted = facts

    def _input(self, item: OpenItem, fragment: object, *, quote: bool = False) -> None:
        """Adds a fragment of input; with quote, it is text to put inside a JSON string."""
        if item.ended:
            return
        text = as_text(fragment)
        if not item.parts:
            head = input_layout(item.wire).head
            if head:
                self.grow(item, head)
        self.grow(item, quoted(text) if quote else text)

    def _complete_input(self, item: OpenItem, text: str) -> None:
        """Compares the complete input with the fragments; emits the end that they omitted."""
        if item.compared is not None and item.compared == text:
            # Fragments are only added, so the result of the last comparison still holds.
            return
        item.compared = text
        if 2 * utf8_size(text) <= item.size:
            # Shorter than the fragments, even if all were halves of surrogate pairs; joining them costs time.
            return
        given = without_lone_surrogates("".join(item.parts))
        # Only the missing rest: emitted fragments cannot be retracted.
        if len(text) > len(given) and text.startswith(given):
            self.grow(item, text[len(given) :])

    def _end_input(self, item: OpenItem) -> None:
        """Emits the call of a vendor's tool whose input is complete, while its item is still open."""
        if item.ended or item.call_id is None or not item.hosted:
            return
        self._complete(item)
        self._call(item)

    def _complete(self, item: OpenItem) -> None:
        """Emits the rest of the input."""
        if item.kind == "function_call":  # as `input_layout`, in fewer steps
            self._complete_input(item, as_text(item.wire.get("arguments")))
            return
        # It may differ from what was streamed: a shell's paths changed at the end (seen 2026-02).
        layout = input_layout(item.wire)
        self._complete_input(item, layout.text)
        if layout.tail and not is_json("".join(item.parts) or "{}"):
            self.grow(item, layout.tail)

    def grow(self, item: OpenItem, text: str) -> None:
        """Adds a piece of the input of a call."""
        if not text:
            return
        reader = self._reader
        if item.size + utf8_size(text) > reader.limits.max_tool_input_bytes:
            name, most = call_facts(item.wire)[0], reader.limits.max_tool_input_bytes
            reader.fail(LimitExceeded(f"the input of the tool call {name!r} grew past {most} bytes"))
            return
        item.parts.append(text)
        reader.count(item)
        if item.call_id is not None:
            reader.out.append(ToolInputDelta(text, item.call_id))

    def growing(self, item: OpenItem, before: OpenItem | None, most: int) -> OpenItem | None:
        """Begins a run of fragments of a function's arguments; see `PayloadDecoder.growing`."""
        if item.kind == "function_call" and not item.ended and not item.done:
            return self._reader.growing(item, before, most)
        if before is not None:
            self._reader.count(before)
        return None

    def has_input(self, item: OpenItem, arguments: str) -> bool:
        """Whether the complete arguments of a function, sent once more, equal its fragments.

        These are counted by then.
        """
        if (
            not arguments
            or item.kind != "function_call"
            or item.ended
            or item.done
            or INPUT in item.given  # a second time the fragments would be joined again
            or arguments != "".join(item.parts)
        ):
            return False
        item.given.add(INPUT)
        item.compared = arguments
        if item.call_id is not None:  # else each of the fragments becomes an event later
            item.parts, item.counted = [arguments], 1
        return True

    def _call(self, item: OpenItem) -> None:
        if item.call_id is None:
            return
        item.ended = True
        call_id, kind, text = item.call_id, item.kind, "".join(item.parts)
        invalid = bool(text) and kind != "custom_tool_call" and not is_json(text)
        metadata, dynamic = {KEY: self._call_metadata(item, text)}, kind.startswith("mcp_")
        self._reader.out.append(ToolInputEnd(call_id))
        self._reader.out.append(
            ToolCall(item.name, text or "{}", call_id, item.hosted, dynamic, invalid, metadata)
        )

    def _call_metadata(self, item: OpenItem, text: str) -> dict[str, Any]:
        """Returns the metadata that the vendor wants back with the call."""
        metadata: dict[str, Any] = {"type": item.kind, **self._items.origin(item)}
        if item.kind in _STREAMED:
            metadata |= extras_of(item.wire)
            if item.wire_id and item.wire_id != item.first_id:
                # The output has to name the latest id of the item.
                metadata["call_id"] = item.wire_id
            if item.kind == "custom_tool_call" and not text:
                metadata["input"] = ""
        elif not has_result(item.wire):
            metadata["item"] = item.wire
        return metadata

    def _after_call(self, item: OpenItem, wire: dict[str, Any]) -> None:
        """Emits the approval that a call needs, or the result that its item has."""
        if item.call_id is None:
            return
        if item.kind == "mcp_approval_request":
            self._reader.out.append(ToolApprovalRequest(item.call_id, item.item_id or item.call_id))
        elif has_result(item.wire):
            self._result(item.call_id, item.name, wire)
            for url in listed_sources(wire):
                self._sources.listed(url)

    def _result(self, call_id: str, name: str, wire: dict[str, Any]) -> None:
        failed = wire.get("status") in ("failed", "incomplete") or bool(wire.get("error"))
        metadata = {KEY: {"type": wire.get("type"), "provider": self._reader.provider}}
        self._reader.out.append(
            ToolResult(wire, call_id, name, failed, provider_executed=True, provider_metadata=metadata)
        )

    def _unwrap(self, item: OpenItem, wire: dict[str, Any], calls: list[tuple[str, str]]) -> None:
        """Emits the calls inside a wrapper, each with an id that other vendors accept as well."""
        self._messages.close_all()
        self.client_called = True
        item.ended = True
        for place, (name, text) in enumerate(calls):
            call_id = self._items.fresh_id(f"{call_facts(wire)[1] or 'call'}_{place}")
            self._reader.out += [
                ToolInputStart(name, call_id),
                ToolInputDelta(text, call_id),
                ToolInputEnd(call_id),
                ToolCall(name, text, call_id),
            ]

    # Events of the wire.

    def _open_call(self, wire: WireEvent) -> OpenItem | None:
        """Returns the call that an event names, while its item is open."""
        item = self._items.find(wire)
        return item if item is not None and is_call_item(item.wire) and not item.done else None

    def _on_input(self, wire: WireEvent) -> None:
        item = self._open_call(wire)
        if item is not None:
            self._input(item, wire.delta)

    def _on_quoted_input(self, wire: WireEvent) -> None:
        item = self._open_call(wire)
        if item is not None:
            self._input(item, wire.delta, quote=True)

    def _on_input_done(self, wire: WireEvent) -> None:
        item = self._open_call(wire)
        if item is None or item.ended:
            return
        names = _INPUT_NAMES.get(item.kind, _ANY_INPUT)
        found = {name: value for name in names if (value := getattr(wire, name)) is not None}
        again = INPUT in item.given
        if again and not found:
            return
        item.wire = {**item.wire, **found}
        self._reader.hold(self._reader.held_of(found))
        item.given.add(INPUT)
        text = input_layout(item.wire).text
        self._complete_input(item, text)
        if (
            item.kind == "mcp_call"
            and (not again or utf8_size(text) >= item.size)
            and is_json("".join(item.parts))
        ):
            self._end_input(item)

    def _on_diff_done(self, wire: WireEvent) -> None:
        item = self._items.find(wire)
        if item is not None and item.kind == "apply_patch_call" and not item.parts and wire.diff is not None:
            self._input(item, wire.diff, quote=True)

    def _on_command(self, wire: WireEvent) -> None:
        """Handles the commands of a shell: strings of a list, each with separate events."""
        item = self._items.find(wire)
        if item is None or item.kind != "shell_call" or item.done:
            return
        slot: Slot = ("command", wire.command_index or 0)
        if wire.delta is not None:
            self._items.note(item, slot)
            self._input(item, wire.delta, quote=True)
        elif wire.type == "response.shell_call_command.added":
            self._input(item, ',"' if wire.command_index else '"')
        else:
            if slot not in item.given:
                self._input(item, wire.command, quote=True)
            self._input(item, '"')

    def _on_run(self, wire: WireEvent) -> None:
        """Handles the start of a vendor's call, whose input is then complete."""
        # Except for OpenAI's searches, whose queries arrive later.
        item = self._open_call(wire)
        if item is None:
            return
        if not item.kind.endswith("_search_call") or item.wire.get("action") or item.wire.get("queries"):
            self._end_input(item)

    def _on_partial_image(self, wire: WireEvent) -> None:
        """Emits a draft of an image as a preliminary result."""
        item = self._items.find(wire)
        if item is None or item.kind != "image_generation_call" or item.done:
            return
        fields = {name: getattr(wire, name) for name in _DRAFT}
        draft = {name: value for name, value in fields.items() if value is not None}
        self._end_input(item)
        if item.call_id is not None:
            result = ToolResult(draft, item.call_id, item.name, preliminary=True, provider_executed=True)
            self._reader.out.append(result)


_C = Calls
CALL_EVENTS: Final[dict[str, Callable[[Calls, WireEvent], None]]] = {
    "response.function_call_arguments.delta": _C._on_input,
    "response.function_call_arguments.done": _C._on_input_done,
    "response.custom_tool_call_input.delta": _C._on_input,
    "response.custom_tool_call_input.done": _C._on_input_done,
    "response.mcp_call_arguments.delta": _C._on_input,
    "response.mcp_call_arguments.done": _C._on_input_done,
    "response.code_interpreter_call_code.delta": _C._on_quoted_input,
    "response.code_interpreter_call_code.done": _C._on_input_done,
    "response.web_search_call.searching": _C._on_run,
    "response.file_search_call.searching": _C._on_run,
    "response.code_interpreter_call.interpreting": _C._on_run,
    "response.image_generation_call.generating": _C._on_run,
    "response.image_generation_call.partial_image": _C._on_partial_image,
    "response.apply_patch_call_operation_diff.delta": _C._on_quoted_input,
    "response.apply_patch_call_operation_diff.done": _C._on_diff_done,
    "response.shell_call_command.added": _C._on_command,
    "response.shell_call_command.delta": _C._on_command,
    "response.shell_call_command.done": _C._on_command,
}
