"""The messages over one WebSocket of the Responses API: requests, and the server's stored state.

The server has the last response of a socket in memory, also if nothing is stored. A request that continues
it needs only the new items. That it does so is proved here, item by item: everything that the request
repeats has to equal what the server sent. Without the proof, the complete request is sent.

source: developers.openai.com/api/docs/guides/websocket-mode, read 2026-11
"""

from __future__ import annotations

import hashlib
from collections import deque
from typing import Any, Final

import msgspec

from llmstream.chats.content import Part
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.decoder import PayloadDecoder
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.json_text import encodable_value
from llmstream.dialects.openai_responses.content import write_part
from llmstream.dialects.openai_responses.decoder import ResponseReader
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import CONTINUING
from llmstream.dialects.openai_responses.wire import KEY, TERMINAL, WireEvent
from llmstream.errors import LLMStreamError, Unsupported
from llmstream.events import Custom
from llmstream.exchange import MessageKind
from llmstream.framing.sse import SSEDecoder

__all__ = ["KIND", "ResponsesSocketProtocol", "SocketRequest", "SocketResponsesDecoder"]


# User input that is sent while a response is made ("steering").
#
# Input that the server has accepted waits until a successor of the answer begins, which takes all of it.
# The answer may end early for that, as `incomplete` with the reason `steered`, or in its own time. Where it
# ends with calls for the client to run, the input waits for their results, and the next request takes it.
#
# source: `response.steer` and its events in openai 3.54 (types/responses), read 2026-11

# The `custom` event at the place in the response where the input takes effect.
KIND: Final = f"{KEY}.steering"

# The reason of a response that ended early for its successor.
STEERED: Final = "steered"


class Submission:
    """One input; see `exchange.Steering`.

    items: of the input, as on the wire
    """

    def __init__(self, items: list[dict[str, Any]], message: bytes = b"") -> None:
        self.items = items
        self.message = message
        self.settled = False
        self.error: LLMStreamError | None = None


class Steerings:
    """Input that the client has sent. Acknowledgements come in the order of the submissions.

    waiting: the response has ended with calls to run; accepted input waits for their results
    """

    def __init__(self, provider: str) -> None:
        self.waiting = False
        self._provider = provider
        self._unanswered: deque[Submission] = deque()
        self._accepted: dict[str, Submission] = {}

    @property
    def due(self) -> bool:
        """Whether the server will send more because of it, after the end of the response."""
        return bool(self._unanswered) or (bool(self._accepted) and not self.waiting)

    @property
    def items(self) -> list[dict[str, Any]]:
        """Items that were accepted and have not taken effect."""
        return [item for submission in self._accepted.values() for item in submission.items]

    def sent(self, submission: Submission) -> None:
        """Adds input that was sent."""
        self._unanswered.append(submission)

    def receive(self, kind: str, reply: object, error: object) -> None:
        """Handles the server's reply: `response.steer.accepted`, `.pending` or `.failed`."""
        found = reply.get("id") if isinstance(reply, dict) else None
        number = found if isinstance(found, str) else ""
        if kind == "response.steer.pending":
            self.waiting = True
        elif kind == "response.steer.accepted":
            submission = self._settled()
            if submission is not None and number:
                self._accepted[number] = submission
        elif kind == "response.steer.failed" and self._accepted.pop(number, None) is None:
            submission = self._settled()
            if submission is not None:
                submission.error = error_from_value({"error": error}, provider=self._provider, status=400)

    def take(self) -> list[dict[str, Any]]:
        """Returns the items that a new successor takes."""
        items = self.items
        self._accepted.clear()
        self.waiting = False
        return items

    def _settled(self) -> Submission | None:
        if not self._unanswered:
            return None
        submission = self._unanswered.popleft()
        submission.settled = True
        return submission


def steering_event(item: dict[str, Any], provider: str) -> Custom:
    """Returns the event at the place where input took effect; it goes back as a user message."""
    return Custom(KIND, {KEY: {"type": "steering", "provider": provider, "item": item}})


class SteerMessage(msgspec.Struct, tag="response.steer", tag_field="type"):
    """The client's message."""

    previous_response_id: str
    input: list[dict[str, Any]]


_NOT_OVER_SOCKETS: Final = ("stream", "background")
# Codes of errors after which the same request succeeds over another socket, sent completely.
_OF_THE_SOCKET: Final = frozenset({"previous_response_not_found", "websocket_connection_limit_reached"})


class _Message(msgspec.Struct):
    """The fields of a server's message that are read here."""

    type: Any = None
    response: msgspec.Raw = msgspec.Raw()
    output_index: Any = None
    item: Any = None
    steer: Any = None
    error: Any = None


class _Response(msgspec.Struct):
    id: Any = None
    status: Any = None
    output: Any = None


class _Remembered(msgspec.Struct, frozen=True):
    """What the server has in memory: the last input, as length and digest, and the response."""

    response_id: str
    model: bytes
    count: int
    digest: bytes
    output: list[Any]


