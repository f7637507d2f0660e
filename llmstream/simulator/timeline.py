"""Converts a turn to timed events, plays them, and encodes them as the bodies that the simulator sends."""

from __future__ import annotations

import asyncio
import base64
import datetime
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from operator import attrgetter, is_
from typing import Any, Final, Protocol

import msgspec

from llmstream.chats.content import Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.tool_calls import CUSTOM_CALL
from llmstream.errors import BadRequest, ErrorInfo
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    FinishReason,
    Metadata,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    Usage,
)
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.exchange import HttpResponse
from llmstream.grammar import Guard
from llmstream.request import ProviderTool, Request, ToolSpec
from llmstream.server_side.wires import EventEncoder, ServerSide
from llmstream.simulator.recording import Received
from llmstream.simulator.script import Break, Call, Cut, Pace, Refuse, Stall, Turn

__all__ = [
    "Player",
    "PromptTokens",
    "TimedEvent",
    "complete_body",
    "complete_response",
    "custom_tools",
    "error_response",
    "estimated_tokens",
    "events_of",
    "failure_of",
    "id_headers",
    "pieces_of",
    "refusal_of",
    "shown_share",
    "timeline_of",
    "tokens_of",
    "usage_of",
]

# Words with the space before them. Trailing space is a piece, so that all pieces make the text.
_WORDS: Final = re.compile(r"\s*\S+|\s+\Z")
# Three tokens a piece, so that a key or a string is cut in two, as real vendors do.
_INPUT_CHARS: Final = 12
# Usual for English; clients that print costs see plausible numbers.
_CHARS_PER_TOKEN: Final = 4
_CUSTOM: Final[Metadata] = {"openai": {"type": CUSTOM_CALL}}
_DELTAS: Final = (TextDelta, ReasoningDelta, ToolInputDelta)


class TimedEvent(msgspec.Struct, frozen=True):
    """One event and when it is due, in seconds from the start of the response."""

    event: Event
    due_s: float = 0.0


def timeline_of(
    turn: Turn,
    request: Request,
    *,
    number: int = 0,
    pace: Pace | None = None,
    now: datetime.datetime | None = None,
) -> list[TimedEvent]:
    """Returns the timed events of a turn, up to its fault.

    number: of the request, used in ids
    pace:   for a turn without its own
    now:    time of the response
    """
    events = events_of(turn, request, number=number, now=now)
    return list(_timed(_up_to_fault(turn, events), turn.pace or pace or Pace()))


def events_of(
    turn: Turn, request: Request, *, number: int = 0, now: datetime.datetime | None = None
) -> list[Event]:
    """Returns all events of a turn without the first, regardless of its fault."""
    events: list[Event] = [e for e in turn.events if not isinstance(e, StreamStart)]
    return events or list(_turn_events(turn, request, number, now))


def tokens_of(request: Request) -> int:
    """Estimates the tokens of a prompt."""
    messages = sum(estimated_tokens(text) for text in _prompt_texts(request.messages))
    return messages + _tokens_of_tools(request)


class PromptTokens:
    """Counts the tokens of a growing conversation; unchanged messages are counted once."""

    def __init__(self) -> None:
        self._known: list[Any] = []
        self._tokens = 0

    def of(self, request: Request) -> int:
        """Estimates the tokens of a prompt, as `tokens_of`."""
        parts = list(map(attrgetter("parts"), request.messages))
        # By identity: parts are frozen, and an agent sends the same messages at each step.
        if len(parts) < len(self._known) or not all(map(is_, self._known, parts)):
            self._known, self._tokens = [], 0
        added = request.messages[len(self._known) :]
        self._tokens += sum(estimated_tokens(text) for text in _prompt_texts(added))
        self._known = parts
        return self._tokens + _tokens_of_tools(request)


def estimated_tokens(text: str) -> int:
    """Estimates the tokens of a text, four characters each."""
    return math.ceil(len(text) / _CHARS_PER_TOKEN)


def _turn_events(turn: Turn, request: Request, number: int, now: datetime.datetime | None) -> Iterator[Event]:
    yield ResponseMetadata(request.model, f"sim-{number}", now)
    blocks = 0
    if turn.reasoning:
        yield ReasoningStart(str(blocks))
        yield from (ReasoningDelta(word, str(blocks)) for word in _WORDS.findall(turn.reasoning))
        yield ReasoningEnd(str(blocks), provider_metadata=_signed(number))
        blocks += 1
    if turn.text:
        yield TextStart(str(blocks))
        yield from (TextDelta(word, str(blocks)) for word in _WORDS.findall(turn.text))
        yield TextEnd(str(blocks))
    custom = custom_tools(request)
    for position, call in enumerate(turn.calls):
        events = _call(call, call.id or f"call_{number}_{position}", _CUSTOM if call.name in custom else None)
        yield from events if position else _signed_call(events, number)
    reason: FinishReason = turn.finish_reason or ("tool-calls" if turn.calls else "stop")
    yield Finish(reason, turn.usage or usage_of(turn, tokens_of(request)))


