"""The simulator: an HTTP server on loopback that responds in several dialects."""

from __future__ import annotations

import asyncio
import datetime
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from types import TracebackType

import msgspec
from aiohttp import HttpVersion11, web

from llmstream.dialects.base import Dialect
from llmstream.dialects.errors import error_from_value
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.errors import BadRequest, ErrorInfo, LLMStreamError, ServerError, error_from_info
from llmstream.exchange import HttpRequest, HttpResponse, redact_headers
from llmstream.request import Request
from llmstream.serving.wires import EventEncoder, ServerSide, server_side
from llmstream.serving.wires.openai_responses.reader import KeptRequest
from llmstream.simulator.admission import (
    check_bind,
    check_key,
    host_is_local,
    is_foreign_page,
    is_known_path,
    masked,
    no_such_path,
    usual_path,
)
from llmstream.simulator.background import BackgroundResponses, uncut
from llmstream.simulator.catalogue import count_tokens, is_public, lookup
from llmstream.simulator.complete import (
    as_streamed,
    complete_asked,
    complete_body,
    failure_of,
    shown_share,
)
from llmstream.simulator.continued import ContinuedAnswers
from llmstream.simulator.demo import Demo
from llmstream.simulator.recording import KeptRequests, Received, Recording
from llmstream.simulator.script import Cut, Pace, Refuse, ScriptFunction, ScriptLike, Stall, Turn, as_script
from llmstream.simulator.socket_server import SocketServer, wants_socket
from llmstream.simulator.timeline import Player, TimedEvent, timeline_of

__all__ = ["Simulator", "default_dialects"]

_log = logging.getLogger("llmstream.simulator")

_VENDOR = "openai"
"""Key in `provider_options` for a request's vendor-specific fields."""

_JSON = "application/json"

_FOREIGN_HOST = (
    "the simulator only serves this machine, but the Host header names another. Send Host: localhost "
    "(nginx: proxy_set_header Host localhost), or serve others: allow_remote=True, simulate --host 0.0.0.0"
)

_CLOSE_S = 1.0
"""Limit for closing connections; handlers are cancelled before."""


def default_dialects() -> list[Dialect]:
    """Returns the default dialects.

    Mistral's uses the path of Chat Completions, so it is served below `/mistral`. Claude's dialects on
    the clouds have their own paths.
    """
    from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX, Anthropic
    from llmstream.dialects.bedrock_converse import BedrockConverse
    from llmstream.dialects.cohere import Cohere
    from llmstream.dialects.gemini import Gemini
    from llmstream.dialects.gemini_interactions import GeminiInteractions
    from llmstream.dialects.mistral import Mistral
    from llmstream.dialects.ollama import Ollama
    from llmstream.dialects.openai_chat import OpenAIChat
    from llmstream.dialects.openai_responses import OpenAIResponses

    return [
        OpenAIChat(),
        OpenAIResponses(),
        Anthropic(),
        Gemini(),
        GeminiInteractions(),
        BedrockConverse(),
        Cohere(),
        Ollama(),
        Mistral(),
        BEDROCK_INVOKE,
        VERTEX,
    ]


