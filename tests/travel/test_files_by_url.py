"""A file by URL reaches every vendor: by its URL, as bytes, or not at all and then with a clear error."""

from __future__ import annotations

import importlib

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.chats import Audio, Document, Image, Message, ToolCall, ToolResult
from llmstream.cli.config import wire_of
from llmstream.dialects.base import DIALECTS
from llmstream.request import Request, ToolSpec
from llmstream.server_side.wires import server_side
from llmstream.streams.history import Inliner

FILES = {
    "/a.png": (b"\x89PNG\r\n\x1a\n" + bytes(20), "image/png"),
    "/a.pdf": (b"%PDF-1.7\n%%EOF", "application/pdf"),
    "/a.txt": (b"Plain words.", "text/plain; charset=utf-8"),
    "/a.wav": (b"RIFF\x04\0\0\0WAVE", "audio/wav"),
}
PARTS = {"/a.png": Image, "/a.pdf": Document, "/a.txt": Document, "/a.wav": Audio}
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock-converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gemini": "gemini-3-pro-preview",
    "gemini-interactions": "gemini-3-pro-preview",
}
REFUSED = {
    ("anthropic", "/a.wav"),
    ("bedrock-converse", "/a.wav"),
    ("cohere", "/a.pdf"),
    ("cohere", "/a.wav"),
    ("ollama", "/a.pdf"),
    ("ollama", "/a.txt"),
    ("ollama", "/a.wav"),
    ("openai-responses", "/a.wav"),
}
"""What the vendor does not take at all, whatever holds it."""

HERE = ls.DownloadLimits(allow_private=True, allow_http=True)


def _is_there(name: str) -> bool:
    module, kind = DIALECTS[name]
    try:
        return hasattr(importlib.import_module(module), kind)
    except ModuleNotFoundError:
        return False


NAMES = [name for name in DIALECTS if _is_there(name)]


@pytest.fixture
async def address(serve) -> str:
    async def answer(request: web.Request) -> web.StreamResponse:
        data, media_type = FILES[request.path]
        return web.Response(body=data, headers={"content-type": media_type})

    return await serve(answer)


def request_of(name: str, *messages: Message) -> Request:
    return Request(model=MODELS.get(name, "m"), messages=messages, tools=(ToolSpec("draw"),))


@pytest.mark.parametrize("path", FILES)
@pytest.mark.parametrize("name", NAMES)
async def test_a_file_in_the_users_message(name: str, path: str, address: str) -> None:
    wire = wire_of(name, None)
    part = PARTS[path](url=address + path)
    request = request_of(name, Message.user("What is this?", part))
    inlined = await Inliner(wire.dialect, HERE).inline(request)
    kept = inlined.messages[0].parts[1]
    assert bool(kept.data) is not wire.dialect.accepts_url(part)
    if (name, path) in REFUSED:
        with pytest.raises(ls.Unsupported):
            wire.dialect.encode(inlined, provider=wire.provider)
        return
    http = wire.dialect.encode(inlined, provider=wire.provider).http
    assert (address.encode() in http.body) is (not kept.data)
    server_side(wire.dialect).decode_request(http)


@pytest.mark.parametrize("name", NAMES)
async def test_an_image_in_a_result(name: str, address: str) -> None:
    wire = wire_of(name, None)
    result = ToolResult("c1", "Here.", parts=(Image(url=f"{address}/a.png"),), name="draw")
    request = request_of(
        name, Message.user("Draw."), Message.assistant(ToolCall("c1", "draw", "{}")), Message.tool([result])
    )
    inlined = await Inliner(wire.dialect, HERE).inline(request)
    http = wire.dialect.encode(inlined, provider=wire.provider).http
    server_side(wire.dialect).decode_request(http)
    images = [part for message in inlined.messages for r in message.tool_results for part in r.parts]
    assert (address.encode() in http.body) is (not images[0].data)
