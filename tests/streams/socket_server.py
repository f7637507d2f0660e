"""Messages of the Responses API over a WebSocket, written by hand, and a server that sends them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import WSMsgType, web

Answer = Callable[[web.WebSocketResponse, dict[str, Any], int], Awaitable[None]]
"""(socket, message of the client, number of the socket) to what is sent."""


def created(number: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": number, "model": "gpt-5", "status": "in_progress"}}


def added(item_id: str = "msg_1") -> dict[str, Any]:
    item = {"id": item_id, "type": "message", "role": "assistant", "content": []}
    return {"type": "response.output_item.added", "output_index": 0, "item": item}


def delta(text: str) -> dict[str, Any]:
    return {"type": "response.output_text.delta", "output_index": 0, "content_index": 0, "delta": text}


def message(text: str, item_id: str = "msg_1") -> dict[str, Any]:
    part = {"type": "output_text", "text": text, "annotations": []}
    return {"id": item_id, "type": "message", "status": "completed", "role": "assistant", "content": [part]}


def ended(
    number: str = "resp_1", *output: dict[str, Any], kind: str = "completed", why: str | None = None
) -> dict[str, Any]:
    response: dict[str, Any] = {"id": number, "model": "gpt-5", "status": kind, "output": list(output)}
    response["usage"] = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
    if why is not None:
        response["incomplete_details"] = {"reason": why}
    return {"type": f"response.{kind}", "response": response}


def said(text: str, number: str = "resp_1", item_id: str = "msg_1") -> list[dict[str, Any]]:
    """A whole answer of one text."""
    item = message(text, item_id)
    done = {"type": "response.output_item.done", "output_index": 0, "item": item}
    return [created(number), added(item_id), delta(text), done, ended(number, item)]


def failed(status: int, code: str, words: str = "no", **headers: str) -> dict[str, Any]:
    error: dict[str, Any] = {"type": "invalid_request_error", "code": code, "message": words}
    if headers:
        error["headers"] = headers
    return {"type": "error", "status": status, "error": error}


async def send(ws: web.WebSocketResponse, *messages: dict[str, Any]) -> None:
    for each in messages:
        await ws.send_str(json.dumps(each))


class Sockets:
    """A handler for the fixture `serve` that counts its sockets and keeps what it is sent.

    opened:   handshakes
    received: the clients' messages, each with the number of its socket
    closed:   set when a socket has closed
    """

    def __init__(self, answer: Answer) -> None:
        self.opened = 0
        self.received: list[tuple[int, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        self.closed = asyncio.Event()
        self._answer = answer

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        ws = web.WebSocketResponse()
        await ws.prepare(request)
        number, self.opened = self.opened, self.opened + 1
        self.headers.append(dict(request.headers))
        try:
            async for each in ws:
                if each.type is WSMsgType.TEXT:
                    body = json.loads(each.data)
                    self.received.append((number, body))
                    await self._answer(ws, body, number)
        finally:
            self.closed.set()
        return ws
