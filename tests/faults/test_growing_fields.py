"""A server in which one field grows for ever: the stream ends typed, and takes 64 MB at most."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import asyncio, json, sys
import llmstream as ls
from aiohttp import web

PAD = "x" * 80
def chat(delta, **beside):
    chunk = {"id": "1", "model": "m", "choices": [{"index": 0, "delta": delta}], **beside}
    return f"data: {json.dumps(chunk)}\\n\\n".encode()
def event(value):
    return f"event: {value['type']}\\ndata: {json.dumps(value)}\\n\\n".encode()

KINDS = {
    "details": ("openai", b"", lambda n: chat(
        {"reasoning_details": [{"type": "t", "id": f"{n}-{i}", "text": PAD} for i in range(50)]})),
    "keys of details": ("openai", b"", lambda n: chat(
        {"reasoning_details": [{"type": "t", "index": 0, **{f"{n}-{i}": 1 for i in range(500)}}]})),
    "audio": ("openai", b"", lambda n: chat({"audio": {"data": "QUJD" * 8000}})),
    "citations": ("openai", b"", lambda n: chat(
        {"content": "a"}, citations=[f"https://{n}/{i}/{PAD}" for i in range(200)])),
    "tool input": ("openai", b"", lambda n: chat(
        {"tool_calls": [{"index": 0, "id": "c", "function": {"name": "f", "arguments": "ab"}}] * 500})),
    "cited text": (
        "anthropic",
        event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
        lambda n: event({"type": "content_block_delta", "index": 0, "delta": {
            "type": "citations_delta", "citation": {"type": "c", "cited_text": f"{n}{PAD * 20}"}}})),
    "annotations": (
        "openai-responses",
        event({"type": "response.output_item.added", "output_index": 0,
            "item": {"type": "message", "id": "m"}}),
        lambda n: event({"type": "response.output_text.annotation.added", "output_index": 0,
            "annotation": {"type": "url_citation", "url": f"https://{n}/", "title": PAD * 20}})),
}

def memory_mb(name):
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith(name)) / 1024

async def main():
    provider, head, piece = KINDS[sys.argv[1]]
    async def flood(request):
        answer = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(head)
        for n in range(10**9):
            await answer.write(piece(n))
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", flood)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    model = ls.Model(f"{provider}:m", base_url=url, api_key="a-key", retry=ls.Retry(max_retries=0))
    import llmstream.streams.http_call  # so that its own size is not counted
    before, outcome = memory_mb("VmRSS"), "none"
    try:
        async for _ in model.events("Hi"):
            pass
    except ls.LLMStreamError as error:
        outcome = type(error).__name__
    print(outcome, memory_mb("VmHWM") - before)
    await runner.cleanup()

asyncio.run(main())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
@pytest.mark.parametrize(
    "kind", ["details", "keys of details", "audio", "citations", "tool input", "cited text", "annotations"]
)
def test_memory_of_a_growing_field(kind: str) -> None:
    command = [sys.executable, "-W", "ignore", "-c", SCRIPT, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120)
    outcome, megabytes = done.stdout.split()
    assert outcome == "LimitExceeded"
    assert float(megabytes) < 64