def _signature(number: int) -> str:
    return base64.b64encode(b"signed by sim-%d" % number).decode()


def _signed(number: int) -> Metadata:
    """Returns metadata with which reasoning can be sent back; clients drop reasoning without it.

    Claude signs reasoning; OpenAI encrypts it if responses are not stored.
    """
    metadata = {"signature": _signature(number)}
    return {"anthropic": metadata, "bedrock": metadata, "openai": {"encrypted_content": _signature(number)}}


def _signed_call(events: Iterable[Event], number: int) -> Iterator[Event]:
    # Gemini 3 and later sign the first call of a response, and reject a history without the signature.
    metadata = {"thought_signature": _signature(number)}
    for event in events:
        if isinstance(event, ToolCallEvent):
            event = msgspec.structs.replace(
                event, provider_metadata={**(event.provider_metadata or {}), "google": metadata}
            )
        yield event


def custom_tools(request: Request) -> list[str]:
    """Returns the names of tools with plain text input: OpenAI's custom tools, in both of its APIs."""
    found = []
    for tool in request.tools:
        if isinstance(tool, ProviderTool) and tool.type == "custom":
            inner = tool.options.get("custom")
            found.append(str(tool.name or (inner.get("name") if isinstance(inner, dict) else "")))
    return found


def _call(call: Call, call_id: str, metadata: Metadata | None) -> Iterator[Event]:
    text = _input(call)
    yield ToolInputStart(call.name, call_id, provider_metadata=metadata)
    for start in range(0, len(text), _INPUT_CHARS):
        yield ToolInputDelta(text[start : start + _INPUT_CHARS], call_id)
    yield ToolInputEnd(call_id)
    # Plain text may be empty; JSON may not.
    yield ToolCallEvent(call.name, text or ("" if metadata else "{}"), call_id, provider_metadata=metadata)


def _input(call: Call) -> str:
    if isinstance(call.arguments, str):
        return call.arguments
    return msgspec.json.encode(call.arguments).decode()


def _up_to_fault(turn: Turn, events: list[Event]) -> list[Event]:
    """Returns the events before the fault, and the error if the vendor reports it in the stream."""
    fault = turn.fault
    if not isinstance(fault, Break | Cut | Stall):
        return events
    events = events[: fault.after_events]
    if isinstance(fault, Break):
        # A vendor that fails in the middle does not close its blocks; readers get them closed.
        guard = Guard()
        events = guard.feed(events)
        error = error_from_value({"message": fault.message}, provider="simulator", status=fault.status)
        events = events + guard.close(Usage(), error.info)
    return events


def _timed(events: Iterable[Event], pace: Pace) -> Iterator[TimedEvent]:
    due_s = pace.first_s
    has_content = False
    for event in events:
        if isinstance(event, _DELTAS):
            # The first delta comes at `first_s`; only the gaps after it follow the pace.
            if has_content and pace.tokens_per_s:
                due_s += estimated_tokens(event.delta) / pace.tokens_per_s
            elif has_content:
                due_s += pace.delta_s
            has_content = True
        yield TimedEvent(event, due_s)


def usage_of(turn: Turn, given: int) -> Usage:
    """Returns the usage of a turn, by default estimated from a prompt of `given` tokens."""
    thought = estimated_tokens(turn.reasoning)
    made = thought + estimated_tokens(turn.text) + sum(estimated_tokens(_input(c)) for c in turn.calls)
    return Usage(given, made, given + made, reasoning_tokens=thought or None)


def _tokens_of_tools(request: Request) -> int:
    tools = [tool for tool in request.tools if isinstance(tool, ToolSpec)]
    return sum(
        estimated_tokens(tool.name + tool.description + msgspec.json.encode(tool.input_schema).decode())
        for tool in tools
    )


def _prompt_texts(messages: Iterable[Message]) -> Iterator[str]:
    for message in messages:
        for part in message.parts:
            match part:
                case Text(text) | Reasoning(text):
                    yield text
                case ToolCall(_, name, arguments):
                    yield name + arguments
                case ToolResult():
                    yield part.content
                case _:
                    pass


# Playing the pieces of a body.