class Simulator:
    """Simulates vendors of all dialects, for demonstrations and tests. Use it with `async with`.

    script:       answers, or a function of the request; by default a demo that calls the offered tools
    recordings:   responses to all requests in order, the last one repeatedly, in place of a script
    speed:        of recordings; 1.0 is the original speed, None does not wait
    dialects:     the first that accepts a request handles it, or one whose name begins the path
    api_keys:     accepted keys; None accepts all requests
    pace:         of turns without their own
    block_bytes:  size of writes; by default one write per event
    max_log_bytes: total size of the bodies stored in `requests`
    models:       names in the lists of models; requests may use any name
    strict_paths: answers paths that no vendor has, such as `/v1/v1/messages`, with not found; otherwise
                  any path that ends like a vendor's is accepted

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
        strict_paths: bool = False,
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
        self._strict_paths = strict_paths
        self._api_keys = api_keys
        self._host, self._port, self._allow_remote = host, port, allow_remote
        self._pace = pace
        self._max_body_bytes = max_body_bytes
        self._models = models
        self._player = Player(clock, sleep, block_bytes)
        self._kept = BackgroundResponses(clock)
        self._continued = ContinuedAnswers()
        self._now = now or (lambda: datetime.datetime.now(datetime.UTC).replace(microsecond=0))
        self._answered = 0
        self._received = 0
        self._log = KeptRequests(self.requests, max_log_bytes)
        self._closing = False
        self._handlers: set[asyncio.Task[object]] = set()
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Base URL without a path."""
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
        received = self._note(masked(http))
        try:
            return await self._answer(incoming, http, received)
        except asyncio.CancelledError:
            received.disconnected = not self._closing
            raise
        # The client has disconnected.
        except ConnectionError:
            received.disconnected = not self._closing
            return web.Response(status=499)
        finally:
            received.done.set()
            if task is not None:
                self._handlers.discard(task)

    def _note(self, http: HttpRequest) -> Received:
        received = Received(http, f"req_sim_{self._received}")
        self._received += 1
        self._log.enter(received)
        if http.body:
            self._log.body(received, http)
        return received

    async def _answer(
        self, incoming: web.Request, http: HttpRequest, received: Received
    ) -> web.StreamResponse:
        if not self._allow_remote:
            if not host_is_local(http.headers.get("host")):
                return web.Response(status=403, text=_FOREIGN_HOST)
            if is_foreign_page(http.headers):
                return web.Response(
                    status=403, text="the simulator is for this machine only; the Origin header names another"
                )
        if wants_socket(http):
            return await self._talk(incoming, http, received)
        side = self._side_of(http)
        received.dialect = side.name if side is not None else ""
        try:
            self._check_path(http, side, received)
            page = lookup(http, self._models)
            if page is None or not is_public(http):
                check_key(http.headers, self._api_keys)
            if page is not None:
                return _whole(page)
            http = msgspec.structs.replace(http, body=await self._body(incoming))
            self._log.body(received, masked(http))
            page = count_tokens(http, self._sides)
            if page is not None:
                return _whole(page)
            found = self._kept.wish(http, self._sides)
            if found is not None:
                side, wish = found
                received.dialect = side.name
                if wish.wish != "stream":
                    return _whole(self._kept.page(wish))
                return await self._read_on(incoming, side, wish, received)
            if self._recordings:
                return await self._replay(incoming, received)
            if side is None:
                raise no_such_path(http, None)
            return await self._say(incoming, side, http, received)
        except LLMStreamError as error:
            return _whole(_refusal(side or self._likely(http), error.info, received))

    def _check_path(self, http: HttpRequest, side: ServerSide | None, received: Received) -> None:
        """Checks the path if strict_paths is on.

        raises: NotFound for a path that no vendor has
        """
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

    async def _say(
        self, incoming: web.Request, side: ServerSide, http: HttpRequest, received: Received
    ) -> web.StreamResponse:
        """Sends the script's response: as a stream, or complete if requested."""
        streamed = as_streamed(http)
        complete = streamed is not None or complete_asked(side, http)
        try:
            request = side.decode_request(streamed or http)
            received.request = msgspec.structs.replace(request, headers=redact_headers(request.headers))
            turn, number = self._turn(side, request)
            background = side.dialect.background
            kept = background is not None and background.is_stored(request, provider=_VENDOR)
            # A stored response is generated to its end.
            played = uncut(turn) if kept or complete else turn
            beats = timeline_of(played, request, number=number, pace=self._pace, now=self._now())
            encoder = side.event_encoder(request)
            body = complete_body(side, request, beats) if complete and not kept else b""
        except LLMStreamError:
            raise
        except Exception as error:
            _log.exception("the simulator failed")
            raise ServerError(f"the simulator failed: {error!r}", status=500) from error
        if body:
            return await self._say_complete(incoming, side, body, beats, turn, received)
        pieces = _pieces(beats, encoder, played)
        if kept and complete:
            return _whole(self._kept.begin_unread(list(pieces)))
        if kept:
            pieces = self._kept.begin(list(pieces), turn)
        response = await self._open(incoming, 200, side.content_type, received)
        await self._player.play(response, pieces)
        return await self._end(incoming, response, turn)

    async def _say_complete(
        self,
        incoming: web.Request,
        side: ServerSide,
        body: bytes,
        beats: list[TimedEvent],
        turn: Turn,
        received: Received,
    ) -> web.StreamResponse:
        """Sends a response without streaming, when its last event is due."""
        failure = failure_of(beats)
        if beats and beats[-1].due_s:
            await self._player.sleep(beats[-1].due_s)
        if failure is not None:
            return _whole(_refusal(side, failure, received))
        share = shown_share(turn, beats)
        if not isinstance(turn.fault, Cut | Stall):
            return _whole(_complete(body, received))
        response = await self._open(incoming, 200, _JSON, received)
        await response.write(body[: int(len(body) * share)])
        return await self._end(incoming, response, turn)

    def _turn(self, side: ServerSide, request: Request) -> tuple[Turn, int]:
        """Returns the turn and its number: the next of the script, or the rest of an earlier one.

        raises: LLMStreamError if the script refuses the request
        """
        continuing = side.dialect.continuation
        place = continuing.place_of(request) if continuing is not None else None
        if place is not None:
            (turn, request), number = self._continued.rest(place), self._answered
        else:
            number, self._answered = self._answered, self._answered + 1
            turn = self._script.turn(request, number)
        # Anthropic's way to fill the cache in advance.
        if request.settings.max_output_tokens == 0:
            turn = Turn(finish_reason="length")
        if isinstance(turn.fault, Refuse):
            raise error_from_info(_refused(turn.fault))
        if continuing is not None:
            turn = self._continued.first(continuing, turn, request, number=number, now=self._now())
        return turn, number

    async def _talk(self, incoming: web.Request, http: HttpRequest, received: Received) -> web.StreamResponse:
        """Serves a WebSocket, at the same path as HTTP."""
        side = self._side_of(msgspec.structs.replace(http, method="POST"))
        if side is None or not isinstance(side.dialect, OpenAIResponses):
            return _whole(_refusal(self._likely(http), no_such_path(http, None).info, received))
        received.dialect = side.name
        try:
            self._check_path(http, side, received)
            check_key(http.headers, self._api_keys)
            if self._recordings:
                raise BadRequest("recordings are played over HTTP only", status=400)
        except LLMStreamError as error:
            return _whole(_refusal(side, error.info, received))

        def speak(request: Request) -> tuple[Turn, list[TimedEvent]]:
            turn, number = self._turn(side, request)
            return turn, timeline_of(turn, request, number=number, pace=self._pace, now=self._now())

        server = SocketServer(
            side, http, self._player, speak, self._note, max_message_bytes=self._max_body_bytes
        )
        try:
            return await server.serve(incoming)
        finally:
            server.end(left=not self._closing)

    async def _replay(self, incoming: web.Request, received: Received) -> web.StreamResponse:
        """Plays the next recording, for any request."""
        number, self._answered = self._answered, self._answered + 1
        recording = self._recordings[min(number, len(self._recordings) - 1)]
        response = await self._open(incoming, recording.status, recording.content_type, received)
        await self._player.play(response, recording.pieces(self._speed))
        await response.write_eof()
        return response

    async def _read_on(
        self, incoming: web.Request, side: ServerSide, wish: KeptRequest, received: Received
    ) -> web.StreamResponse:
        """Sends the rest of a stored response."""
        pieces = self._kept.find(wish).rest(wish.position.sequence_number)
        response = await self._open(incoming, 200, side.content_type, received)
        await self._player.play(response, pieces)
        await response.write_eof()
        return response

    async def _open(
        self, incoming: web.Request, status: int, content_type: str, received: Received
    ) -> web.StreamResponse:
        headers = {"content-type": content_type, "cache-control": "no-cache", **_id_headers(received)}
        response = web.StreamResponse(status=status, headers=headers)
        if incoming.version >= HttpVersion11:  # an older client, such as nginx by default, reads to the end
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
            case Cut(clean=False) if incoming.transport is not None:
                incoming.transport.close()
                return response
            case _:
                pass
        await response.write_eof()
        return response

    def _side_of(self, http: HttpRequest) -> ServerSide | None:
        """Returns the side that handles a request; a dialect's name at the beginning of the path wins."""
        asked = as_streamed(http) or http
        willing = [side for side in self._sides if side.accepts(asked)]
        named = (side for side in willing if http.url.startswith(f"/{side.name}/"))
        return next(named, willing[0] if willing else None)

    def _likely(self, http: HttpRequest) -> ServerSide:
        """Guesses the vendor of a request that no dialect accepts, for the form of the error."""
        # The vendor's own dialect wins over variants.
        by_name = {side.name: side for side in reversed(self._sides)}
        name = "openai-chat"
        if "anthropic-version" in http.headers:
            name = "anthropic"
        elif http.url.startswith("/api/"):
            name = "ollama"
        elif "x-goog-api-key" in http.headers or "/v1beta/" in http.url or "enerateContent" in http.url:
            name = "gemini"
        elif http.url.startswith("/model/"):
            name = "bedrock-converse"
        elif "rawPredict" in http.url:
            name = "anthropic"
        return by_name.get(name, self._sides[0])


