"""The simulator behind nginx as it is by default: HTTP/1.0 to the server behind it, and its own Host."""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

import llmstream as ls
from llmstream.endpoint_check import check_endpoint
from llmstream.simulator import Obedient, Pace, Simulator

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx)")

CONFIG = """
daemon off;
master_process off;
pid {folder}/nginx.pid;
error_log {folder}/error.log;
events {{}}
http {{
  access_log off;
  client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi;
  uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass {url}; }}
  }}
}}
"""
ADDRESSES = {
    "openai": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "bedrock": "",
    "cohere": "",
    "google": "/v1beta",
    "google-interactions": "/v1beta",
    "mistral": "/mistral",
    "ollama": "",
}


@pytest.fixture
async def proxy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[str]:
    monkeypatch.setenv("AWS_BEARER_TOKEN_BEDROCK", "sim-key")
    async with behind_nginx(tmp_path, Simulator()) as url:
        yield url


@asynccontextmanager
async def behind_nginx(tmp_path: Path, server: Simulator) -> AsyncIterator[str]:
    """The address of nginx before the simulator."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    config = tmp_path / "nginx.conf"
    async with server as simulator:
        config.write_text(CONFIG.format(folder=tmp_path, port=port, url=simulator.url))
        process = await asyncio.create_subprocess_exec(
            NGINX, "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(config)
        )
        try:
            await listening(port)
            yield f"http://127.0.0.1:{port}"
        finally:
            process.terminate()
            await process.wait()


async def listening(port: int) -> None:
    async with asyncio.timeout(20):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                return


@pytest.mark.parametrize("provider", ADDRESSES)
async def test_every_dialect_streams_through_it(provider: str, proxy: str) -> None:
    model = ls.Model(f"{provider}:sim", base_url=proxy + ADDRESSES[provider], api_key="sim-key")
    message = await model.stream("Hello there").collect()
    assert "Hello there" in message.text


async def test_unary_response_passes_through_nginx(proxy: str) -> None:
    asked = {"model": "m", "messages": [{"role": "user", "content": "Hello there"}]}
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{proxy}/v1/chat/completions", json=asked) as response,
    ):
        completion = await response.json()
    assert "Hello there" in completion["choices"][0]["message"]["content"]


async def test_check_names_its_buffering(tmp_path: Path) -> None:
    """By default nginx collects what it passes on."""
    server = Simulator(Obedient(), pace=Pace(delta_s=0.02), models=("m",))
    async with behind_nginx(tmp_path, server) as url:
        model = ls.Model("vllm:m", base_url=f"{url}/v1")
        report = await check_endpoint(model, only=["text", "streaming", "keep-alive"])
    statuses = {finding.probe: finding.status for finding in report.findings}
    assert statuses == {"text": "ok", "streaming": "degraded", "keep-alive": "ok"}
    (finding,) = [finding for finding in report.findings if finding.probe == "streaming"]
    assert "buffering" in finding.detail
    assert "proxy_buffering off" in finding.remedy
