"""Server side of the Responses API over a WebSocket: one response at a time, with steering.

Clients send `response.create` and `response.steer`. Only the last response is stored, so that the next
request can send only new items, as at a vendor with storage turned off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import msgspec
from aiohttp import WSMsgType, web

from llmstream.dialects.openai_responses.wire import TERMINAL
from llmstream.errors import BadRequest, ErrorInfo, LLMStreamError, ServerError
from llmstream.events import (
    Finish,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    TextEnd,
    TextStart,
    ToolInputStart,
    Usage,
)
from llmstream.exchange import HttpRequest, redact_headers
from llmstream.framing.sse import SSEDecoder
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide
from llmstream.simulator.admission import masked
from llmstream.simulator.recording import Received
from llmstream.simulator.script import Cut, Stall, Turn
from llmstream.simulator.timeline import Player, TimedEvent

__all__ = ["SocketServer", "TurnOf", "wants_socket"]

# Returns the turn for a request, and its timed events.
TurnOf = Callable[[Request], tuple[Turn, list[TimedEvent]]]

# Stands in for the HTTP method of a message received over a socket.
_METHOD: Final = "WEBSOCKET"

_CALLS: Final = ("function_call", "custom_tool_call")


def wants_socket(http: HttpRequest) -> bool:
    """Whether a request is the handshake of a WebSocket."""
    return http.method == "GET" and http.headers.get("upgrade", "").lower() == "websocket"


class SocketServer:
    """Serves one socket; `serve` returns when it is closed.

    turn_of:     returns the script's turn
    log_request: called with each received message
    """

    def __init__(
        self,
        side: ServerSide,
        handshake: HttpRequest,
        player: Player,
        turn_of: TurnOf,
        log_request: Callable[[HttpRequest], Received],
        *,
        max_message_bytes: int,
    ) -> None:
        self._side = side
        self._handshake = handshake
        self._player = player
        self._turn_of = turn_of
        self._log_request = log_request
        # decode_text off: msgspec reads bytes, and checks their UTF-8 itself.
        self._ws = web.WebSocketResponse(max_msg_size=max_message_bytes, decode_text=False)
        self._requested: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        # Id of the last response, and all items up to its end.
        self._remembered: tuple[str, list[Any]] | None = None
        self._steered: dict[str, list[Any]] = {}
        self._steers = 0
        self._active: str | None = None
        self._lane: dict[str, Any] = {}
        # Of the latest complete response.
        self._output: list[Any] = []
        self._completed = False
        self._transport: asyncio.Transport | None = None
        self._number = 0
        self._received: Received | None = None

    async def serve(self, incoming: web.Request) -> web.WebSocketResponse:
        """Handles messages until the client or a fault closes the socket."""
        await self._ws.prepare(incoming)
        self._transport = incoming.transport
        # In a separate task: steering arrives while a response is sent.
        responder = asyncio.create_task(self._respond_to_all())
        try:
            async for message in self._ws:
                if message.type in (WSMsgType.TEXT, WSMsgType.BINARY):
                    await self._on_message(message.data)
        finally:
            responder.cancel()
            await asyncio.wait([responder])
        # A defect of the responder is an error of the handler, which aiohttp logs.
        if not responder.cancelled() and (error := responder.exception()) is not None:
            raise error
        return self._ws

    def end(self, *, left: bool) -> None:
        """Records how the socket was closed: by the client, possibly during a response, or by us."""
        received = self._received
        if received is not None and not received.done.is_set():
            received.disconnected = left
            received.done.set()

    async def _on_message(self, data: bytes) -> None:
        try:
            message = msgspec.json.decode(data)
        except (msgspec.MsgspecError, ValueError, RecursionError):
            message = None
        kind = message.get("type") if isinstance(message, dict) else None
        if kind == "response.create":
            await self._requested.put(message)
        elif kind == "response.steer":
            await self._steer(message)
        else:
            await self._refuse(BadRequest(f"no message of type {kind!r} is known", status=400).info)

    # Responses.

    async def _respond_to_all(self) -> None:
        while True:
            message = await self._requested.get()
            http = HttpRequest(
                self._handshake.url, msgspec.json.encode(message), self._handshake.headers, _METHOD
            )
            self._received = received = self._log_request(masked(http))
            received.dialect = self._side.name
            lane = message.get("stream_id")
            self._lane = {} if lane is None else {"stream_id": lane}
            try:
                await self._handle(message, received)
            except LLMStreamError as error:
                self._remembered = None
                await self._refuse(error.info)
            except ConnectionError:
                received.disconnected = True
            self._active = None
            received.done.set()

    async def _handle(self, message: dict[str, Any], received: Received) -> None:
        """Sends the response to a request, and its successors if it is steered."""
        fields = {k: v for k, v in message.items() if k not in ("type", "stream_id", "generate")}
        if fields.get("background"):
            raise BadRequest("background is not supported over WebSocket", status=400)
        items = self._known(fields.pop("previous_response_id", None)) + _listed(fields.get("input"))
        # The request of a client that only wants the prompt in the cache.
        silent = message.get("generate") is False
        while True:
            request = self._request({**fields, "input": items, "stream": True})
            received.request = msgspec.structs.replace(request, headers=redact_headers(request.headers))
            if not await self._respond(request, silent=silent):
                return
            items = items + _with_new_ids(items, self._output)
            if self._completed:
                self._remembered = (self._active or "", items)
            if not self._steered:
                return
            # The successor needs the results of the calls first.
            if any(item.get("type") in _CALLS for item in self._output):
                await self._report_pending()
                return
            items += self._taken()

    async def _respond(self, request: Request, *, silent: bool) -> bool:
        """Sends one response; False if the socket closes after it."""
        self._output, self._completed = [], False
        if silent:
            names = TimedEvent(ResponseMetadata(request.model, "sim-warm"))
            turn, timeline = Turn(), [names, TimedEvent(Finish("stop", Usage()))]
        else:
            turn, timeline = self._turn_of(request)
        encoder = self._side.event_encoder(request)
        pieces = ((timed.due_s, encoder.feed(timed.event)) for timed in self._until_steered(timeline))
        await self._player.play(self, pieces)
        match turn.fault:
            case Stall(stall_s=None):
                await asyncio.Event().wait()
            case Stall(stall_s=float(seconds)):
                await self._player.sleep(seconds)
                await self._ws.close()
            case Cut(clean=True):
                await self._ws.close()
            case Cut() if self._transport is not None:
                self._transport.close()
            case _:
                return True
        return False

    def _request(self, body: dict[str, Any]) -> Request:
        http = HttpRequest(self._handshake.url, msgspec.json.encode(body), self._handshake.headers)
        try:
            return self._side.decode_request(http)
        except LLMStreamError:
            raise
        except Exception as error:
            raise ServerError(f"the simulator failed: {error!r}", status=500) from error

    def _known(self, wanted: object) -> list[Any]:
        """Returns the items that a request continues."""
        if wanted is None:
            self._steered.clear()
            return []
        # The API remembers the last response only, and a failed request forgets it.
        remembered, self._remembered = self._remembered, None
        if remembered is None or remembered[0] != wanted:
            raise BadRequest(
                f"Previous response with id {wanted!r} not found.",
                status=400,
                reason="previous_response_not_found",
            )
        return remembered[1] + self._taken()

    # Steering.

    async def _steer(self, message: dict[str, Any]) -> None:
        target, items = message.get("previous_response_id"), _listed(message.get("input"))
        steer: dict[str, Any] = {"previous_response_id": target}
        if not items or not all(isinstance(item, dict) and item.get("role") == "user" for item in items):
            code = "invalid_input"
        elif target is not None and target == self._active:
            self._steers += 1
            steer["id"] = f"steer_{self._steers}"
            self._steered[steer["id"]] = items
            await self._send({"type": "response.steer.accepted", "steer": steer})
            return
        else:
            known = self._remembered is not None and self._remembered[0] == target
            code = "response_already_completed" if known else "response_not_found"
        error = {
            "type": "invalid_request_error",
            "code": code,
            "message": f"The input was not taken: {code}.",
        }
        steer["input"] = message.get("input")
        await self._send({"type": "response.steer.failed", "steer": steer, "error": error})

    def _until_steered(self, timeline: Iterable[TimedEvent]) -> Iterator[TimedEvent]:
        """Yields the events until there is input for a successor; a response with calls is not cut."""
        texts: dict[str, type[TextEnd | ReasoningEnd]] = {}
        called = False
        due_s, usage = 0.0, Usage()
        for timed in timeline:
            event = timed.event
            # A call that was cut would never get its result.
            if self._steered and not called and not isinstance(event, Finish):
                yield from (TimedEvent(end(name), due_s) for name, end in texts.items())
                yield TimedEvent(Finish("other", usage, "steered"), due_s)
                return
            match event:
                case TextStart(name):
                    texts[name] = TextEnd
                case ReasoningStart(name):
                    texts[name] = ReasoningEnd
                case TextEnd(name) | ReasoningEnd(name):
                    texts.pop(name, None)
                case ToolInputStart():
                    called = True
                case _:
                    pass
            due_s = timed.due_s
            yield timed

    async def _report_pending(self) -> None:
        """Reports input that is held until the results of the response's calls arrive."""
        required = [
            {"type": f"{item['type']}_output", "call_id": item.get("call_id"), "name": item.get("name")}
            for item in self._output
            if item.get("type") in _CALLS
        ]
        for name in self._steered:
            steer = {"id": name, "previous_response_id": (self._remembered or ("",))[0]}
            notice = {"reason": "waiting_for_required_input", "required_input": required, "steer": steer}
            await self._send({"type": "response.steer.pending", **notice})

    def _taken(self) -> list[Any]:
        steered, self._steered = self._steered, {}
        return [item for items in steered.values() for item in items]

    # Messages.

    async def write(self, data: bytes) -> None:
        """Sends what an encoder wrote as server-sent events, each as a message."""
        for payload in SSEDecoder().feed_data(data):
            event = msgspec.json.decode(payload)
            self._number = event.get("sequence_number", self._number)
            if event["type"] == "response.created":
                self._active = event["response"]["id"]
            elif event["type"] in TERMINAL:
                self._output = event["response"]["output"]
                self._completed = event["type"] == "response.completed"
            await self._ws.send_frame(
                msgspec.json.encode({**event, **self._lane}) if self._lane else payload, WSMsgType.TEXT
            )

    async def _send(self, event: dict[str, Any]) -> None:
        message = {**event, "sequence_number": self._number, **self._lane}
        await self._ws.send_frame(msgspec.json.encode(message), WSMsgType.TEXT)

    async def _refuse(self, info: ErrorInfo) -> None:
        """Sends an error response as a message, with its status and headers."""
        response = self._side.encode_error(info)
        error = msgspec.json.decode(response.body)["error"]
        if info.retry_after_s is not None:
            error["headers"] = {"retry-after": f"{info.retry_after_s:g}"}
        await self._send({"type": "error", "status": response.status, "error": error})


def _with_new_ids(items: list[Any], output: list[Any]) -> list[Any]:
    # The simulator numbers items from the beginning in each response.
    known = {item.get("id") for item in items if isinstance(item, dict)}
    return [{k: v for k, v in item.items() if k != "id" or v not in known} for item in output]


def _listed(value: object) -> list[Any]:
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return list(value) if isinstance(value, list) else []
