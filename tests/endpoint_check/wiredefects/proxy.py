"""A proxy before a simulator that puts one defect into requests or responses of Chat Completions."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
from aiohttp import web

from llmstream.simulator import Obedient, Pace, Simulator

Frames = list[dict[str, Any]]


@dataclass(frozen=True)
class Defect:
    """One defect; each function gets and returns what passes through it.

    request: of the body that is forwarded; a response instead of it is sent at once
    frames:  of a stream
    body:    of the bytes of a stream
    error:   of a refusal: (status, body) to a response
    stream:  whether a stream is passed on frame by frame, or at once
    """

    request: Callable[[dict[str, Any]], Any] | None = None
    frames: Callable[[Frames], Frames] | None = None
    body: Callable[[bytes], bytes] | None = None
    error: Callable[[int, bytes], web.Response] | None = None
    content_type: str = "text/event-stream"
    stream: bool = True
    close: bool = False
    busy_s: float = 0.0


class _Proxy:
    def __init__(self, defect: Defect, target: str, session: aiohttp.ClientSession) -> None:
        self.defect, self.target, self.session = defect, target, session
        self.slot = asyncio.Lock()

    async def handle(self, incoming: web.Request) -> web.StreamResponse:
        defect = self.defect
        data = await incoming.read()
        if defect.request is not None and incoming.method == "POST":
            changed = defect.request(json.loads(data))
            if isinstance(changed, web.Response):
                return changed
            data = json.dumps(changed).encode()
        names = ("authorization", "x-api-key", "anthropic-version", "content-type")
        headers = {name: incoming.headers[name] for name in names if name in incoming.headers}
        async with (
            self.slot,
            self.session.request(
                incoming.method, self.target + incoming.path_qs, data=data, headers=headers
            ) as answer,
        ):
            body = await answer.read()
            if answer.status >= 400 and defect.error is not None and incoming.method == "POST":
                return defect.error(answer.status, body)
            if answer.status >= 400 or incoming.method == "GET":
                return web.Response(status=answer.status, body=body, content_type="application/json")
            return await self._stream(incoming, self._changed(body))

    def _changed(self, body: bytes) -> bytes:
        defect = self.defect
        if defect.frames is not None:
            payloads = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
            frames = defect.frames([json.loads(payload) for payload in payloads if payload != "[DONE]"])
            lines = [*(json.dumps(frame, ensure_ascii=False) for frame in frames), "[DONE]"]
            body = "".join(f"data: {line}\n\n" for line in lines).encode()
        return body if defect.body is None else defect.body(body)

    async def _stream(self, incoming: web.Request, body: bytes) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": self.defect.content_type})
        if self.defect.close:
            response.force_close()
        await response.prepare(incoming)
        try:
            for piece in body.split(b"\n\n") if self.defect.stream else [body]:
                await response.write(piece + b"\n\n")
                if self.defect.busy_s:
                    await asyncio.sleep(0.01)
        except ConnectionError:  # the server notices nothing, and generates on
            await asyncio.sleep(self.defect.busy_s)
            raise
        await response.write_eof()
        return response


@asynccontextmanager
async def served(
    defect: Defect, *, pace: Pace | None = None, key: str = "right", path: str = "/v1"
) -> AsyncIterator[str]:
    """The address of a simulator behind the defect."""
    async with (
        Simulator(Obedient(), pace=pace, api_keys=[key], models=("m",)) as simulator,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session,
    ):
        app = web.Application()
        app.router.add_route("*", "/{path:.*}", _Proxy(defect, simulator.url, session).handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            yield f"http://127.0.0.1:{runner.addresses[0][1]}{path}"
        finally:
            await runner.cleanup()


# Changes of requests: what a server leaves out.


def without(*names: str) -> Defect:
    """The server ignores these fields of a request."""
    return Defect(request=lambda body: {k: v for k, v in body.items() if k not in names})


def without_system(body: dict[str, Any]) -> dict[str, Any]:
    """The server drops the system prompt."""
    return {**body, "messages": [m for m in body["messages"] if m["role"] not in ("system", "developer")]}


def refusing(name: str, mark: str) -> Callable[[dict[str, Any]], Any]:
    """The server refuses requests in which a text occurs."""

    def change(body: dict[str, Any]) -> Any:
        if mark not in json.dumps(body):
            return body
        error = {"error": {"message": f"{name} is not supported", "type": "invalid_request_error"}}
        return web.json_response(error, status=400)

    return change


# Changes of frames.


def each_delta(change: Callable[[dict[str, Any]], object]) -> Callable[[Frames], Frames]:
    """Changes each delta in place."""

    def changed(frames: Frames) -> Frames:
        for frame in frames:
            for choice in frame.get("choices", ()):
                change(choice["delta"])
        return frames

    return changed


def each_text(change: Callable[[str], str]) -> Callable[[Frames], Frames]:
    """Changes each piece of text."""

    def one(delta: dict[str, Any]) -> None:
        if delta.get("content"):
            delta["content"] = change(delta["content"])

    return each_delta(one)


def reason(old: str, new: str | None) -> Callable[[Frames], Frames]:
    """Another finish reason."""

    def changed(frames: Frames) -> Frames:
        for frame in frames:
            for choice in frame.get("choices", ()):
                if choice.get("finish_reason") == old:
                    choice["finish_reason"] = new
        return frames

    return changed


def whole_calls(change: Callable[[list[dict[str, Any]]], Any]) -> Callable[[Frames], Frames]:
    """Sends all calls in one frame, after a change of the complete calls."""

    def changed(frames: Frames) -> Frames:
        calls: dict[int, dict[str, Any]] = {}
        kept = []
        for frame in frames:
            delta = frame["choices"][0]["delta"] if frame.get("choices") else {}
            fragments = delta.pop("tool_calls", ())
            for part in fragments:
                call = calls.setdefault(part["index"], part)
                if call is not part:
                    call["function"]["arguments"] += part["function"]["arguments"]
            if not fragments:
                kept.append(frame)
        if calls:
            last = next(f for f in kept if f.get("choices") and f["choices"][0].get("finish_reason"))
            last["choices"][0]["delta"].update(change(list(calls.values())))
        return kept

    return changed


def one_piece(frames: Frames) -> Frames:
    """All of the text in one frame."""
    texts = [
        frame for frame in frames if frame.get("choices") and frame["choices"][0]["delta"].get("content")
    ]
    if texts:
        joined = "".join(frame["choices"][0]["delta"]["content"] for frame in texts)
        texts[0]["choices"][0]["delta"]["content"] = joined
    return [frame for frame in frames if frame not in texts[1:]]
