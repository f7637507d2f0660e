"""How output with a schema is requested: by the vendor's own mode, by a tool, or by an instruction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from llmstream import events as ev
from llmstream.chats.content import OWN_KEY
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, OutputAbility, Place, can_continue
from llmstream.errors import LLMStreamError
from llmstream.request import NamedTool, Request, ResponseFormat, ToolSpec

__all__ = ["ANSWER_KEY", "OutputToolDecoder", "RequestInMode", "in_mode"]


# An answer that came as the input of a tool becomes text events, so that every mode has the same events.

# In the metadata under "llmstream": this text is the answer, regardless of other text.
ANSWER_KEY: Final = "answer"


class OutputToolDecoder:
    """A decoder around another: calls of one tool become blocks of text.

    The call itself is left out, so that it is not run and the conversation, which stores the
    text, needs no result for it. A response without other calls finishes with "stop".

    decoder: the wrapped decoder
    """

    def __init__(self, decoder: Decoder, tool: str) -> None:
        self.decoder = decoder
        self._tool = tool
        self._open: dict[str, bool] = {}  # call id -> whether it has any input yet
        self._answered = False
        self._other_calls = False
        self._mirror()

    def feed(self, chunk: bytes) -> list[ev.Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        return self._converted(self.decoder.feed(chunk))

    def close(self) -> list[ev.Event]:
        """Ends the input; returns the events held back."""
        return self._converted(self.decoder.close())

    @property
    def next_place(self) -> Place | None:
        """That of the wrapped decoder; see `ContinuingDecoder`."""
        return self.decoder.next_place if can_continue(self.decoder) else None

    @property
    def gap(self) -> LLMStreamError | None:
        """That of the wrapped decoder."""
        return self.decoder.gap if can_continue(self.decoder) else None

    @property
    def unfinished(self) -> ev.Metadata | None:
        """That of the wrapped decoder."""
        return self.decoder.unfinished if can_continue(self.decoder) else None

    def next_body(self) -> None:
        """Prepares for another body."""
        if can_continue(self.decoder):
            self.decoder.next_body()
            self._mirror()

    def _mirror(self) -> None:
        inner = self.decoder
        self.usage, self.failure = inner.usage, inner.failure
        self.complete, self.done = inner.complete, inner.done

    def _converted(self, events: list[ev.Event]) -> list[ev.Event]:
        self._mirror()
        out: list[ev.Event] = []
        for event in events:
            out += self._as_text(event)
        return out

    def _as_text(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.ToolInputStart(name, id) if name == self._tool and not event.provider_executed:
                self._open[id] = False
                return [ev.TextStart(id, {OWN_KEY: {ANSWER_KEY: True}})]
            case ev.ToolInputDelta(delta, id) if id in self._open:
                self._open[id] = self._open[id] or bool(delta)
                return [ev.TextDelta(delta, id)]
            case ev.ToolInputEnd(id) if id in self._open:
                end = ev.TextEnd(id, event.incomplete)
                # A tool without input may come without any delta, but the text of an answer is JSON.
                empty = not self._open[id] and not event.incomplete
                return [ev.TextDelta("{}", id), end] if empty else [end]
            case ev.ToolCall(name, _, id) if id in self._open:
                self._answered = True
                return []
            case ev.ToolCall():
                # A call that the vendor runs needs no further step.
                self._other_calls = self._other_calls or not event.provider_executed
            case ev.Finish("tool-calls") if self._answered and not self._other_calls:
                return [msgspec.structs.replace(event, finish_reason="stop")]
        return [event]


_DESCRIPTION: Final = "Give the answer, as the input of this tool."


class RequestInMode(NamedTuple):
    """A request with its mode, and the tool whose input is the answer."""

    request: Request
    tool: str | None = None

    def reading(self, decoder: Decoder) -> Decoder:
        """Returns the decoder of the response, whose answer is text in every mode."""
        return decoder if self.tool is None else OutputToolDecoder(decoder, self.tool)


def in_mode(request: Request, able: Sequence[OutputAbility]) -> RequestInMode:
    """Returns the request in the mode that its response format names, or in the vendor's best.

    A schema without a mode goes to the vendor unchanged, if the model has any mode for
    JSON; if it has none (older Claudes, those of Vertex), it is requested as with "auto".

    able: how the dialect can enforce JSON in this request, best first
    """
    wanted = request.response_format
    if wanted is None or wanted.schema is None:
        return RequestInMode(request)
    mode = wanted.mode
    # The caller's own schema goes out unchanged where the vendor has any mode for it.
    if mode is None and ("json_schema" in able or "json_object" in able):
        return RequestInMode(request)
    if mode is None or mode == "auto":
        # JSON mode alone does not enforce a schema; a prompt with it does as much.
        mode = next((a for a in able if a != "json_object"), "prompt")
    if mode == "tool":
        return _by_tool(request, wanted)
    if mode == "prompt":
        return RequestInMode(_by_prompt(request, wanted.schema, knows_json="json_object" in able))
    return RequestInMode(msgspec.structs.replace(request, response_format=_without_mode(wanted)))


def _by_tool(request: Request, wanted: ResponseFormat) -> RequestInMode:
    taken = {tool.name for tool in request.tools}
    # A tool of the caller may have the name of the type.
    name = wanted.name
    while name in taken:
        name += "_answer"
    tool = ToolSpec(name, wanted.description or _DESCRIPTION, wanted.schema or {})
    # With other tools the model may call those first; without others, this tool is the only way to answer.
    changed = msgspec.structs.replace(
        request,
        tools=(*request.tools, tool),
        tool_choice="required" if request.tools else NamedTool(name),
        response_format=None,
    )
    return RequestInMode(changed, name)


def _by_prompt(request: Request, schema: dict[str, object], *, knows_json: bool) -> Request:
    instruction = (
        "Answer with a JSON object and nothing else: no prose, no code fence. "
        f"It has to fit this JSON schema: {msgspec.json.encode(schema).decode()}"
    )
    return msgspec.structs.replace(
        request,
        # First: instructions of the caller may refine it.
        messages=(Message.system(instruction), *request.messages),
        response_format=ResponseFormat() if knows_json else None,
    )


def _without_mode(wanted: ResponseFormat) -> ResponseFormat:
    return msgspec.structs.replace(wanted, mode=None)