def _refusal(side: ServerSide, error: ErrorInfo, received: Received) -> HttpResponse:
    if error.request_id is None:  # some vendors repeat it in the body
        error = msgspec.structs.replace(error, request_id=received.request_id)
    answer = side.encode_error(error)
    headers = {**_id_headers(received), **answer.headers}
    if error.retry_after_s is not None:
        headers.setdefault("retry-after", f"{error.retry_after_s:g}")
    return msgspec.structs.replace(answer, headers=headers)


def _id_headers(received: Received) -> dict[str, str]:
    """Returns the request id under the header names of the vendors."""
    return dict.fromkeys(("x-request-id", "request-id", "x-amzn-requestid"), received.request_id)


def _complete(body: bytes, received: Received) -> HttpResponse:
    return HttpResponse(200, body, {"content-type": _JSON, **_id_headers(received)})


def _whole(answer: HttpResponse) -> web.Response:
    return web.Response(status=answer.status, body=answer.body, headers=answer.headers)


def _refused(fault: Refuse) -> ErrorInfo:
    """Returns the error of a script, typed by its status."""
    headers = {} if fault.retry_after_s is None else {"retry-after": f"{fault.retry_after_s:g}"}
    return error_from_value(
        {"message": fault.message}, provider="simulator", status=fault.status, headers=headers
    ).info


def _pieces(beats: Iterable[TimedEvent], encoder: EventEncoder, turn: Turn) -> Iterator[tuple[float, bytes]]:
    """Yields the bytes of each event, b"" for some; the end of the body only without an earlier fault."""
    due_s = 0.0
    for beat in beats:
        due_s = beat.due_s
        yield due_s, encoder.feed(beat.event)
    if not isinstance(turn.fault, Cut | Stall):
        yield due_s, encoder.close()
