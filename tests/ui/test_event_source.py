"""A run of an event log, read by the `EventSource` of Chromium."""

from __future__ import annotations

from typing import Any

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.serve import Body
from llmstream.ui import sse
from tests.browser import CHROMIUM, Watched
from tests.ui.test_sse import COUNT, WORDS, Gated

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")

PAGE = """<!doctype html><title>A run</title><link rel="icon" href="data:,"><script>
  const seen = [], ends = []
  const source = new EventSource('/runs/a')
  source.onmessage = (event) => seen.push([Number(event.lastEventId), JSON.parse(event.data).type])
  source.addEventListener('end', () => ends.push(seen.length))
</script>"""


async def test_event_source_has_each_once(served: Any) -> None:
    """Its connection breaks in the middle; after the end it asks once more, and stops for good."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    source, requests = Gated(), list[web.Request]()
    async with ls.open_logs("memory:") as logs:

        async def follow(request: web.Request) -> Body:
            if request.match_info["run"] == "page":
                body = Body.plain(200, PAGE)
                body.headers["content-type"] = "text/html"
                return body
            requests.append(request)
            return await sse.body(logs, request.match_info["run"], request.headers.get("last-event-id"))

        await logs.start("a", source)
        async with served(follow) as url, playwright.async_playwright() as driver:
            # In a container, which is a sandbox already, Chromium may not make its own.
            browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
            tabs = Watched(await browser.new_context(), url.removesuffix("/runs"))
            page = await tabs.open(f"{url}/page")
            await page.wait_for_function(f"seen.length === {3 + WORDS // 2}")
            tabs.offline = True
            assert requests[0].transport is not None
            requests[0].transport.abort()
            source.gate.set()
            await page.wait_for_function("source.readyState === EventSource.CLOSED")
            seen, ends = await page.evaluate("[seen, ends]")
            await browser.close()
    assert [number for number, _ in seen] == list(range(COUNT))
    assert seen[-1][1] == "finish"
    assert ends == [COUNT]
    last_ids = [request.headers.get("last-event-id") for request in requests]
    assert last_ids == [None, str(2 + WORDS // 2), str(COUNT - 1)]
    assert tabs.complaints == []
