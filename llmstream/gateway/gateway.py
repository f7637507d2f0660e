"""`Gateway`: answers requests of every client's wire with any model, without a server."""

from __future__ import annotations

import functools
import logging
import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec

from llmstream.errors import (
    BadRequest,
    ErrorInfo,
    InvalidRequest,
    LLMStreamError,
    NotFound,
    Overloaded,
)
from llmstream.events import Warning, warning_text
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.gateway.accounts import Account, Row, estimated_tokens
from llmstream.gateway.admission import Admission, Refused, given_secrets, ledger_of, tag_budgets
from llmstream.gateway.carrying import Carrier, CarryingEncoder
from llmstream.gateway.client_wire import ClientCall, WireWriter, client_error, error_reply
from llmstream.gateway.draining import Drains
from llmstream.gateway.ledger import Key, Ledger
from llmstream.gateway.passing import (
    Fallbacks,
    needs_http,
    open_passed,
    other_path,
    passable,
    socket_model,
)
from llmstream.gateway.recordings import CallRecord, Recordings
from llmstream.gateway.routes import Limits, Route, RouteLike, Routes, Target, routes_of
from llmstream.gateway.telemetry import Metrics, Telemetry
from llmstream.gateway.translating import Events, complete_reply
from llmstream.serve.body import Body
from llmstream.server_side.routing import Router, count_request, default_dialects, is_public, lookup
from llmstream.server_side.wires import ServerSide, server_side
from llmstream.streams.attempts import worth_another
from llmstream.streams.model import Model
from llmstream.transport.http import tapped
from llmstream.usage import Usage
from llmstream.warming import try_to_warm_up

if TYPE_CHECKING:
    from aiohttp import web

    from llmstream.gateway.sockets import ClientSocket, PassedSocket
    from llmstream.serve.asgi import Receive, Scope, Send

__all__ = ["Gateway"]

_log: Final = logging.getLogger("llmstream.gateway")

_recorded: Final[ContextVar[CallRecord | None]] = ContextVar("recorded", default=None)

ReadBody = Callable[[], Awaitable[bytes]]

# A model's text is served from the operator's host: browsers must not interpret it as a page or a script.
_SECURITY: Final = {"x-content-type-options": "nosniff", "referrer-policy": "no-referrer"}

# Reserved for a request without a limit; its actual usage is settled afterwards.
_USUAL_OUTPUT_TOKENS: Final = 4_096

_FAMILIES: Final = (
    frozenset({"openai-chat", "openai-responses"}),
    frozenset({"gemini", "gemini-interactions"}),
)
# The name matched against patterns for a path without a model; never sent to a vendor.
_NO_MODEL: Final = "-"

# Models that match no pattern of the price list, which is slow to determine.
_unpriced: Final[set[str]] = set()
_MAX_UNPRICED: Final = 10_000

# Enough for a summary; headers are limited in size.
_MAX_WARNINGS_CHARS: Final = 1_000


