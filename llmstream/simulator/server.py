"""The simulator: an HTTP server on loopback that responds in several dialects.

The `sim` providers have simulators in this process: one for each event loop, dialect and script.
"""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

import msgspec
from aiohttp import HttpVersion11, web

from llmstream.dialects.base import Dialect
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import BadRequest, InvalidRequest, LLMStreamError, ServerError, error_from_info
from llmstream.exchange import HttpRequest, HttpResponse, redact_headers
from llmstream.request import Request
from llmstream.server_side.local_only import host_is_local, is_foreign_page
from llmstream.server_side.routing import (
    Router,
    as_streamed,
    count_request,
    default_dialects,
    is_complete_requested,
    is_public,
    lookup,
)
from llmstream.server_side.wires import ServerSide, server_side
from llmstream.server_side.wires.openai_responses.reader import BackgroundRequest
from llmstream.simulator.admission import (
    VendorLimits,
    check_bind,
    check_key,
    is_known_path,
    masked,
    no_such_path,
    usual_path,
)
from llmstream.simulator.batches import BatchFaults, BatchPages, SilentJob
from llmstream.simulator.demo import Demo, Obedient
from llmstream.simulator.recording import Received, Recording, RequestLog
from llmstream.simulator.script import (
    Cut,
    Pace,
    Refuse,
    Script,
    ScriptFunction,
    ScriptLike,
    Stall,
    Turn,
    as_script,
)
from llmstream.simulator.socket_server import SocketServer, wants_socket
from llmstream.simulator.stored import BackgroundResponses, ContinuedAnswers, uncut
from llmstream.simulator.timeline import (
    Player,
    TimedEvent,
    complete_body,
    complete_response,
    error_response,
    failure_of,
    id_headers,
    pieces_of,
    refusal_of,
    shown_share,
    timeline_of,
    tokens_of,
)
from llmstream.transport.sessions import LoopBound

__all__ = [
    "Simulator",
    "script_address",
]

_log: Final = logging.getLogger("llmstream.simulator")

# Key in `provider_options` for a request's vendor-specific fields.
_VENDOR: Final = "openai"

_JSON: Final = "application/json"

_FOREIGN_HOST: Final = (
    "the simulator only serves this machine, but the Host header names another. Send Host: localhost "
    "(nginx: proxy_set_header Host localhost), or serve others: allow_remote=True, simulate --host 0.0.0.0"
)

# Limit for closing connections; handlers are cancelled before.
_CLOSE_S: Final = 1.0