_message: Final = msgspec.json.Decoder(_Message)
_response: Final = msgspec.json.Decoder(_Response)
_fields: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])
_items: Final = msgspec.json.Decoder(list[msgspec.Raw])


class SocketRequest:
    """The body of an HTTP request, split into undecoded fields.

    items: of its input; none if that is a text
    """

    def __init__(self, body: bytes) -> None:
        self.fields = _fields.decode(body)
        self.model = bytes(self.fields.get("model", b""))
        try:
            self.items = _items.decode(self.fields.get("input", b"[]"))
        except msgspec.MsgspecError:
            self.items = []


class ResponsesSocketProtocol:
    """The protocol of one socket, one response at a time; see `exchange.SocketProtocol`."""

    def __init__(self, quirks: Quirks, *, provider: str) -> None:
        self.is_idle = True
        self._quirks = quirks
        self._provider = provider
        self._last: _Remembered | None = None
        self._current: _Remembered | None = None  # the current request, with its response so far
        self._response_id: str | None = None
        self._over = False
        self._done: list[tuple[int, Any]] = []  # complete items with their places
        self._steerings = Steerings(provider)

    @property
    def has_response_id(self) -> bool:
        """Whether the id of the current response is known."""
        return self._response_id is not None

    def continues(self, request: SocketRequest) -> bool:
        """Whether a request continues the last response."""
        return self._new_items(request) is not None

    def send(self, request: SocketRequest) -> bytes:
        """Returns the message to send for a request: only new items, if it continues the last response."""
        items, new = request.items, self._new_items(request)
        last, self._last = self._last, None
        self._current = _Remembered("", request.model, len(items), _digest(items), []) if items else None
        self._response_id, self._over, self.is_idle = None, False, False
        message: dict[str, Any] = {"type": "response.create"}
        message |= {name: value for name, value in request.fields.items() if name not in _NOT_OVER_SOCKETS}
        if new is not None and last is not None:
            message |= {"previous_response_id": last.response_id, "input": new}
        else:
            self._steerings = Steerings(self._provider)  # the complete input has what waits
        return msgspec.json.encode(message)

    def receive(self, message: bytes) -> MessageKind:
        """Handles a message from the server."""
        try:
            received = _message.decode(message)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            # The decoder reports the error.
            return "response"
        kind = received.type
        if not isinstance(kind, str):
            return "response"
        if kind == "error":
            code = received.error.get("code") if isinstance(received.error, dict) else None
            return "reconnect" if code in _OF_THE_SOCKET else "response"
        if kind == "response.output_item.done":
            place = received.output_index if isinstance(received.output_index, int) else len(self._done)
            self._done.append((place, received.item))
        elif kind == "response.created":
            self._created(received.response)
        elif kind in TERMINAL:
            self._ended(kind, received.response)
        elif kind.startswith("response.steer."):
            self._steerings.receive(kind, received.steer, received.error)
            self._update_idle()
        return "response" if kind.startswith("response.") else "unrelated"

    def steer(self, content: list[Part]) -> Submission:
        """Returns user input for the current response.

        raises: Unsupported if the server accepts none
        """
        if not self._quirks.delivery.steering:
            raise Unsupported(
                f"{self._provider} accepts no input while it responds. "
                "Leave the stream and send a new request.",
                provider=self._provider,
            )
        parts = [write_part(part, self._quirks.input, provider=self._provider) for part in content]
        items = [{"type": "message", "role": "user", "content": parts}]
        submission = Submission(items, msgspec.json.encode(SteerMessage(self._response_id or "", items)))
        self._steerings.sent(submission)
        return submission

    def _created(self, raw: msgspec.Raw) -> None:
        response = _read(raw)
        self._response_id = response.id if isinstance(response.id, str) else None
        items = self._steerings.take() if self._over or self._steerings.waiting else []
        if self._over and self._current is not None:
            self._current.output.extend(items)
        self._over, self._done = False, []

    def _ended(self, kind: str, raw: msgspec.Raw) -> None:
        response = _read(raw)
        self._over = True
        output = _output(response.output, self._done)
        if output is None:
            self._current = None
        elif self._current is not None:
            self._current.output.extend(output)
            if kind == "response.completed" and isinstance(response.id, str):
                # A response that is not complete cannot be continued.
                self._last = msgspec.structs.replace(self._current, response_id=response.id)
        self._update_idle()

    def _update_idle(self) -> None:
        self.is_idle = self._over and not self._steerings.due

    def _new_items(self, request: SocketRequest) -> list[msgspec.Raw] | None:
        """Returns the items that are new to the server; None without the proof that it has all others."""
        last, items = self._last, request.items
        if last is None or last.model != request.model:
            return None
        if any(name in request.fields for name in CONTINUING):
            return None
        # The server itself inserts accepted input before the new items.
        known = last.output + self._steerings.items
        end = last.count + len(known)
        if len(items) <= end:
            return None
        theirs = zip(items[last.count : end], known, strict=True)
        if not all(_is_within(msgspec.json.decode(ours), item) for ours, item in theirs):
            return None
        # Last, because only this check reads the complete conversation, and a pool checks many sockets.
        return items[end:] if _digest(items[: last.count]) == last.digest else None