class Gateway:
    """Serves models to clients of every vendor's API.

        gateway = Gateway({"claude-sonnet": "anthropic:claude-sonnet-4-5", "*": "google:gemini-3-flash"})
        app = gateway.asgi              # uvicorn, granian, hypercorn
        app = gateway.aiohttp()         # an aiohttp.web.Application
        body = await gateway.answer(HttpRequest("/v1/messages", body, headers))

    routes:         name or pattern to "provider:model", a `Model`, or several: the next one is tried if one
                    fails before its first content
    keys:           the store of keys, budgets and the log: the path of an SQLite file, "redis://...", or a
                    `Ledger`; None stores nothing
    require_keys:   "auto" as soon as the file has a key; always where other machines may call
    allow_remote:   accepts requests that name another host; needs keys
    limits:         for keys without limits of their own
    tags:           budgets of tags, such as {"research": "20usd/30d"}; a call has the tag of its key, or of
                    its header `x-llmstream-tag`
    recordings:     folder for the calls of routes with `record`, or `Recordings`
    max_body_bytes: of a request; larger ones are refused
    heartbeat_s:    idle time after which a stream gets bytes that clients ignore
    metrics:        serves /metrics for Prometheus; needs the extra `gateway`
    telemetry:      OpenTelemetry's spans and metrics; needs the extra `otel`
    """

    def __init__(
        self,
        routes: Mapping[str, RouteLike] | Routes,
        *,
        keys: Ledger | str | Path | None = None,
        require_keys: Literal["required", "none", "auto"] = "auto",
        allow_remote: bool = False,
        limits: Limits = Limits(),
        tags: Mapping[str, str] | None = None,
        recordings: Recordings | str | Path | None = None,
        max_body_bytes: int = 32 * 1024 * 1024,
        heartbeat_s: float = 15.0,
        metrics: bool = False,
        telemetry: Telemetry | None = None,
    ) -> None:
        self.routes = routes_of(routes)
        self.admission = Admission(
            ledger_of(keys),
            keys=require_keys,
            allow_remote=allow_remote,
            limits=limits,
            tags=tag_budgets(tags or {}),
        )
        self._carrier = _carrier_of(self.admission)
        self.draining = False
        self.drains = Drains()
        self.sockets: set[PassedSocket] = set()
        self.fallbacks = Fallbacks()
        self.recordings = Recordings(recordings) if isinstance(recordings, str | Path) else recordings
        if self.recordings is None and any(route.record for route in self.routes.all):
            raise InvalidRequest("a route has `record`, but there is no folder. Pass recordings=FOLDER.")
        self._metrics = Metrics() if metrics else None
        self.telemetry = telemetry
        self.max_body_bytes = max_body_bytes
        self._heartbeat_s = heartbeat_s
        self._sides = [server_side(dialect) for dialect in default_dialects()]
        self._router = Router(self._sides)
        self._side_of = functools.lru_cache(maxsize=1024)(self._find_side)

    async def warm_up(self) -> None:
        """Imports the modules that requests need, and connects to the vendors of routes without a pattern.

        A vendor that cannot be reached is logged. `asgi` and `aiohttp` do this when their server starts.
        """
        for name in self.routes.names:
            # Only the first model: the others are fallbacks.
            await try_to_warm_up(self.routes.find(name).asked(name)[0][0])

    async def answer(self, http: HttpRequest, read: ReadBody | None = None) -> Body:
        """Returns the response to one request: status, headers and an async iterator of bytes.

        Errors are responses too, in the form of the client's wire.

        http: the request as received: path and query, header names in lower case
        read: returns the body, and is called once the request is admitted; without it `http` has the body
        """
        side = self._side_of(http.method, http.url.partition("?")[0])
        recorded, tap = _recorded.set(None), tapped.set(None)
        try:
            try:
                body = await self._answered(http, side, read)
            except Exception as error:
                body = _complete_body(error_reply(side or self._router.guess(http), _failure(error)))
            record = _recorded.get()
            if record is not None:
                record.answered(body)
            return body
        except BaseException:  # the client has disconnected
            record = _recorded.get()
            if record is not None:
                record.got(b"")
            raise
        finally:
            tapped.reset(tap)
            _recorded.reset(recorded)

    async def _answered(self, http: HttpRequest, side: ServerSide | None, read: ReadBody | None) -> Body:
        page = self._public_page(http)
        if page is not None:
            return _complete_body(page)
        key = await self.admission.admit(http)
        if self.draining:
            raise Refused(Overloaded("The gateway is shutting down.", status=503, retry_after_s=1.0))
        page = self._page(http, key)
        if page is not None:
            return _complete_body(page)
        # After admission: a client without a key must not make the gateway buffer 32 MiB.
        http = msgspec.structs.replace(http, body=http.body if read is None else await read())
        if len(http.body) > self.max_body_bytes:
            raise too_large(self.max_body_bytes)
        counted = await self._counted(http, key)
        if counted is not None:
            return _complete_body(counted)
        if side is None:
            client = ClientCall.of_other(self._router.guess(http), http)
        else:
            client = ClientCall.of(side, http)
        if client.model:  # before the route: the error of an unknown model lists the known ones
            self.admission.check_model(key, client.model)
        route = self._route_of_other(client) if client.other else self.routes.find(client.model)
        return await self._respond(client, key, route)

    async def answer_socket(self, http: HttpRequest, client: ClientSocket) -> Body | None:
        """Passes the messages of a client's WebSocket to its vendor and back, until either side closes.

        Returns the response to a handshake that is refused: with 426 if only HTTP is possible.

        http:   the handshake
        client: its socket, not accepted yet
        """
        side = self._side_of("POST", http.url.partition("?")[0])
        try:
            key = await self.admission.admit(http)
            if self.draining:
                raise Refused(Overloaded("The gateway is shutting down.", status=503, retry_after_s=1.0))
            if side is None or not self._has_sockets(http, side, key) or self.fallbacks.has(http, key.name):
                raise Refused(needs_http(http.url.partition("?")[0]))
        except Exception as error:
            return _complete_body(error_reply(side or self._router.guess(http), _failure(error)))
        from llmstream.gateway.sockets import PassedSocket  # imported only for WebSockets

        socket = PassedSocket(self, http, side, client)
        self.sockets.add(socket)
        try:
            await socket.run()
        finally:
            self.sockets.discard(socket)
        return None

    def _has_sockets(self, http: HttpRequest, side: ServerSide, key: Key) -> bool:
        """Whether a model allowed for the key supports WebSockets on this wire."""
        for route in self.routes.all:
            if key.may_use(route.pattern) or "*" in route.pattern:
                model, target = route.asked(_NO_MODEL)[0]
                client = ClientCall(side, http, _NO_MODEL, streamed=True)
                if socket_model(client, model, target.lane) is not None:
                    return True
        return False

    def stop_sockets(self) -> None:
        """Closes the WebSockets of clients, each once its responses in progress have ended."""
        for socket in list(self.sockets):
            socket.stop()

    def _find_side(self, method: str, path: str) -> ServerSide | None:
        return self._router.find(HttpRequest(path, method=method))

    def _public_page(self, http: HttpRequest) -> HttpResponse | None:
        """A page for health probes and clients that check for a server; it needs no key."""
        match http.url.partition("?")[0]:
            case "/healthz":
                return _text(200, "ok")
            case "/readyz":
                return _text(503, "shutting down") if self.draining else _text(200, "ready")
        return lookup(http, ()) if is_public(http) else None

    def _page(self, http: HttpRequest, key: Key) -> HttpResponse | None:
        """Metrics, or the models that a key may use."""
        if http.url == "/metrics" and self._metrics is not None:
            content_type, body = self._metrics.page()
            return HttpResponse(200, body, {"content-type": content_type})
        return lookup(http, [name for name in self.routes.names if key.may_use(name)])

    def _route_of_other(self, client: ClientCall) -> Route:
        """The route of a path outside all wires: that of the model it names, else that of the client's
        vendor.

        raises: NotFound with what to do
        """
        wanted = [self.routes.find(client.model)] if client.model else self.routes.all
        for route in wanted:
            if not route.other_paths:
                continue
            model, _ = route.asked(client.model or _NO_MODEL)[0]
            dialect = model.provider.dialect
            is_vendors = bool(client.model) or dialect.name in _family(client.side.name)
            if is_vendors and other_path(dialect, client.path) is not None:
                return route
        raise _no_such_path(client)

    async def _respond(self, client: ClientCall, key: Key, route: Route) -> Body:
        if not client.model:
            self.admission.check_model(key, route.pattern)
        targets = route.asked(client.model or _NO_MODEL)
        account = await self.enter(client, key, route, targets)
        if route.record and self.recordings is not None:
            record = self.recordings.begin(account, client.http, given_secrets(client.http))
            _recorded.set(record)
            tapped.set(record.asked)
        opening = self._opened(client, targets, account, drain=route.drain)
        return await (self.drains.opened(opening, account) if route.drain else opening)

    async def enter(
        self, client: ClientCall, key: Key, route: Route, targets: Sequence[tuple[Model[Any], Target]]
    ) -> Account:
        """Returns the account of a call that limits and budgets allow; the caller must settle it.

        raises: Refused
        """
        first, target = targets[0]
        row = Row(
            started=time.time(),
            key=key.name,
            tag=self.admission.tag_of(key, client.http),
            route=route.pattern,
            wire=client.side.name,
            asked=client.model or client.path,
            model=f"{first.provider.name}:{first.name}",
            streamed=client.streamed,
        )
        most = _most_usage(client)
        asked, made = most.input_tokens or 0, most.output_tokens or 0
        cost_usd = self._price(row.model, most, target) if asked else 0.0
        # The maximum cost, reserved before the call: concurrent calls cannot overspend together.
        await self.admission.reserve(row, key, asked + made, cost_usd)
        if self._metrics is not None:
            self._metrics.began()
        # After the reservation every path settles: here, when the body ends, or when the client disconnects.
        trace = None if self.telemetry is None else self.telemetry.began(row, client.http.headers)
        return Account(row, input_estimate=asked, price=self._price, settled=self._settled, trace=trace)

    async def _opened(
        self,
        client: ClientCall,
        targets: Sequence[tuple[Model[Any], Target]],
        account: Account,
        *,
        drain: bool,
    ) -> Body:
        """As `_laned`; settles the account of a call that has no body.

        Also if the client disconnects: an unsettled reserve would count against the budget for its window.
        """
        try:
            return await self._laned(client, targets, account, drain=drain)
        except BaseException as error:
            if isinstance(error, LLMStreamError):
                account.failed(error.info)
            account.settle()
            raise

    def _price(self, model: str, usage: Usage, target: Target | None) -> float | None:
        # The price list takes 14 MB, so a gateway without a ledger does not load it.
        is_recorded = (
            self.admission.ledger is not None or self._metrics is not None or self.recordings is not None
        )
        return _price(model, usage, target) if is_recorded else None

    def _settled(self, row: Row) -> None:
        self.admission.settle(row)
        if self._metrics is not None:
            self._metrics.ended(row)

    async def _laned(
        self,
        client: ClientCall,
        targets: Sequence[tuple[Model[Any], Target]],
        account: Account,
        *,
        drain: bool,
    ) -> Body:
        """Tries the models in order; from the first one with another wire on, all are translated."""
        for number, (model, target) in enumerate(targets, 1):
            passed = model if client.other else passable(client, model, target.lane)
            if passed is None:
                return await self._translated(client, targets[number - 1 :], account, drain=drain)
            account.row.lane = "pass"
            account.asked(model, target)
            more = number < len(targets) and not client.other
            try:
                body = await open_passed(
                    client, passed, account, more=more, drains=self.drains if drain else None
                )
            except LLMStreamError as error:
                if not more or account.began or not worth_another(error):
                    raise
                # No byte has reached the client, so another model can answer instead.
                account.failed_over(error.info)
                continue
            await self._open(body, {"x-llmstream-model": account.row.model})
            return body
        raise InvalidRequest(f"the route {account.row.route!r} names no model")

    async def _translated(
        self,
        client: ClientCall,
        targets: Sequence[tuple[Model[Any], Target]],
        account: Account,
        *,
        drain: bool,
    ) -> Body:
        account.row.lane = "translate"
        owner, wire = account.row.key, client.side.name
        request = await self._carrier.restored(client.request(), wire, owner)
        encoder = CarryingEncoder(
            client.side.event_encoder(request), self._carrier, wire, owner, lambda: account.wire == wire
        )
        headers: dict[str, str] = {}

        def warned(warnings: Sequence[Warning]) -> None:
            headers.update(_warning_header(warnings))
            headers["x-llmstream-model"] = account.row.model

        events = Events(request, targets, account, warned)
        if not client.streamed:
            reply = await complete_reply(client, encoder, events)
            account.settle()
            return _complete_body(msgspec.structs.replace(reply, headers={**reply.headers, **headers}))
        writer = WireWriter(client.side, encoder)
        source = self.drains.of(events, account) if drain else events
        body = Body(source, writer, heartbeat_s=self._heartbeat_s)
        await self._open(body, headers)
        return body

    async def _open(self, body: Body, headers: dict[str, str]) -> None:
        """Waits until the status is known; adds the information available by then to the headers."""
        await body.open()
        body.headers |= {**headers, **_SECURITY}

    async def _counted(self, http: HttpRequest, key: Key) -> HttpResponse | None:
        """Returns the page of a token count: the vendor's own, or an estimate; None for another request."""
        from llmstream.streams.lookups import count_tokens

        asked = count_request(http, self._sides)
        if asked is None:
            return None
        name = ClientCall.of(asked.side, asked.http).model
        self.admission.check_model(key, name)
        model, _ = self.routes.find(name).asked(name)[0]
        request = asked.request
        try:
            found = (
                await count_tokens(model, msgspec.structs.replace(request, model=model.name))
            ).input_tokens
        except LLMStreamError:
            # Clients that count before each request, such as Claude Code, would otherwise fail here although
            # the vendor can answer them.
            found = estimated_tokens(len(http.body))
        return asked.page(found)

    async def aclose(self, drain_s: float = 30.0) -> None:
        """Waits until responses of disconnected clients are read to their end, and all calls are in the log.

        drain_s: for the responses; those that take longer are closed
        """
        try:
            await self.drains.finish(drain_s)
        finally:
            self.close()

    def close(self) -> None:
        """Waits until all calls are in the log and recorded, and closes the store."""
        if self.recordings is not None:
            self.recordings.close()
        self.admission.close()
        if self.telemetry is not None:
            self.telemetry.close()

    @property
    def asgi(self) -> Callable[[Scope, Receive, Send], Awaitable[None]]:
        """The gateway as an ASGI application."""
        from llmstream.gateway.servers import asgi_application

        return asgi_application(self)

    def aiohttp(self) -> web.Application:
        """The gateway as an application of aiohttp.web."""
        from llmstream.gateway.servers import aiohttp_application

        return aiohttp_application(self)