class Simulator:
    """Simulates vendors of all dialects, for demonstrations and tests. Use it with `async with`.

    script:       turns, or a function of the request; by default a demo that calls the offered tools
    recordings:   responses to all requests in order, the last one repeatedly, in place of a script
    speed:        of recordings; 1.0 is the original speed, None does not wait
    dialects:     the first that accepts a request handles it, or one whose name begins the path
    api_keys:     accepted keys; None accepts all requests
    pace:         of turns without their own
    block_bytes:  size of writes; by default one write per event
    max_log_bytes: total size of the bodies stored in `requests`
    models:       names in the lists of models; requests may use any name
    limits:       rate limits that all clients share; requests beyond them get a 429 (HTTP only)
    strict_paths: answers paths that no vendor has, such as `/v1/v1/messages`, with not found; otherwise
                  any path that ends like a vendor's is accepted
    batches:      what goes wrong in batches; by default they are over at once, and complete

    url:      base URL, such as "http://127.0.0.1:40123"
    requests: received requests in order; the oldest bodies are dropped for new ones. For a WebSocket,
              the handshake and each message that requests an answer, with the method WEBSOCKET
    """

    def __init__(
        self,
        script: ScriptLike | ScriptFunction | None = None,
        *,
        recordings: Recording | Iterable[Recording] = (),
        speed: float | None = 1.0,
        dialects: Iterable[Dialect | ServerSide] | None = None,
        api_keys: Collection[str] | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        allow_remote: bool = False,
        pace: Pace | None = None,
        block_bytes: int = 0,
        max_body_bytes: int = 32 * 1024 * 1024,
        max_log_bytes: int = 64 * 1024 * 1024,
        models: Sequence[str] = ("sim",),
        limits: VendorLimits | None = None,
        strict_paths: bool = False,
        batches: BatchFaults | None = None,
        clock: Callable[[], float] = lambda: asyncio.get_running_loop().time(),
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        now: Callable[[], datetime.datetime] | None = None,
    ) -> None:
        check_bind(host, allow_remote=allow_remote)
        self.requests: list[Received] = []
        self._script = as_script(script) if script is not None else Demo()
        self._recordings = [recordings] if isinstance(recordings, Recording) else list(recordings)
        self._speed = speed
        self._sides = [
            given if isinstance(given, ServerSide) else server_side(given)
            for given in (default_dialects() if dialects is None else dialects)
        ]
        self._router = Router(self._sides)
        self._limits = limits
        self._strict_paths = strict_paths
        self._api_keys = api_keys
        self._host, self._port, self._allow_remote = host, port, allow_remote
        self._pace = pace
        self._max_body_bytes = max_body_bytes
        self._models = models
        self._player = Player(clock, sleep, block_bytes)
        self._background = BackgroundResponses(clock)
        self._continued = ContinuedAnswers()
        self._batches = BatchPages(batches, self._answer_alone, lambda: self.url)
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC).replace(microsecond=0))
        self._next_turn = 0
        self._received = 0
        self._log = RequestLog(self.requests, max_log_bytes)
        self._closing = False
        self._handlers: set[asyncio.Task[object]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Base URL without a path.

        raises: InvalidRequest before the start of a server without a port of its own
        """
        if not self._port:
            raise InvalidRequest(
                "the simulator is not running, so it has no address. Enter it first: "
                "`async with Simulator(...) as simulator:`."
            )
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self._port}"

    async def __aenter__(self) -> Simulator:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def start(self) -> None:
        """Opens the port.

        raises: OSError if it is in use
        """
        app = web.Application(client_max_size=self._max_body_bytes)
        app.router.add_route("*", "/{path:.*}", self._handle)
        # aiohttp cancels a handler whose client has gone only if asked to.
        runner = web.AppRunner(app, handler_cancellation=True, access_log=None, shutdown_timeout=_CLOSE_S)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, self._port).start()
        except BaseException:
            await runner.cleanup()
            raise
        self._closing = False
        self._runner = runner
        self._port = runner.addresses[0][1]

    async def close(self) -> None:
        """Stops running responses, closes the port, and waits until all connections are closed."""
        runner, self._runner = self._runner, None
        if runner is None:
            return
        self._closing = True
        # aiohttp waits for handlers, and a stalled turn never ends by itself.
        for handler in self._handlers:
            handler.cancel()
        await runner.cleanup()

    async def serve_forever(self, ready: Callable[[str], object] | None = None) -> None:
        """Serves until cancelled. `ready` is called with the URL once the port is open."""
        async with self:
            if ready is not None:
                ready(self.url)
            await asyncio.Event().wait()

    async def _handle(self, incoming: web.Request) -> web.StreamResponse:
        task = asyncio.current_task()
        if task is not None:
            self._handlers.add(task)
        http = HttpRequest(
            incoming.raw_path, b"", {k.lower(): v for k, v in incoming.headers.items()}, incoming.method
        )
        received = self._log_request(masked(http))
        try:
            return await self._dispatch(incoming, http, received)
        except asyncio.CancelledError:
            received.disconnected = not self._closing
            raise
        # The client has disconnected.
        except ConnectionError:
            received.disconnected = not self._closing
            # nginx's status for a client that has disconnected; it is not delivered.
            return web.Response(status=499)
        finally:
            received.done.set()
            if task is not None:
                self._handlers.discard(task)

    def _log_request(self, http: HttpRequest) -> Received:
        received = Received(http, f"req_sim_{self._received}")
        self._received += 1
        self._log.enter(received)
        if http.body:
            self._log.body(received, http)
        return received

    async def _dispatch(
        self, incoming: web.Request, http: HttpRequest, received: Received
    ) -> web.StreamResponse:
        if not self._allow_remote:
            # A page of the web may resolve its own name to 127.0.0.1 (DNS rebinding); the Host header shows
            # it.
            if not host_is_local(http.headers.get("host")):
                return web.Response(status=403, text=_FOREIGN_HOST)
            if is_foreign_page(http.headers):
                return web.Response(
                    status=403, text="the simulator is for this machine only; the Origin header names another"
                )
        if wants_socket(http):
            return await self._serve_socket(incoming, http, received)
        side = self._router.find(http)
        received.dialect = side.name if side is not None else ""
        try:
            self._check_path(http, side, received)
            # Before the key: clients request some pages, such as versions, without one.
            page = lookup(http, self._models)
            if page is None or not is_public(http):
                check_key(http.headers, self._api_keys)
            if page is not None:
                return _web_response(page)
            # Read only now: a request that is refused for its path or key costs no memory.
            http = msgspec.structs.replace(http, body=await self._body(incoming))
            self._log.body(received, masked(http))
            counted = count_request(http, self._sides)
            if counted is not None:
                return _web_response(counted.page(tokens_of(counted.request)))
            page = self._batches.page(http)
            if page is not None:
                return _web_response(page)
            found = self._background.parse(http, self._sides)
            if found is not None:
                side, wanted = found
                received.dialect = side.name
                if wanted.action != "stream":
                    return _web_response(self._background.page(wanted))
                return await self._resume(incoming, side, wanted, received)
            if self._recordings:
                return await self._replay(incoming, received)
            if side is None:
                raise no_such_path(http, None)
            return await self._respond(incoming, side, http, received)
        except LLMStreamError as error:
            return _web_response(error_response(side or self._router.guess(http), error.info, received))
        except SilentJob:
            if incoming.transport is not None:
                incoming.transport.close()
            raise ConnectionError("the job was created in silence") from None

    def _answer_alone(self, http: HttpRequest) -> HttpResponse:
        """Answers a request of a batch as if it had been sent alone."""
        received = self._log_request(masked(msgspec.structs.replace(http, method="BATCH")))
        received.done.set()
        side = self._router.find(http)
        if side is None:
            return error_response(self._router.guess(http), no_such_path(http, None).info, received)
        received.dialect = side.name
        try:
            request = side.decode_request(as_streamed(http) or http)
            received.request = msgspec.structs.replace(request, headers=redact_headers(request.headers))
            turn, number = self._turn(side, request)
            timeline = timeline_of(uncut(turn), request, number=number, pace=self._pace, now=self._now())
            failure = failure_of(timeline)
            if failure is not None:
                return error_response(side, failure, received)
            return complete_response(complete_body(side, request, timeline), received)
        except LLMStreamError as error:
            return error_response(side, error.info, received)

    def _check_path(self, http: HttpRequest, side: ServerSide | None, received: Received) -> None:
        """Checks the path if strict_paths is on.

        raises: NotFound for a path that no vendor has
        """
        # Recordings answer any request.
        if self._strict_paths and not self._recordings and not is_known_path(http.url):
            received.dialect = ""
            raise no_such_path(http, usual_path(side.name) if side else None)

    async def _body(self, incoming: web.Request) -> bytes:
        try:
            return await incoming.read()
        except web.HTTPRequestEntityTooLarge:
            raise BadRequest(
                f"the request is larger than {self._max_body_bytes} bytes",
                status=413,
                reason="request_too_large",
            ) from None

    async def _respond(
        self, incoming: web.Request, side: ServerSide, http: HttpRequest, received: Received
    ) -> web.StreamResponse:
        """Sends the script's response: as a stream, or complete if requested."""
        streamed = as_streamed(http)
        complete = streamed is not None or is_complete_requested(side, http)
        try:
            request = side.decode_request(streamed or http)
            received.request = msgspec.structs.replace(request, headers=redact_headers(request.headers))
            self._admit(http, request, received)
            turn, number = self._turn(side, request)
            background = side.dialect.background
            stored = background is not None and background.is_stored(request, provider=_VENDOR)
            # A stored response is generated to its end.
            played = uncut(turn) if stored or complete else turn
            timeline = timeline_of(played, request, number=number, pace=self._pace, now=self._now())
            encoder = side.event_encoder(request)
            body = complete_body(side, request, timeline) if complete and not stored else b""
        except LLMStreamError:
            raise
        except Exception as error:
            _log.exception("the simulator failed")
            # A script is the user's code; the client sees its error, too.
            raise ServerError(f"the simulator failed: {error!r}", status=500) from error
        if body:
            return await self._respond_complete(incoming, side, body, timeline, turn, received)
        pieces = pieces_of(timeline, encoder, played)
        if stored and complete:
            return _web_response(self._background.begin_unread(list(pieces)))
        if stored:
            pieces = self._background.begin(list(pieces), turn)
        response = await self._open(incoming, 200, side.content_type, received)
        await self._player.play(response, pieces)
        return await self._end(incoming, response, turn)

    async def _respond_complete(
        self,
        incoming: web.Request,
        side: ServerSide,
        body: bytes,
        timeline: list[TimedEvent],
        turn: Turn,
        received: Received,
    ) -> web.StreamResponse:
        """Sends a response without streaming, when its last event is due."""
        failure = failure_of(timeline)
        if timeline and timeline[-1].due_s:
            await self._player.sleep(timeline[-1].due_s)
        if failure is not None:
            return _web_response(error_response(side, failure, received))
        share = shown_share(turn, timeline)
        if not isinstance(turn.fault, Cut | Stall):
            return _web_response(complete_response(body, received))
        response = await self._open(incoming, 200, _JSON, received)
        await response.write(body[: int(len(body) * share)])
        return await self._end(incoming, response, turn)

    def _admit(self, http: HttpRequest, request: Request, received: Received) -> None:
        """Counts a request against the limits.

        raises: RateLimited
        """
        if self._limits is not None:
            try:
                self._limits.admit(http, request)
            finally:
                # A refusal has them as well.
                received.limit_headers = self._limits.headers()

    def _turn(self, side: ServerSide, request: Request) -> tuple[Turn, int]:
        """Returns the turn and its number: the next of the script, or the rest of an earlier one.

        raises: LLMStreamError if the script refuses the request
        """
        continuing = side.dialect.continuation
        place = continuing.place_of(request) if continuing is not None else None
        if place is not None:
            # The rest of an earlier turn; it uses up none of the script.
            (turn, request), number = self._continued.rest(place), self._next_turn
        else:
            number, self._next_turn = self._next_turn, self._next_turn + 1
            turn = self._script.turn(request, number)
        # Anthropic's way to fill the cache in advance.
        if request.settings.max_output_tokens == 0:
            turn = Turn(finish_reason="length")
        if isinstance(turn.fault, Refuse):
            raise error_from_info(refusal_of(turn.fault))
        if continuing is not None:
            turn = self._continued.first(continuing, turn, request, number=number, now=self._now())
        return turn, number

    async def _serve_socket(
        self, incoming: web.Request, http: HttpRequest, received: Received
    ) -> web.StreamResponse:
        """Serves a WebSocket, at the same path as HTTP."""
        side = self._router.find(msgspec.structs.replace(http, method="POST"))
        if side is None or not isinstance(side.dialect, OpenAIResponses):
            return _web_response(
                error_response(self._router.guess(http), no_such_path(http, None).info, received)
            )
        received.dialect = side.name
        try:
            self._check_path(http, side, received)
            check_key(http.headers, self._api_keys)
            if self._recordings:
                raise BadRequest("recordings are played over HTTP only", status=400)
        except LLMStreamError as error:
            return _web_response(error_response(side, error.info, received))

        def turn_of(request: Request) -> tuple[Turn, list[TimedEvent]]:
            turn, number = self._turn(side, request)
            return turn, timeline_of(turn, request, number=number, pace=self._pace, now=self._now())

        server = SocketServer(
            side, http, self._player, turn_of, self._log_request, max_message_bytes=self._max_body_bytes
        )
        try:
            return await server.serve(incoming)
        finally:
            server.end(left=not self._closing)

    async def _replay(self, incoming: web.Request, received: Received) -> web.StreamResponse:
        """Plays the next recording, for any request."""
        number, self._next_turn = self._next_turn, self._next_turn + 1
        # The last one repeats, so that a client that retries does not fall off the end.
        recording = self._recordings[min(number, len(self._recordings) - 1)]
        response = await self._open(incoming, recording.status, recording.content_type, received)
        await self._player.play(response, recording.pieces(self._speed))
        await response.write_eof()
        return response

    async def _resume(
        self, incoming: web.Request, side: ServerSide, wanted: BackgroundRequest, received: Received
    ) -> web.StreamResponse:
        """Sends the rest of a stored response."""
        pieces = self._background.find(wanted).rest(wanted.position.sequence_number)
        response = await self._open(incoming, 200, side.content_type, received)
        await self._player.play(response, pieces)
        await response.write_eof()
        return response

    async def _open(
        self, incoming: web.Request, status: int, content_type: str, received: Received
    ) -> web.StreamResponse:
        headers = {"content-type": content_type, "cache-control": "no-cache", **id_headers(received)}
        response = web.StreamResponse(status=status, headers=headers)
        # An older client, such as nginx by default, reads to the end.
        if incoming.version >= HttpVersion11:
            response.enable_chunked_encoding()
        await response.prepare(incoming)
        return response

    async def _end(
        self, incoming: web.Request, response: web.StreamResponse, turn: Turn
    ) -> web.StreamResponse:
        match turn.fault:
            case Stall(stall_s=None):
                await asyncio.Event().wait()
            case Stall(stall_s=float(seconds)):
                await self._player.sleep(seconds)
            # Without the last chunk, so that HTTP reports a truncated body.
            case Cut(clean=False) if incoming.transport is not None:
                incoming.transport.close()
                return response
            case _:
                pass
        await response.write_eof()
        return response


def _web_response(response: HttpResponse) -> web.Response:
    return web.Response(status=response.status, body=response.body, headers=response.headers)


_BUILT_IN: Final[dict[str, Callable[[], ScriptLike]]] = {"demo": Demo, "probe": Obedient}


@dataclass(frozen=True)
class _ServerKey:
    """Key of one server: a script and a provider's dialect."""

    script: str
    provider: str
    # Follows from the provider's name, and need not be hashable.
    dialect: Dialect = field(compare=False)


async def _running(key: _ServerKey) -> AsyncGenerator[Simulator]:
    built_in = _BUILT_IN.get(key.script)
    if built_in is None and not key.script.endswith(".json"):
        raise InvalidRequest(
            f"the simulator has no model {key.script!r}. Use {key.provider}:demo, {key.provider}:probe, "
            f"or {key.provider}:PATH.json for a script."
        )
    script = Script.load(key.script) if built_in is None else built_in()
    async with Simulator(script, dialects=[key.dialect], models=(key.script,)) as simulator:
        yield simulator


_servers: Final = LoopBound(_running)


async def script_address(script: str, provider: str, dialect: Dialect) -> str:
    """Returns the base URL of a script's server in the running loop; starts it if needed."""
    return (await _servers.get(_ServerKey(script, provider, dialect))).url