class Writer(Protocol):
    """The destination of the bytes."""

    async def write(self, data: bytes) -> None:
        """Writes, and waits for a slow reader."""
        ...


class Player:
    """Plays pieces of a body by a clock.

    block_bytes: size of the writes for pieces that are due together; 0 for one write per piece
    """

    def __init__(
        self, clock: Callable[[], float], sleep: Callable[[float], Awaitable[object]], block_bytes: int = 0
    ) -> None:
        self.sleep = sleep
        self._clock = clock
        self._block_bytes = block_bytes

    async def play(self, to: Writer, pieces: Iterable[tuple[float, bytes]]) -> None:
        """Writes each piece when it is due.

        pieces: seconds from now, and bytes; in order of time
        """
        start = self._clock()
        block = bytearray()
        for due_s, data in pieces:
            # From the start of the response, so that delays of writing do not add up.
            wait_s = start + due_s - self._clock() if due_s else 0.0
            if wait_s > 0:
                if block:
                    await to.write(bytes(block))
                    block.clear()
                await self.sleep(wait_s)
            if not data:
                continue
            if not self._block_bytes:
                await to.write(data)
                # Lets a reader in the same loop run, which may disconnect.
                await asyncio.sleep(0)
                continue
            block += data
            while len(block) >= self._block_bytes:
                await to.write(bytes(block[: self._block_bytes]))
                del block[: self._block_bytes]
        if block:
            await to.write(bytes(block))


# The bodies that the simulator sends: events in pieces, complete responses, errors.


def pieces_of(
    timeline: Iterable[TimedEvent], encoder: EventEncoder, turn: Turn
) -> Iterator[tuple[float, bytes]]:
    """Yields the bytes of each event, b"" for some; the end of the body only without an earlier fault."""
    due_s = 0.0
    for timed in timeline:
        due_s = timed.due_s
        yield due_s, encoder.feed(timed.event)
    if not isinstance(turn.fault, Cut | Stall):
        yield due_s, encoder.close()


def complete_body(side: ServerSide, request: Request, timeline: Sequence[TimedEvent]) -> bytes:
    """Builds the JSON of a response.

    raises: BadRequest if the dialect only streams
    """
    if side.complete_response is None:
        raise BadRequest(
            f'the simulator only streams {side.name}. Set "stream": true.',
            status=400,
            reason="invalid_request",
        )
    encoder = side.event_encoder(request)
    streamed = [encoder.feed(timed.event) for timed in timeline]
    return msgspec.json.encode(side.complete_response(b"".join((*streamed, encoder.close()))))


def failure_of(timeline: Sequence[TimedEvent]) -> ErrorInfo | None:
    """Returns the error to send in place of a response; None if the finish reason reports the failure."""
    events = [timed.event for timed in timeline]
    finish = next((event for event in reversed(events) if isinstance(event, Finish)), None)
    if finish is None or finish.finish_reason != "error" or finish.raw_finish_reason is not None:
        return None
    failed = ErrorInfo("server-error", "The model failed.", retryable=True, status=500)
    return next((event.error for event in events if isinstance(event, ErrorEvent)), failed)


def shown_share(turn: Turn, timeline: Sequence[TimedEvent]) -> float:
    """Returns the share of a response to write before a fault of the connection; 1.0 without one."""
    if not isinstance(turn.fault, Cut | Stall):
        return 1.0
    return min(1.0, turn.fault.after_events / max(1, len(timeline)))


def error_response(side: ServerSide, error: ErrorInfo, received: Received) -> HttpResponse:
    """Builds an error response in the vendor's form, with the simulator's request id."""
    # Some vendors repeat it in the body.
    if error.request_id is None:
        error = msgspec.structs.replace(error, request_id=received.request_id)
    response = side.encode_error(error)
    headers = {**id_headers(received), **response.headers}
    if error.retry_after_s is not None:
        headers.setdefault("retry-after", f"{error.retry_after_s:g}")
    return msgspec.structs.replace(response, headers=headers)


def id_headers(received: Received) -> dict[str, str]:
    """Returns the request id under the header names of the vendors, and the rate limits."""
    ids = dict.fromkeys(("x-request-id", "request-id", "x-amzn-requestid"), received.request_id)
    return ids | received.limit_headers


def complete_response(body: bytes, received: Received) -> HttpResponse:
    """Builds a response without streaming."""
    return HttpResponse(200, body, {"content-type": "application/json", **id_headers(received)})


def refusal_of(fault: Refuse) -> ErrorInfo:
    """Returns the error of a script, typed by its status."""
    headers = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
    return error_from_value(
        {"message": fault.message}, provider="simulator", status=fault.status, headers=headers
    ).info