def _failure(error: Exception) -> ErrorInfo:
    """Returns the form of an error that the client may see."""
    if isinstance(error, Refused):
        return error.error.info
    if isinstance(error, LLMStreamError):
        return client_error(error.info)
    _log.error("the gateway failed", exc_info=error)
    text = "The gateway failed. Its log has more."
    return ErrorInfo("server-error", text, retryable=True, status=500)


def too_large(limit: int) -> BadRequest:
    """Returns the error for a body beyond the limit."""
    return BadRequest(f"the request is larger than {limit} bytes", status=413, reason="request_too_large")


def _complete_body(reply: HttpResponse) -> Body:
    return Body.complete(msgspec.structs.replace(reply, headers={**reply.headers, **_SECURITY}))


def _most_usage(client: ClientCall) -> Usage:
    """The maximum usage of a call. For another path without a model, such as an upload, it is unknown."""
    if client.other:
        return Usage(estimated_tokens(len(client.http.body)) if client.model else 0, 0)
    output = client.most_output_tokens or _USUAL_OUTPUT_TOKENS
    return Usage(estimated_tokens(len(client.http.body)), output)


def _family(wire: str) -> frozenset[str]:
    """The wires of one vendor, which share its other paths."""
    return next((family for family in _FAMILIES if wire in family), frozenset({wire}))


