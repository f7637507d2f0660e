"""The page of the inspector and its API, as an application of aiohttp.

    GET  api/calls?version=N             {version, calls: [summary]}; waits for a change if N is the latest
    GET  api/calls/ID?events=&reads=&frames=   what is new behind so many of each
    GET  api/calls/ID/rows?from=&count=  beginnings of events and of their frames, for a list
    GET  api/calls/ID/event?n=&chars=    one event and its frame, up to so many characters of each
    GET  api/calls/ID/texts              the content, piece by piece
    GET  api/calls/ID/search?q=          numbers of events that contain a text, or whose frames do
    GET  api/calls/ID/gaps.svg?other=ID  how the gaps are distributed
    GET  api/calls/ID/export?as=         recording (ZIP), test (Python), trace
    POST api/calls/ID/replay             {"dialect": ...}: the same answer on another wire

Who may send a request is decided as for the chat, by `llmstream.web.admission`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec
from aiohttp import web

from llmstream.dialects.base import DIALECTS
from llmstream.display.plot import COLORS, Curve, distribution
from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.first_use import prepared
from llmstream.inspector.calls import CallTrace, Seen
from llmstream.inspector.exporting import pytest_of, recording_zip, replayed, trace_of
from llmstream.inspector.sources import Calls
from llmstream.web.admission import refusal
from llmstream.web.app import error_response, json_response, page_routes

__all__ = ["PAGE", "gaps_svg", "make_app"]

PAGE: Final = Path(__file__).parent / "page"

_Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]

# Polling interval of growing files while a page waits, and the length of its wait.
_POLL_S: Final = 0.05
_LONGEST_WAIT_S: Final = 20.0

# More than a wide screen shows of a row.
_ROW_CHARS: Final = 240
# The page requests some 200 at a time.
_MAX_ROWS: Final = 1_000
# A longer event is not decoded for its beginning.
_MAX_DECODED_BYTES: Final = 64 * 1024
_FIRST_CHARS: Final = 20_000
_MAX_FOUND: Final = 20_000
_MAX_TEXT_CHARS: Final = 16 * 1024 * 1024

_TEXT_KINDS: Final = {"text-delta": "text", "reasoning-delta": "reasoning", "tool-input-delta": "input"}

_EXPORTS: Final[dict[str, tuple[Callable[[CallTrace], bytes], str, str]]] = {
    "recording": (recording_zip, "application/zip", "recording.zip"),
    "test": (pytest_of, "text/x-python", "test_recorded.py"),
    "trace": (trace_of, "application/jsonl", "trace.jsonl"),
}


def make_app(calls: Calls, *, token: str, local: bool = True, places: str = "") -> web.Application:
    """Returns the application.

    token:  each API request has to bring it, as `authorization: Bearer TOKEN`
    local:  whether the server listens on this machine alone, which is then the only Host it answers to
    places: where the calls come from, for a page that has none yet
    """
    api = _API(calls, places)

    @web.middleware
    async def admit(request: web.Request, handler: _Handler) -> web.StreamResponse:
        wanted = token if request.path.startswith("/api/") else None
        refused = refusal(request.headers, token=wanted, local=local, command="llmstream inspect")
        if refused is not None:
            return error_response(*refused)
        try:
            return await handler(request)
        except LLMStreamError as error:
            return error_response(error.status or 400, error.message)

    # Requests have a name and a few numbers.
    app = web.Application(middlewares=[admit], client_max_size=64 * 1024)
    # Waiting requests would delay the end of the server.
    app.on_shutdown.append(api.stop)
    app.add_routes(
        [
            *page_routes(PAGE),
            web.get("/api/calls", api.list),
            web.get("/api/calls/{id}", api.call),
            web.get("/api/calls/{id}/rows", api.rows),
            web.get("/api/calls/{id}/event", api.event),
            web.get("/api/calls/{id}/texts", api.texts),
            web.get("/api/calls/{id}/search", api.search),
            web.get("/api/calls/{id}/gaps.svg", api.gaps),
            web.get("/api/calls/{id}/export", api.export),
            web.post("/api/calls/{id}/replay", api.replay),
        ]
    )
    return app


class _Replay(msgspec.Struct):
    dialect: str


class _API:
    """The handlers below `api/`."""

    def __init__(self, calls: Calls, places: str) -> None:
        self._calls, self._places = calls, places
        self._stopping = False

    async def stop(self, app: web.Application) -> None:
        """Ends the requests that wait."""
        self._stopping = True

    async def list(self, request: web.Request) -> web.Response:
        """All calls; waits for a change if the page has the latest."""
        known = _number(request, "version", -1)
        due = asyncio.get_running_loop().time() + _LONGEST_WAIT_S
        while (version := self._calls.refresh()) == known and not self._stopping:
            if asyncio.get_running_loop().time() >= due:
                break
            await asyncio.sleep(_POLL_S)
        summaries = [call.summary() for call in self._calls.list()]
        return json_response(
            {"version": version, "calls": summaries, "dialects": list(DIALECTS), "places": self._places}
        )

    async def call(self, request: web.Request) -> web.Response:
        """One call, without what the page has."""
        call = self._call(request)
        return json_response(
            _view(call, *(_number(request, name, 0) for name in ("events", "reads", "frames")))
        )

    async def rows(self, request: web.Request) -> web.Response:
        call, start = self._call(request), _number(request, "from", 0)
        end = min(start + min(_number(request, "count", 200), _MAX_ROWS), len(call.events))
        return json_response([_row(call, place) for place in range(start, end)])

    async def event(self, request: web.Request) -> web.Response:
        call, place = self._call(request), _number(request, "n", 0)
        if place >= len(call.events):
            raise InvalidRequest("there is no such event", status=404)
        most = _number(request, "chars", _FIRST_CHARS)
        seen = call.events[place]
        event = seen.data.decode("utf-8", "replace")
        frame = call.frames[seen.frame] if seen.frame >= 0 else None
        wire = _shown(frame.data) if frame is not None else ""
        return json_response(
            {
                "event": event[:most],
                "eventChars": len(event),
                "wire": wire[:most],
                "wireChars": len(wire),
                "binary": bool(frame is not None and frame.base64),
                "complete": frame is None or frame.complete,
            }
        )

    async def texts(self, request: web.Request) -> web.Response:
        """The content: [number of the event, kind, text]."""
        call, left = self._call(request), _MAX_TEXT_CHARS
        found: list[tuple[int, str, str]] = []
        start = _number(request, "from", 0)
        for place, seen in enumerate(call.events[start:], start):
            if (kind := _TEXT_KINDS.get(seen.kind)) is not None and left > 0:
                text = str(msgspec.json.decode(seen.data).get("delta", ""))[:left]
                left -= len(text)
                found.append((place, kind, text))
        return json_response(found)

    async def search(self, request: web.Request) -> web.Response:
        call, wanted = self._call(request), request.query.get("q", "").lower().encode()
        if not wanted:
            return json_response([])
        with_it = {place for place, frame in enumerate(call.frames) if wanted in frame.data.lower()}
        found = [
            place
            for place, seen in enumerate(call.events)
            if seen.frame in with_it or wanted in seen.data.lower()
        ]
        return json_response(found[:_MAX_FOUND])

    async def gaps(self, request: web.Request) -> web.Response:
        call = self._call(request)
        other = self._calls.get(request.query.get("other", ""))
        return web.Response(
            text=gaps_svg(call, other),
            content_type="image/svg+xml",
            headers={"cache-control": "no-store", "x-content-type-options": "nosniff"},
        )

    async def export(self, request: web.Request) -> web.Response:
        call = self._call(request)
        make, content_type, name = _EXPORTS.get(request.query.get("as", ""), (None, "", ""))
        if make is None:
            raise InvalidRequest(f"as is one of {', '.join(_EXPORTS)}")
        return web.Response(
            body=await asyncio.to_thread(make, call),
            content_type=content_type,
            headers={
                "content-disposition": f'attachment; filename="{name}"',
                "cache-control": "no-store",
                "x-content-type-options": "nosniff",
            },
        )

    async def replay(self, request: web.Request) -> web.Response:
        """The same answer on another wire."""
        if request.content_type != "application/json":
            raise web.HTTPUnsupportedMediaType(text="Send application/json.")
        try:
            asked = msgspec.json.decode(await request.read(), type=prepared(_Replay))
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise InvalidRequest(f"the request is not as expected: {error}") from None
        made = replayed(self._call(request), asked.dialect)
        self._calls.put(made)
        return json_response(made.summary())

    def _call(self, request: web.Request) -> CallTrace:
        self._calls.refresh()
        found = self._calls.get(request.match_info["id"])
        if found is None:
            raise InvalidRequest("there is no such call; its file may have been deleted", status=404)
        return found


def _number(request: web.Request, name: str, default: int) -> int:
    text = request.query.get(name, str(default))
    if not text.removeprefix("-").isdecimal() or len(text) > 12:
        raise InvalidRequest(f"{name} is a number")
    value = int(text)
    return value if value >= 0 else default


def _view(call: CallTrace, events: int, reads: int, frames: int) -> dict[str, Any]:
    """A call for the page; times are microseconds since its beginning."""
    start = call.start_ns

    def us(ns: int) -> int:
        return (ns - start) // 1000

    kinds = list(dict.fromkeys(seen.kind for seen in call.events))
    number = {kind: place for place, kind in enumerate(kinds)}
    return {
        "summary": call.summary(),
        "findings": call.findings(),
        "kinds": kinds,
        "events": [[us(seen.at_ns), number[seen.kind], seen.frame] for seen in call.events[events:]],
        "reads": [
            [us(read.ns), read.waited_ns // 1000, read.offset, read.size] for read in call.reads[reads:]
        ],
        "frames": [
            [frame.offset, frame.size, call.read_of(place)]
            for place, frame in enumerate(call.frames[frames:], frames)
        ],
        "requests": [{"at": us(sent.ns), **msgspec.to_builtins(sent)} for sent in call.requests],
        "heads": [{"at": us(head.ns), **msgspec.to_builtins(head)} for head in call.heads],
        "failed": [{"at": us(one.ns), **msgspec.to_builtins(one)} for one in call.failed],
        "request": call.began.request if call.began is not None else {},
        "end": us(call.end_ns),
    }


def _row(call: CallTrace, place: int) -> tuple[str, str]:
    seen = call.events[place]
    event, wire = _beginning_of(seen), ""
    # Beside the first of its events alone.
    if seen.frame >= 0 and (place == 0 or call.events[place - 1].frame != seen.frame):
        # The longest character of UTF-8 has 4 bytes.
        wire = _shown(call.frames[seen.frame].data[: 4 * _ROW_CHARS])[:_ROW_CHARS]
    return event, wire


def _beginning_of(seen: Seen) -> str:
    """The beginning of an event without its type: of a delta its text, of others their fields."""
    if seen.kind in _TEXT_KINDS and len(seen.data) <= _MAX_DECODED_BYTES:
        return str(msgspec.json.decode(seen.data).get("delta", ""))[:_ROW_CHARS]
    text = seen.data[: 4 * _ROW_CHARS].decode("utf-8", "replace")
    return text.partition(f'"{seen.kind}"')[2].removeprefix(",").removesuffix("}")[:_ROW_CHARS]


def _shown(data: bytes) -> str:
    """Bytes as text; those that are not UTF-8 as in a literal of Python."""
    return data.decode("utf-8", "backslashreplace")


# The distribution of the gaps between a call's events, and of what its reads waited, as a plot.


def gaps_svg(call: CallTrace, other: CallTrace | None = None) -> str:
    """Draws the share of gaps up to each time; `other` with dashed lines.

    returns: a complete SVG document
    """
    curves = [*_curves(call, dashed=False), *(_curves(other, dashed=True) if other is not None else ())]
    return distribution(
        f"{_name(call)}: gaps and waits",
        curves,
        x_title="time (logarithmic scale)",
        y_title="share of gaps and of reads",
    )


def _curves(call: CallTrace, *, dashed: bool) -> list[Curve]:
    name = f" of {_name(call)}" if dashed else ""
    found = [Curve(f"gap between two arrivals of content{name}", call.gaps_s(), COLORS[0], dashed)]
    if call.reads:
        waits = [wait for wait, _ in call.waits_s()]
        found.append(Curve(f"what a read waited{name}", waits, COLORS[1], dashed))
    return found


def _name(call: CallTrace) -> str:
    began = call.began
    if began is None:
        return call.source
    return f"{began.provider}:{began.model}" if began.model else began.provider or call.source