def _read(raw: msgspec.Raw) -> _Response:
    try:
        return _response.decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return _Response()


def _output(reported: object, done: list[tuple[int, Any]]) -> list[Any] | None:
    """Returns the items of a response; None if they are unknown."""
    # Those that were streamed count: the last event may encrypt reasoning again, and that of ChatGPT's
    # backend has no output at all.
    output = reported if isinstance(reported, list) else []
    if len(output) in (0, len(done)):
        return [item for _, item in sorted(done, key=lambda each: each[0])]
    return None if done else output


def _digest(items: list[msgspec.Raw]) -> bytes:
    # All items are encoded here, so equal items are equal bytes.
    digest = hashlib.blake2b(digest_size=32)
    for item in items:
        digest.update(item)
        # Never occurs in JSON that we encode.
        digest.update(b"\n")
    return digest.digest()


def _is_within(ours: Any, theirs: Any) -> bool:
    """Whether all that we would send of an item equals what the server sent, which may be more."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return all(name in theirs and _is_within(value, theirs[name]) for name, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_is_within, ours, theirs))
    return bool(ours == theirs)


# A response over a WebSocket: as over HTTP, except that it may be steered; a successor then continues it.


class _SocketEvent(WireEvent, gc=False):
    """An event with the fields that only sockets have.

    steer:  of the events of steering, which one
    status: of an error, as HTTP would have it
    """

    steer: Any = None
    status: Any = None


_socket: Final = msgspec.json.Decoder(_SocketEvent)


class SocketResponsesDecoder(PayloadDecoder[_SocketEvent]):
    """Reads an answer and its successors as one: their blocks follow each other, and the last one finishes.

    Besides the server's messages it is fed the client's `response.steer`, where it was sent. A `custom` event
    marks where the input took effect, so that the conversation has it at that position.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        super().__init__(framing, _socket, provider=provider, include_raw=include_raw, limits=limits)
        self._response = ResponseReader(self)
        self._steerings = Steerings(provider)
        self._over: tuple[str, dict[str, Any] | None] | None = None  # the last event of a response, held

    def on(self, wire: _SocketEvent) -> None:
        """Turns one event into ours."""
        kind = wire.type
        if kind in _ON_STEERING:
            self._on_steering(wire, kind)
        elif kind in TERMINAL and self._steerings.due:
            self._over = (kind, wire.response)
        elif kind == "response.created" and self._over is not None:
            self._succeed(wire, self._over[1] or {})
        elif (kind is None or kind.endswith("error")) and (failure := self._http_error(wire)) is not None:
            self.fail(failure)
        else:
            self._response.on(wire)

    def end(self) -> None:
        """The body has ended; a completed response needs no successor, unless input was accepted for one."""
        if not self._steerings.items:
            self._end_held()

    def _on_steering(self, wire: _SocketEvent, kind: str) -> None:
        if kind == "response.steer":
            items = wire.input if isinstance(wire.input, list) else []
            self._steerings.sent(Submission(items))
            return
        self._steerings.receive(kind, wire.steer, wire.error)
        if self._over is not None and not self._steerings.due:
            self._take_effect()
            self._end_held()

    def _end_held(self) -> None:
        held, self._over = self._over, None
        if held is not None:
            self._response.conclude(*held)

    def _succeed(self, wire: _SocketEvent, last: dict[str, Any]) -> None:
        """Continues with the successor of a response."""
        self._over = None
        self._response.succeed(last)
        self._take_effect()
        self._response.on(wire)

    def _take_effect(self) -> None:
        self.out += [steering_event(item, self.provider) for item in self._steerings.take()]

    def _http_error(self, wire: _SocketEvent) -> LLMStreamError | None:
        """Returns the error of an event with an HTTP status and headers; None for any other."""
        status, error = wire.status, wire.error
        if not (isinstance(status, int) and 400 <= status < 600 and isinstance(error, dict)):
            return None
        error = encodable_value(error)
        headers = error.get("headers")
        plain = {str(k).lower(): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
        failure = error_from_value({"error": error}, provider=self.provider, status=status, headers=plain)
        if error.get("code") == "websocket_connection_limit_reached":
            # Over another socket.
            failure.retryable = True
        return failure


_ON_STEERING: Final = frozenset(
    {"response.steer", "response.steer.accepted", "response.steer.pending", "response.steer.failed"}
)


class ResponsesSockets(msgspec.Struct, frozen=True):
    """Responses over WebSockets; see `dialects.base.Sockets`."""

    quirks: Quirks

    def protocol(self, *, provider: str) -> ResponsesSocketProtocol:
        """Creates the protocol of one WebSocket."""
        return ResponsesSocketProtocol(self.quirks, provider=provider)

    def socket_request(self, body: bytes) -> SocketRequest:
        """Converts the body of an HTTP request to the request that the protocol sends."""
        return SocketRequest(body)

    def socket_decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> SocketResponsesDecoder:
        """Creates a decoder for one response over a WebSocket."""
        return SocketResponsesDecoder(provider=provider, include_raw=include_raw, limits=limits)