def _no_such_path(client: ClientCall) -> NotFound:
    what = f"the route of {client.model!r}" if client.model else "a route of its vendor"
    return NotFound(
        f"The gateway has no path {client.http.method} {client.path}. To pass the vendor's other paths "
        f"through, set `other_paths = true` in {what}.",
        status=404,
        reason="not_found",
    )


def _warning_header(warnings: Sequence[Warning]) -> dict[str, str]:
    """The request parts that the responding model does not support, in one line of ASCII."""
    texts = [warning_text(one) for one in warnings]
    line = "; ".join(texts).encode("ascii", "replace").decode()
    shown = "".join(char if char.isprintable() else " " for char in line)[:_MAX_WARNINGS_CHARS]
    return {"x-llmstream-warnings": shown} if shown else {}


def _price(model: str, usage: Usage, target: Target | None) -> float | None:
    """What the tokens cost, in US dollars; None if no price is known."""
    if target is not None and target.price is not None:
        return target.price.cost(usage)
    from llmstream.prices import estimated_price

    if model in _unpriced:
        return None
    found = estimated_price(model, usage)
    if found is None and usage.input_tokens is not None and len(_unpriced) < _MAX_UNPRICED:
        _unpriced.add(model)
    return found


def _carrier_of(admission: Admission) -> Carrier:
    ledger = admission.ledger
    if ledger is None:
        # Envelopes of a gateway without a store are valid until it restarts; after that they are dropped.
        return Carrier(os.urandom(32))
    return Carrier(
        ledger.secret("envelope"),
        lambda rows, keep_s: admission.later(lambda ledger: ledger.carry(rows, keep_s)),
        lambda keys: admission.ask(lambda ledger: ledger.carried(keys)),
    )


def _text(status: int, text: str) -> HttpResponse:
    return HttpResponse(status, text.encode(), {"content-type": "text/plain; charset=utf-8"})
