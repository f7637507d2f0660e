"""A value while it streams: what can be shown of it after each fragment."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream import events as ev
from llmstream.errors import LLMStreamError
from llmstream.partial_json import PartialJSON
from llmstream.structured.modes import ANSWER_KEY
from llmstream.structured.output import Output
from llmstream.structured.partial_value import PartialValues

__all__ = ["Growth"]

_NOTHING: Any = object()

# How many members may be copied for each character that comes: some 0.5 us. So the work is linear in the
# text. A value is shown after every fragment of 16 characters until it has 1,000 members or so; a larger one
# is shown after as much text as pays for the copy.
_EARNED_PER_CHAR: Final = 64

# After how many copied members the loop should have a turn: a few milliseconds.
_TURN_COST: Final = 200_000


class Growth:
    """Events of one response in, values out: each time the value so far, or the elements of a list.

    Elements of a list are yielded once, when they are complete and fit their type. Everything else is yielded
    as it grows, see `PartialValues`, and again only after it has changed; a large value not after every
    fragment, because each time is a copy. Text before the first brace is ignored.

    output: None for JSON without a type, shown as plain values
    """

    def __init__(self, output: Output | None) -> None:
        self._output = output
        self._wrapper = output.wrapper if output is not None else None
        self._by_item = output is not None and output.item_type is not None
        self._opening = "{" if output is None or not self._by_item else "{["
        self._begin()

    def _begin(self) -> None:
        self._parser: PartialJSON | None = None
        self._partial = PartialValues(self._output.type if self._output is not None else Any)
        self._shown: Any = _NOTHING
        self._items = 0
        self._earned = self._turn_at = 0

    def turn_due(self) -> bool:
        """Whether the event loop should have a turn before the next event; then not again for a while."""
        if self._partial.cost < self._turn_at:
            return False
        self._turn_at = self._partial.cost + _TURN_COST
        return True

    def feed(self, event: ev.Event) -> list[Any]:
        """Returns the values that an event adds, mostly none or one."""
        if isinstance(event, ev.TextDelta):
            return self._read(event.delta)
        marked = isinstance(event, ev.TextStart) and ANSWER_KEY in (event.provider_metadata or {}).get(
            "llmstream", {}
        )
        if marked or isinstance(event, ev.StreamStart):
            self._begin()
        return []

    def _read(self, text: str) -> list[Any]:
        parser = self._parser
        if parser is None:
            at = min((i for i in map(text.find, self._opening) if i >= 0), default=-1)
            if at < 0:
                return []
            parser = self._parser = PartialJSON()
            text = text[at:]
        if parser.complete:
            return []
        try:
            parser.feed(text)
        except LLMStreamError:
            pass
        if parser.error is not None:
            if self._shown is _NOTHING and not self._items:
                # A brace in prose.
                self._begin()
            return []
        if self._by_item:
            return self._new_items(parser)
        self._earned += len(text) * _EARNED_PER_CHAR
        if self._partial.cost > self._earned and not parser.complete:
            return []
        return self._new_value(parser)

    def _new_items(self, parser: PartialJSON) -> list[Any]:
        root = parser.value
        items = root.get(self._wrapper) if isinstance(root, dict) else root
        out: list[Any] = []
        if not isinstance(items, list) or self._output is None:
            return out
        while self._items < len(items):
            item = items[self._items]
            if self._items + 1 == len(items) and (parser.growing or parser.is_open(item)):
                break
            self._items += 1
            try:
                out.append(self._output.item(item))
            except (msgspec.MsgspecError, ValueError, TypeError):
                # The error is raised at the end.
                continue
        return out

    def _validated(self, raw: Any) -> Any:
        """Returns the validated value; if it does not fit, what can be shown of it."""
        if self._output is None:
            return raw
        try:
            return self._output.value(raw)
        except (msgspec.MsgspecError, ValueError, TypeError):
            return self._partial.of(raw, self._parser or PartialJSON(), last=True)

    def _new_value(self, parser: PartialJSON) -> list[Any]:
        root = parser.value
        if self._wrapper is not None:
            if not isinstance(root, dict) or self._wrapper not in root:
                return []
            root = root[self._wrapper]
        elif not root:
            return []
        value = self._validated(root) if parser.complete else self._partial.of(root, parser, last=True)
        if value is msgspec.UNSET or (type(value) is type(self._shown) and value == self._shown):
            return []
        self._shown = value
        return [value]
