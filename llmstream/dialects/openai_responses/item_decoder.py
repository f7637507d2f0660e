"""What each event says of an item: opened, grown and closed, in whatever order a server sends it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from llmstream.dialects.decoder import held_size
from llmstream.dialects.json_text import is_json
from llmstream.dialects.openai_responses.items import RESULT_ITEMS, is_call_item, layout_of
from llmstream.dialects.openai_responses.tool_decoder import INPUT, ToolDecoder
from llmstream.dialects.openai_responses.wire import KEY, OpenItem, Slot, WireEvent, pages_of
from llmstream.events import Custom

__all__ = ["ITEM_EVENTS", "ItemDecoder"]

_DRAFT: Final = (
    *("partial_image_b64", "partial_image_index"),
    *("output_format", "size", "quality", "background"),
)
"""Metadata of a picture that is not finished."""


_INPUT_NAMES: Final = {
    "function_call": ("arguments",),
    "mcp_call": ("arguments",),
    "custom_tool_call": ("input",),
    "code_interpreter_call": ("code",),
}
"""Where an item has its input; of items that are not here, any name is taken."""


class ItemDecoder(ToolDecoder):
    """The part of the decoder that reads events of items; the response is its subclass's.

    broken: the input of a call broke off
    """

    broken = False

    def settle(self, item: OpenItem, *, cut: bool = False) -> None:
        """Closes what an item without its end left open; a call that is not whole is none.

        cut: a limit or a filter ended the response
        """
        if item.done or item.ended:
            return
        if item.kind == "message":
            self.close_text(item)
        elif item.kind == "reasoning":
            self.close_reasoning(item, {})
        elif self.settle_call(item, cut=cut):
            self.broken = True
            if not cut:
                self.defect(f"the tool call {item.call_id!r} has no end. It was left out.")

    # Items.

    def _on_added(self, wire: WireEvent) -> None:
        item = wire.item
        if item is None or not isinstance(item.get("type"), str):
            self.defect("an output item came without its type")
            return
        known = self.find(wire)
        if known is not None and not known.done:
            if known.kind == item["type"] and known.wire.get("id") == item.get("id"):
                return
            self.settle(known)
        opened = self.enter(wire, item)
        if opened.kind == "reasoning":
            self.reasoning(opened, ("summary", 0))
        elif is_call_item(item):
            self.start_call(opened)

    def _on_done(self, wire: WireEvent) -> None:
        if wire.item is None:
            self.defect("an output item ended without saying what it is")
            return
        self.item_done(wire)

    def item_done(self, wire: WireEvent) -> None:
        """The item is whole, whether it was streamed or not."""
        item = wire.item or {}
        opened = self.find(wire)
        if opened is not None and opened.done:
            return
        kind = item.get("type")
        if not isinstance(kind, str):
            kind = "unknown" if opened is None else opened.kind
            item = {**item, "type": kind}
        if opened is not None and opened.kind != kind:
            self.settle(opened)
            opened = None
        if opened is None:
            opened = self.enter(wire, item)
        opened.done = True
        if kind == "message":
            self.end_message(opened, item)
        elif kind == "reasoning":
            self.end_reasoning(opened, item)
        elif is_call_item(item):
            self.end_call(opened, item)
        elif kind in RESULT_ITEMS:
            self.result_item(item)
        else:
            for page in pages_of(item):
                self.page(page)
            said = {"type": kind, "provider": self.provider, "item": item}
            self.out.append(Custom(f"{KEY}.{kind}", {KEY: said}))

    # Messages.

    def message_of(self, wire: WireEvent) -> OpenItem:
        """The message that an event speaks of; a resumed stream may begin inside one."""
        item = self.find(wire)
        if item is None:
            item = self.enter(wire, {"type": "message", "id": wire.item_id})
        return item

    def text_delta(self, wire: WireEvent) -> None:
        """A fragment of text that is more than the next one of an open block."""
        item = self.message_of(wire)
        if item.done or item.kind != "message":
            return
        self.text(item, wire.delta, ("content", wire.content_index or 0), logprobs=wire.logprobs)

    def _on_text_done(self, wire: WireEvent) -> None:
        item, slot = self.message_of(wire), ("content", wire.content_index or 0)
        if item.kind == "message" and not item.done:
            self._rest(item, slot, wire.text, wire.logprobs)

    def _rest(self, item: OpenItem, slot: Slot, text: object, logprobs: list[Any] | None) -> None:
        """A piece of text as a whole: gives it where no fragment came, or its log probabilities alone."""
        if slot not in item.told:
            self.text(item, text, slot, logprobs=logprobs)
        elif not item.logprobs:
            self.keep_logprobs(item, logprobs or [])

    def _on_refusal(self, wire: WireEvent) -> None:
        item, slot = self.message_of(wire), ("content", wire.content_index or 0)
        self.refused = True
        if item.kind == "message" and not item.done and (wire.refusal is None or slot not in item.told):
            self.text(item, wire.refusal if wire.delta is None else wire.delta, slot, refusal=True)

    def _on_part(self, wire: WireEvent) -> None:
        item = self.find(wire)
        kind = wire.part.get("type") if wire.part else None
        if item is None or item.done:
            return
        if item.kind == "message" and item.block is None and kind in ("output_text", "refusal"):
            self.open_text(item, refusal=kind == "refusal")

    def _on_part_done(self, wire: WireEvent) -> None:
        """A piece is whole: it repeats its fragments, unless a server sends none."""
        item, part = self.find(wire), wire.part or {}
        slot: Slot = ("content", wire.content_index or 0)
        if item is None or item.done or item.kind != "message" or not isinstance(wire.content_index, int):
            return
        if part.get("type") == "output_text":
            logprobs = part.get("logprobs")
            self._rest(item, slot, part.get("text"), logprobs if isinstance(logprobs, list) else None)
        elif part.get("type") == "refusal" and slot not in item.told:
            self.text(item, part.get("refusal"), slot, refusal=True)

    def _on_annotation(self, wire: WireEvent) -> None:
        if wire.annotation is not None:
            self.cite(self.message_of(wire), wire.annotation)

    # Reasoning.

    def _on_reasoning(self, wire: WireEvent) -> None:
        """Summaries count by their index; the parts of bare reasoning are one."""
        item = self.find(wire)
        if item is None:
            item = self.enter(wire, {"type": "reasoning", "id": wire.item_id})
        if item.kind != "reasoning" or item.done:
            return
        bare = str(wire.type).startswith("response.reasoning_text")
        slot = ("content", 0) if bare else ("summary", wire.summary_index or 0)
        if wire.delta is not None:
            self.reasoning(item, slot, wire.delta)
        elif wire.text is not None and slot not in item.told:
            self.reasoning(item, slot, wire.text)
        elif wire.part is not None and slot not in item.told:
            self.reasoning(item, slot, wire.part.get("text") if str(wire.type).endswith(".done") else "")

    def _on_thought(self, wire: WireEvent) -> None:
        self.thought(wire.thought)

    # Calls.

    def _on_input(self, wire: WireEvent) -> None:
        item = self.find(wire)
        if item is not None and is_call_item(item.wire) and not item.done:
            self.input(item, wire.delta)

    def _on_quoted_input(self, wire: WireEvent) -> None:
        item = self.find(wire)
        if item is not None and is_call_item(item.wire) and not item.done:
            self.input(item, wire.delta, quote=True)

    def _on_input_done(self, wire: WireEvent) -> None:
        item = self.find(wire)
        if item is None or not is_call_item(item.wire) or item.done or item.ended:
            return
        names = {"arguments": wire.arguments, "input": wire.input, "code": wire.code}
        own = _INPUT_NAMES.get(item.kind, tuple(names))
        said = {name: value for name, value in names.items() if value is not None and name in own}
        again = INPUT in item.told
        if again and not said:
            return
        item.wire = {**item.wire, **said}
        self.hold(held_size(said))
        item.told.add(INPUT)
        text = layout_of(item.wire).text
        self.whole_input(item, text)
        if item.kind == "mcp_call" and (not again or len(text) >= item.size) and is_json("".join(item.parts)):
            self.end_input(item)

    def _on_diff_done(self, wire: WireEvent) -> None:
        item = self.find(wire)
        if item is not None and item.kind == "apply_patch_call" and not item.parts and wire.diff is not None:
            self.input(item, wire.diff, quote=True)

    def _on_command(self, wire: WireEvent) -> None:
        """Commands of a shell: strings of a list, each framed by its own events."""
        item = self.find(wire)
        if item is None or item.kind != "shell_call" or item.done:
            return
        slot: Slot = ("command", wire.command_index or 0)
        if wire.delta is not None:
            self.note(item, slot)
            self.input(item, wire.delta, quote=True)
        elif wire.type == "response.shell_call_command.added":
            self.input(item, ',"' if wire.command_index else '"')
        else:
            if slot not in item.told:
                self.input(item, wire.command, quote=True)
            self.input(item, '"')

    def _on_running(self, wire: WireEvent) -> None:
        """The vendor runs the call, so its input is whole; OpenAI says only later what it searches for."""
        item = self.find(wire)
        if item is None or not is_call_item(item.wire) or item.done:
            return
        if not item.kind.endswith("_search_call") or item.wire.get("action") or item.wire.get("queries"):
            self.end_input(item)

    def _on_partial_image(self, wire: WireEvent) -> None:
        item = self.find(wire)
        if item is not None and item.kind == "image_generation_call" and not item.done:
            draft = {name: getattr(wire, name) for name in _DRAFT}
            said = {name: value for name, value in draft.items() if value is not None}
            self.preliminary(item, said)


_I = ItemDecoder
ITEM_EVENTS: Final[dict[str, Callable[[Any, WireEvent], None]]] = {
    "response.output_text.delta": _I.text_delta,
    "response.output_item.added": _I._on_added,
    "response.output_item.done": _I._on_done,
    "response.content_part.added": _I._on_part,
    "response.content_part.done": _I._on_part_done,
    "response.output_text.done": _I._on_text_done,
    "response.output_text.annotation.added": _I._on_annotation,
    "response.refusal.delta": _I._on_refusal,
    "response.refusal.done": _I._on_refusal,
    "response.reasoning_summary_part.added": _I._on_reasoning,
    "response.reasoning_summary_part.done": _I._on_reasoning,
    "response.reasoning_summary_text.delta": _I._on_reasoning,
    "response.reasoning_summary_text.done": _I._on_reasoning,
    "response.reasoning_text.delta": _I._on_reasoning,
    "response.reasoning_text.done": _I._on_reasoning,
    "response.reasoning.started": _I._on_thought,
    "response.reasoning.search_queries": _I._on_thought,
    "response.reasoning.search_results": _I._on_thought,
    "response.reasoning.fetch_url_queries": _I._on_thought,
    "response.reasoning.fetch_url_results": _I._on_thought,
    "response.reasoning.stopped": _I._on_thought,
    "response.function_call_arguments.delta": _I._on_input,
    "response.function_call_arguments.done": _I._on_input_done,
    "response.custom_tool_call_input.delta": _I._on_input,
    "response.custom_tool_call_input.done": _I._on_input_done,
    "response.mcp_call_arguments.delta": _I._on_input,
    "response.mcp_call_arguments.done": _I._on_input_done,
    "response.code_interpreter_call_code.delta": _I._on_quoted_input,
    "response.code_interpreter_call_code.done": _I._on_input_done,
    "response.web_search_call.searching": _I._on_running,
    "response.file_search_call.searching": _I._on_running,
    "response.code_interpreter_call.interpreting": _I._on_running,
    "response.image_generation_call.generating": _I._on_running,
    "response.image_generation_call.partial_image": _I._on_partial_image,
    "response.apply_patch_call_operation_diff.delta": _I._on_quoted_input,
    "response.apply_patch_call_operation_diff.done": _I._on_diff_done,
    "response.shell_call_command.added": _I._on_command,
    "response.shell_call_command.delta": _I._on_command,
    "response.shell_call_command.done": _I._on_command,
}
"""Those not named here repeat what others say, or are unknown."""
