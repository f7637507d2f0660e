"""The built site in Chromium: no page asks another host for anything. Skipped without `docs` or Chromium.

A policy that allows the site's own host alone goes out with each page; the browser reports what it refuses.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from tests.browser import CHROMIUM

pytest.importorskip("zensical")
pytest.importorskip("griffe")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no Chromium")]

ROOT = Path(__file__).resolve().parents[2]
POLICY = "default-src 'self' 'unsafe-inline' 'unsafe-eval' data: blob:; report-uri /refused"
FOREIGN = """
    <img src="https://image.invalid/a.png">
    <script>fetch("https://script.invalid/stars")</script>
"""
PAGES = ("", "get-started/", "guides/tools/", "migrating/openai/", "reference/models/", "404.html")


class Site(ThreadingHTTPServer):
    """Serves a folder with the policy, and stores what browsers read and refused."""

    def __init__(self, folder: Path) -> None:
        super().__init__(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
        self.read: set[str] = set()
        self.refused: set[str] = set()


class Handler(SimpleHTTPRequestHandler):
    server: Site

    def end_headers(self) -> None:
        self.send_header("Content-Security-Policy", POLICY)
        super().end_headers()

    def do_GET(self) -> None:
        self.server.read.add(self.path)
        super().do_GET()

    def do_POST(self) -> None:
        report = json.loads(self.rfile.read(int(self.headers["content-length"])))["csp-report"]
        self.server.refused.add(report["blocked-uri"])
        self.send_response(204)
        self.end_headers()

    def log_message(self, format: str, *values: object) -> None:
        """A test needs no log."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The site as scripts/docs builds it, from a copy: a build beside it writes to the same folders."""
    copy = tmp_path_factory.mktemp("copy")
    for name in ("docs", "examples", "llmstream", "website", "scripts"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "zensical.toml", copy)
    environment = os.environ | {"PYTHON": sys.executable}
    done = subprocess.run([copy / "scripts" / "docs"], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    built = copy / "build" / "site"
    (built / "foreign.html").write_text(FOREIGN)
    with Site(built) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def visit(site: Site, page: str, profile: Path) -> str:
    """The page's elements, once Chromium has run its scripts."""
    site.read.clear()
    site.refused.clear()
    options = ("--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=5000", "--dump-dom")
    address = f"http://127.0.0.1:{site.server_port}/{page}"
    command = [CHROMIUM, *options, f"--user-data-dir={profile}", address]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_foreign_request_is_seen(site: Site, tmp_path: Path) -> None:
    """The proof that the next test would notice."""
    visit(site, "foreign.html", tmp_path)
    assert site.refused == {"https://image.invalid/a.png", "https://script.invalid/stars"}


@pytest.mark.parametrize("page", PAGES)
def test_pages_ask_their_own_host_only(site: Site, tmp_path: Path, page: str) -> None:
    shown = visit(site, page, tmp_path)
    assert "md-typeset" in shown
    assert any(path.endswith(".js") for path in site.read)
    assert site.refused == set()
