"""WebSockets through the gateway: the Responses API, if the client uses the vendor's own wire.

Messages are forwarded unchanged in both directions, each direction in a task. A message that requests a
response names the model: it is a call with key, limits and log, as over HTTP, and determines the vendor. A
decoder monitors the vendor's messages for usage, and cannot change a byte.

Requests that need translation are refused with status 426, after which clients use HTTP: Codex at the
handshake, others at the error. Calls over sockets are not recorded.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, Protocol

import msgspec

from llmstream.dialects.base import Encoded
from llmstream.errors import BadRequest, ErrorInfo, IncompleteStream, LLMStreamError, Overloaded, RateLimited
from llmstream.exchange import HttpRequest
from llmstream.gateway.accounts import Account
from llmstream.gateway.admission import Refused
from llmstream.gateway.client_wire import ClientCall, client_error, sent_headers, with_model
from llmstream.gateway.passing import needs_http, socket_model, vendor_path
from llmstream.gateway.reading_along import StreamMonitor
from llmstream.gateway.routes import Target
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide
from llmstream.streams.attempts import worth_another
from llmstream.streams.model import Model
from llmstream.transport.deadlines import Watchdog

if TYPE_CHECKING:
    from llmstream.gateway.gateway import Gateway
    from llmstream.transport.websocket import Socket

__all__ = ["ClientSocket", "PassedSocket"]

_log: Final = logging.getLogger("llmstream.gateway")

# Close codes; source: RFC 6455, 7.4.1.
_GOING_AWAY: Final = 1001
_POLICY: Final = 1008
_FAILED: Final = 1011

# How long a client may take for its half of the closing handshake.
_CLOSING_S: Final = 5.0

# Only messages with these types, as written in JSON, may end a response; the decoder is not checked after
# others.
_ENDS: Final = (b'"response.completed"', b'"response.incomplete"', b'"response.failed"', b'"error"')

# Requests that a client may send before the first response ends; each has a reserve.
_MAX_OPEN: Final = 64


class ClientSocket(Protocol):
    """The client's WebSocket, on any server."""

    async def accept(self) -> None:
        """Completes the handshake."""

    async def receive(self) -> bytes | None:
        """The next message; None once the client has disconnected."""

    async def send(self, message: bytes) -> None:
        """Sends a text message; raises OSError if the client has disconnected."""

    async def close(self, code: int, reason: str) -> None:
        """Closes the socket, with the closing handshake."""


class _Message(msgspec.Struct):
    type: Any = None
    stream_id: Any = None


_decode: Final = msgspec.json.Decoder(_Message).decode


class _Call:
    """One response, and its successors if it is steered.

    lane: the `stream_id` of its messages
    """

    def __init__(self, account: Account, model: Model[Any], vendor: _Vendor, lane: Any) -> None:
        sockets, name = model.provider.dialect.sockets, model.provider.name
        assert sockets is not None  # by `socket_model`
        now = asyncio.get_running_loop().time()
        self.account = account
        self.lane = lane
        self._watchdog = Watchdog(model.deadlines, vendor.abort, started=now, total_started=now)
        decoder = sockets.socket_decoder(provider=name, limits=model.limits)
        self._reading = StreamMonitor(decoder, account, self._watchdog)

    def read(self, message: bytes) -> bool:
        """Monitors a message; returns whether the response has ended."""
        self._watchdog.waiting_since = asyncio.get_running_loop().time()
        self._reading.feed(_framed(message))
        return any(end in message for end in _ENDS) and self._reading.over

    def end(self) -> None:
        """Settles a response that is complete or was interrupted."""
        self._reading.end()
        if self._reading.failure is not None:
            self.account.failed(self._reading.failure.info)
        self._settle()

    def fail(self, error: ErrorInfo) -> None:
        """Settles a response whose vendor has failed."""
        self._reading.leave()
        self.account.failed(error)
        self._settle()

    def leave(self) -> None:
        """Settles a response whose client has disconnected."""
        self._reading.leave()
        self._settle()

    def _settle(self) -> None:
        self._watchdog.release()
        self.account.settle()


class _Vendor:
    """The vendor's socket.

    place: its address, and the target it was opened for
    """

    def __init__(self, socket: Socket, place: tuple[str, Target]) -> None:
        self.place = place
        self.failure: LLMStreamError | None = None
        self._socket = socket
        self.send = socket.send

    async def receive(self) -> bytes:
        """The next message; b"" once it is closed normally; raises LLMStreamError."""
        try:
            return await self._socket.receive()
        except LLMStreamError as error:
            raise (self.failure or error) from None

    @property
    def closed(self) -> bool:
        """Whether it is known to be unusable."""
        return self._socket.closed

    def abort(self, error: LLMStreamError) -> None:
        """Closes it, with this error for its reader."""
        self.failure = self.failure or error
        self._socket.drop()


