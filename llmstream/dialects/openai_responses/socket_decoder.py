"""An answer over a WebSocket: as over HTTP, but that it may be steered, and then goes on in a successor."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.openai_responses.decoder import OpenAIResponsesDecoder
from llmstream.dialects.openai_responses.finish import TERMINAL
from llmstream.dialects.openai_responses.steering import Steerings, Submission, steering_event
from llmstream.dialects.openai_responses.token_usage import read_usage
from llmstream.dialects.openai_responses.wire import WireEvent
from llmstream.dialects.vendor_errors import error_from_value
from llmstream.events import FinishReason, Usage

__all__ = ["SocketResponsesDecoder"]


class _SocketEvent(WireEvent, gc=False):
    """An event with what only sockets say.

    steer:  of the events of steering, which one
    status: of an error, as HTTP would have it
    """

    steer: Any = None
    status: Any = None


_socket: Final = msgspec.json.Decoder(_SocketEvent)


class SocketResponsesDecoder(OpenAIResponsesDecoder):
    """Reads an answer and its successors as one: their blocks follow each other, and the last one finishes.

    Besides the server's messages it is fed the client's `response.steer`, where it was sent. A `custom` event
    stands where the input took effect, so that the conversation has it in its place.
    """

    def __init__(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> None:
        super().__init__(provider=provider, include_raw=include_raw, limits=limits)
        self._decode = _socket.decode
        self._type = _SocketEvent
        self._steerings = Steerings(provider)
        self._over: tuple[str, dict[str, Any] | None] | None = None  # the last event of a response, held
        self._earlier: Usage | None = None

    def on(self, wire: WireEvent) -> None:
        """Turns one event into ours."""
        kind = wire.type
        if kind in _ON_STEERING:
            self._on_steering(wire, kind)
        elif kind in TERMINAL and self._steerings.due:
            self._over = (kind, wire.response)
        elif kind == "response.created" and self._over is not None:
            self._go_on(wire)
        else:
            super().on(wire)

    def end(self) -> None:
        """The body is over; a response that is, too, needs no successor, unless input was taken for one."""
        if not self._steerings.items:
            self._end_held()
        super().end()

    def _on_steering(self, wire: WireEvent, kind: str) -> None:
        if kind == "response.steer":
            items = wire.input if isinstance(wire.input, list) else []
            self._steerings.sent(Submission(items))
            return
        self._steerings.hear(kind, getattr(wire, "steer", None), wire.error)
        if self._over is not None and not self._steerings.due:
            self._take_effect()
            self._end_held()

    def _end_held(self) -> None:
        held, self._over = self._over, None
        if held is not None:
            self._on_terminal(*held)

    def _go_on(self, wire: WireEvent) -> None:
        """The successor begins: what the last response left open is closed, and places count anew."""
        held, self._over = self._over, None
        response = (held[1] if held is not None else None) or {}
        for item in list(self.items.values()):
            self.settle(item, cut=True)
        self._end_audio()
        self.broken = False
        self._earlier = (self._earlier or Usage()) + read_usage(response.get("usage"))
        self._take_effect()
        self.items.clear()
        self._named = False
        self._spoken = None
        super().on(wire)

    def _take_effect(self) -> None:
        self.out += [steering_event(item, self.provider) for item in self._steerings.take()]

    def _on_error(self, wire: WireEvent) -> None:
        """An error event; over a socket it says what HTTP says in the head of an answer."""
        status, error = getattr(wire, "status", None), wire.error
        if not (isinstance(status, int) and 400 <= status < 600 and isinstance(error, dict)):
            super()._on_error(wire)
            return
        headers = error.get("headers")
        told = {str(k).lower(): str(v) for k, v in headers.items()} if isinstance(headers, dict) else {}
        failure = error_from_value({"error": error}, provider=self.provider, status=status, headers=told)
        if error.get("code") == "websocket_connection_limit_reached":
            failure.retryable = True  # over another socket
        self.fail(failure)

    def _finish(self, reason: FinishReason, raw: str, response: dict[str, Any]) -> None:
        if self._earlier is not None:
            self.usage = self._earlier + self.usage
        super()._finish(reason, raw, response)


_ON_STEERING: Final = frozenset(
    {"response.steer", "response.steer.accepted", "response.steer.pending", "response.steer.failed"}
)
