"""Pages in Chromium that may neither complain nor ask another host."""

from __future__ import annotations

import re
import shutil
from contextlib import suppress
from typing import Any

# Its path; "" where it is not installed.
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), "")

# What Chromium itself reports when a connection breaks; the page handles it.
BROKEN = re.compile(
    "Failed to load resource: net::ERR_"
    "(CONNECTION_REFUSED|INCOMPLETE_CHUNKED_ENCODING|EMPTY_RESPONSE|CONNECTION_RESET)"
)


WAIT_MS = 30_000
"""How long a page may take for what it is expected to show: a busy machine is slow, not wrong."""

with suppress(ImportError):  # the tests of pages are skipped then
    from playwright.async_api import expect

    expect.set_options(timeout=WAIT_MS)


class Watched:
    """A browser context whose pages may neither complain nor ask another host."""

    def __init__(self, context: Any, url: str) -> None:
        self.context, self.url = context, url
        self.complaints: list[str] = []
        self.offline = False

    async def open(self, url: str = "") -> Any:
        page = await self.context.new_page()
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._request)
        page.set_default_timeout(WAIT_MS)
        await page.goto(url or self.url)
        return page

    def _console(self, message: Any) -> None:
        if message.type in ("error", "warning") and not (self.offline and BROKEN.match(message.text)):
            self.complaints.append(f"{message.type}: {message.text}")

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url.partition("#")[0], "data:")):
            self.complaints.append(f"foreign request: {request.url}")
