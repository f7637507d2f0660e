"""A body behind nginx, as it is by default but for a short `proxy_read_timeout`."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed (Debian: nginx)"),
]

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
  proxy_read_timeout 2s;
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://127.0.0.1:{behind}; }}
    location /plain/failing {{ proxy_pass http://127.0.0.1:{behind}; proxy_http_version 1.1; }}
  }}
}}
"""


@pytest.fixture
def proxied(started, free_port, server_at, until, tmp_path: Path) -> Iterator:
    """uvicorn behind nginx; with h11, because httptools sends even HTTP/1.0 chunks, which nginx passes on."""
    server, port = started("uvicorn-h11"), free_port()
    config = tmp_path / "nginx.conf"
    config.write_text(CONFIG.format(folder=tmp_path, port=port, behind=server.port))
    command = [NGINX, "-p", str(tmp_path), "-e", str(tmp_path / "error.log"), "-c", str(config)]
    process = subprocess.Popen(command)
    try:
        proxy = server_at("nginx", port, process, tmp_path / "error.log")
        until(proxy.listens, "nginx listens")
        yield proxy
    finally:
        process.terminate()
        process.wait(30)


def test_heartbeats_pass_read_timeout(proxied, prompt: Callable[[str], str]) -> None:
    """The vendor is silent for 4 s; nginx cuts after 2 s without a byte."""
    reply = proxied.get(f"/plain/beating?prompt={prompt('pause')}")
    assert reply.data.endswith(b"event: end\ndata: {}\n\n")
    assert reply.data.count(b": ping\n\n") > 2


def test_silence_is_cut_without_them(proxied, prompt: Callable[[str], str]) -> None:
    reply = proxied.get(f"/plain/ask?prompt={prompt('pause')}")
    assert reply.is_cut or not reply.data.endswith(b"event: end\ndata: {}\n\n")


def test_frames_are_not_collected(proxied, prompt: Callable[[str], str]) -> None:
    """The header X-Accel-Buffering turns off what nginx does by default."""
    with closing(proxied.connect(f"/plain/beating?prompt={prompt('slow')}")) as client:
        assert b"word9" in client.read_until(b"word20")


def test_leaving_reaches_the_vendor(proxied, prompt, vendor, until) -> None:
    asked = prompt("silent")
    with closing(proxied.connect(f"/plain/ask?prompt={asked}")) as client:
        client.read_until(b"Once")
    until(lambda: vendor.was_left(asked), "the vendor's socket is closed")


def test_defect_cuts_the_response(proxied, prompt: Callable[[str], str]) -> None:
    """Over HTTP/1.1: in HTTP/1.0, nginx's default, a body ends with its connection, however it ends."""
    assert proxied.get(f"/plain/failing?prompt={prompt('late')}").is_cut