class PassedSocket:
    """One client's socket, and that of its vendor."""

    def __init__(self, gateway: Gateway, http: HttpRequest, side: ServerSide, client: ClientSocket) -> None:
        self._gateway, self._http, self._side, self._client = gateway, http, side, client
        self._calls: list[_Call] = []
        self._drain = False  # whether the route of a call has it
        self._vendor: _Vendor | None = None
        self._relaying: asyncio.Task[None] | None = None
        self._stopping = self._is_left = False
        self._over = asyncio.Event()
        self._close = (1000, "")

    async def run(self) -> None:
        """Forwards messages until either side disconnects."""
        await self._client.accept()
        receiving = asyncio.create_task(self._receive_from_client())
        over = asyncio.create_task(self._over.wait())
        try:
            await asyncio.wait((receiving, over), return_when=asyncio.FIRST_COMPLETED)
            if self._over.is_set():
                receiving.cancel()
                await asyncio.wait((receiving,))  # granian 2.8 closes no socket during a receive
                with suppress(Exception):
                    async with asyncio.timeout(_CLOSING_S):
                        await self._client.close(*self._close)
            elif not receiving.cancelled() and (error := receiving.exception()) is not None:
                raise error
        finally:
            receiving.cancel()
            over.cancel()
            await asyncio.wait((receiving, over))
            self._leave()

    def stop(self) -> None:
        """Closes the socket once the responses in progress have ended."""
        self._stopping = True
        if not self._calls:
            self._end(_GOING_AWAY, "the gateway is shutting down")

    def _end(self, code: int, reason: str) -> None:
        if not self._over.is_set():
            self._close = (code, reason)
            self._over.set()

    def _leave(self) -> None:
        """Disconnects from the vendor; with `drain`, once the responses in progress have ended."""
        self._is_left, relaying = True, self._relaying
        if self._drain and self._calls and relaying is not None and not relaying.done():
            for call in self._calls:
                call.account.left = True
            self._gateway.drains.go_on(relaying)
            relaying.add_done_callback(lambda _: self._drop())
        else:
            if relaying is not None:
                relaying.cancel()
            self._drop()

    def _drop(self) -> None:
        if self._vendor is not None:
            self._vendor.abort(IncompleteStream("the client has left"))
        calls, self._calls = self._calls, []
        for call in calls:
            call.leave()

    # From the client.

    async def _receive_from_client(self) -> None:
        while (message := await self._client.receive()) is not None:
            try:
                found = _decode(message)
            except (msgspec.MsgspecError, ValueError, RecursionError):
                found = _Message()
            try:
                if found.type == "response.create":
                    await self._ask(message, found.stream_id)
                else:
                    await self._pass_on(message, found)
            except Exception as error:
                with suppress(OSError):  # the client has disconnected; the next `receive` reports it
                    await self._refuse(error, found.stream_id)

    async def _pass_on(self, message: bytes, found: _Message) -> None:
        """Forwards a message that requests no new response, such as `response.steer`."""
        if self._vendor is None:
            raise BadRequest(f"{found.type!r} before any response.create", status=400)
        if call := self._call_of(found.stream_id):
            call.read(message)
        await self._vendor.send(message)

    async def _ask(self, message: bytes, lane: Any) -> None:
        gateway = self._gateway
        if gateway.draining or self._stopping:
            raise Refused(Overloaded("The gateway is shutting down.", status=503, retry_after_s=1.0))
        if len(self._calls) >= _MAX_OPEN:
            raise Refused(RateLimited("too many open responses on this socket", status=429))
        # Again for each call: a key may be revoked meanwhile.
        key = await gateway.admission.admit(self._http)
        http = msgspec.structs.replace(self._http, body=message, method="POST")
        client = msgspec.structs.replace(ClientCall.of(self._side, http), streamed=True)
        gateway.admission.check_model(key, client.model)
        route = gateway.routes.find(client.model)
        targets = route.asked(client.model)
        if socket_model(client, targets[0][0], targets[0][1].lane) is None:
            gateway.fallbacks.add(self._http, key.name)
            raise Refused(needs_http(f"the model {client.model!r}"))
        account = await gateway.enter(client, key, route, targets)
        account.row.lane = "pass"
        try:
            model, vendor = await self._vendor_for(client, targets, account)
            self._drain = self._drain or route.drain
            call = _Call(account, model, vendor, lane)
        except BaseException as error:
            if isinstance(error, LLMStreamError | Refused):
                account.failed(error.error.info if isinstance(error, Refused) else error.info)
            account.settle()
            raise
        self._calls.append(call)
        is_named = client.model == model.name
        try:
            await vendor.send(message if is_named else with_model(http, model.name).body)
        except LLMStreamError as error:
            if call in self._calls:  # otherwise the other task has detected the end
                self._calls.remove(call)
                call.fail(error.info)
            raise

    async def _vendor_for(
        self, client: ClientCall, targets: Sequence[tuple[Model[Any], Target]], account: Account
    ) -> tuple[Model[Any], _Vendor]:
        """Returns the first reachable vendor; the one of the last call if it can serve this one.

        raises: LLMStreamError
        """
        for number, (given, target) in enumerate(targets, 1):
            model = socket_model(client, given, target.lane)
            if model is None:
                break  # from here on, only translation is possible
            account.asked(model, target)
            try:
                return model, await self._connected(model, target)
            except LLMStreamError as error:
                if number == len(targets) or not worth_another(error):
                    raise
                account.failed_over(error.info)
        raise Refused(needs_http(f"the model {client.model!r}"))

    async def _connected(self, model: Model[Any], target: Target) -> _Vendor:
        from llmstream.transport.websocket import connect

        path = vendor_path(model.provider.dialect, model.name, model.provider.name)
        http = HttpRequest(path, b"", {}, "GET")
        prepared = await model._addressed(
            Encoded(http), Request(model=model.name), sent_headers(self._http.headers)
        )
        place = (prepared.http.url, target)
        vendor = self._vendor
        if vendor is not None and not vendor.closed:
            # A socket serves all models of its vendor.
            if vendor.place[0] == place[0] and _same_account(vendor.place[1], target):
                return vendor
            if self._calls:
                raise Refused(
                    BadRequest("another vendor's response is in progress on this socket", status=400)
                )
        socket = await connect(
            prepared.http,
            model.deadlines,
            model._session,
            max_message_bytes=model.limits.max_event_bytes,
            refusal=model._decode_error,
        )
        await self._forget()
        self._vendor = vendor = _Vendor(socket, place)
        self._relaying = asyncio.create_task(self._relay(vendor))
        return vendor

    async def _forget(self) -> None:
        """Disconnects from the vendor of earlier calls."""
        relaying, vendor = self._relaying, self._vendor
        if relaying is not None and vendor is not None:
            relaying.cancel()
            await asyncio.wait((relaying,))
            vendor.abort(IncompleteStream("another vendor is asked"))

    async def _refuse(self, error: Exception, lane: Any) -> None:
        """Sends an error as a message, with its status; a client that needs HTTP is disconnected."""
        info = _failure(error)
        await self._client.send(self._error_message(info, lane))
        if info.status == 426:
            self._end(_POLICY, "use HTTP")

    def _error_message(self, info: ErrorInfo, lane: Any) -> bytes:
        reply = self._side.encode_error(info)
        error = msgspec.json.decode(reply.body)["error"]
        if info.retry_after_s is not None:
            error["headers"] = {"retry-after": f"{info.retry_after_s:g}"}
        lanes = {} if lane is None else {"stream_id": lane}
        return msgspec.json.encode({"type": "error", "status": reply.status, "error": error, **lanes})

    # From the vendor.

    async def _relay(self, vendor: _Vendor) -> None:
        """Passes messages to the client until the vendor closes."""
        try:
            while message := await vendor.receive():
                call = self._call_for(message)
                is_over = call is not None and call.read(message)
                if not self._is_left:
                    with suppress(OSError):  # the task reading from the client also detects that
                        await self._client.send(message)
                if call is not None and is_over:
                    self._calls.remove(call)
                    call.end()
                    if not self._calls and self._stopping:
                        self._end(_GOING_AWAY, "the gateway is shutting down")
                    if not self._calls and self._is_left:
                        return
        except LLMStreamError as error:
            await self._broken(error)
        else:
            self._ended()

    async def _broken(self, error: LLMStreamError) -> None:
        calls, self._calls = self._calls, []
        info = client_error(error.info)
        for call in calls:
            call.fail(error.info)
            with suppress(OSError):
                await self._client.send(self._error_message(info, call.lane))
        self._end(_FAILED, "the vendor's connection broke")

    def _ended(self) -> None:
        """Handles a normal close by the vendor; a response in progress is incomplete then."""
        calls, self._calls = self._calls, []
        for call in calls:
            call.end()
        self._end(*((_FAILED, "the response broke off") if calls else (1000, "the vendor closed")))

    def _call_for(self, message: bytes) -> _Call | None:
        """The call that a message of the vendor belongs to."""
        if len(self._calls) <= 1:
            return self._calls[0] if self._calls else None
        with suppress(msgspec.MsgspecError, ValueError, RecursionError):
            return self._call_of(_decode(message).stream_id)
        return self._calls[0]

    def _call_of(self, lane: Any) -> _Call | None:
        """The first open call of a lane, else the first: responses come in the order of their requests."""
        for call in self._calls:
            if call.lane == lane:
                return call
        return self._calls[0] if self._calls else None


def _same_account(one: Target, other: Target) -> bool:
    """Whether two targets at one address have the same key and headers."""
    return (one.api_key_env, one.headers) == (other.api_key_env, other.headers)


def _failure(error: Exception) -> ErrorInfo:
    if isinstance(error, Refused):
        return error.error.info
    if isinstance(error, LLMStreamError):
        return client_error(error.info)
    _log.error("the gateway failed", exc_info=error)
    return ErrorInfo("server-error", "The gateway failed. Its log has more.", retryable=True, status=500)


def _framed(message: bytes) -> bytes:
    """A message as a server-sent event; line breaks in JSON are always white space."""
    if b"\n" in message or b"\r" in message:
        message = message.replace(b"\n", b" ").replace(b"\r", b" ")
    return b"data: " + message + b"\n\n"
