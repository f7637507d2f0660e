"""An answer that came as the input of a tool, told as text: the same events in every mode."""

from __future__ import annotations

from typing import Final

import msgspec

from llmstream import events as ev
from llmstream.dialects.base import Decoder, Place, takes_more
from llmstream.errors import LLMStreamError

__all__ = ["ANSWER_KEY", "OutputToolDecoder"]

ANSWER_KEY: Final = "answer"
"""In the metadata under "llmstream": this text is the answer, whatever stands beside it."""


class OutputToolDecoder:
    """A decoder around another: calls of one tool become blocks of text.

    The call itself is left out, so that nobody runs it and the conversation, which keeps the
    text, needs no result for it. A response without other calls finishes with "stop".

    decoder: the one around which it stands
    """

    def __init__(self, decoder: Decoder, tool: str) -> None:
        self.decoder = decoder
        self._tool = tool
        self._open: dict[str, bool] = {}  # call id -> whether it has any input yet
        self._answered = False
        self._other_calls = False
        self._look()

    def feed(self, chunk: bytes) -> list[ev.Event]:
        """The events that any slice of the body completes."""
        return self._told(self.decoder.feed(chunk))

    def close(self) -> list[ev.Event]:
        """What was held back."""
        return self._told(self.decoder.close())

    @property
    def next_place(self) -> Place | None:
        """As the decoder inside says; see `ContinuingDecoder`."""
        return self.decoder.next_place if takes_more(self.decoder) else None

    @property
    def gap(self) -> LLMStreamError | None:
        """As the decoder inside says."""
        return self.decoder.gap if takes_more(self.decoder) else None

    @property
    def unfinished(self) -> ev.Metadata | None:
        """As the decoder inside says."""
        return self.decoder.unfinished if takes_more(self.decoder) else None

    def go_on(self) -> None:
        """Another body follows."""
        if takes_more(self.decoder):
            self.decoder.go_on()
            self._look()

    def _look(self) -> None:
        inner = self.decoder
        self.usage, self.failure = inner.usage, inner.failure
        self.complete, self.done = inner.complete, inner.done

    def _told(self, events: list[ev.Event]) -> list[ev.Event]:
        self._look()
        out: list[ev.Event] = []
        for event in events:
            out += self._as_text(event)
        return out

    def _as_text(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.ToolInputStart(name, id) if name == self._tool and not event.provider_executed:
                self._open[id] = False
                return [ev.TextStart(id, {"llmstream": {ANSWER_KEY: True}})]
            case ev.ToolInputDelta(delta, id) if id in self._open:
                self._open[id] = self._open[id] or bool(delta)
                return [ev.TextDelta(delta, id)]
            case ev.ToolInputEnd(id) if id in self._open:
                end = ev.TextEnd(id, event.incomplete)
                empty = not self._open[id] and not event.incomplete
                return [ev.TextDelta("{}", id), end] if empty else [end]
            case ev.ToolCall(name, _, id) if id in self._open:
                self._answered = True
                return []
            case ev.ToolCall():
                self._other_calls = self._other_calls or not event.provider_executed
            case ev.Finish("tool-calls") if self._answered and not self._other_calls:
                return [msgspec.structs.replace(event, finish_reason="stop")]
        return [event]
