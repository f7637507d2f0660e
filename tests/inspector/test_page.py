"""The page in Chromium, against `llmstream inspect` in a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

import llmstream as ls
from llmstream.inspector import inspect
from llmstream.inspector.app import make_app
from llmstream.inspector.trace import FORMAT, CallBegan, CallEnded, Read, TraceBegan, encode_line, frame_of
from llmstream.testing import Do, cassette
from tests.browser import CHROMIUM, Watched
from tests.dialects.recordings import SSE
from tests.inspector.conftest import END, ask, calls_of, chunk

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "t" * 32
AXE = ROOT / "tests" / "peers" / "node_modules" / "axe-core" / "axe.min.js"
HOSTILE = [
    "<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">",
    "\u202egnp.exe\u2066 \x1b[31mred\x00",
    "</pre><iframe src=https://evil.example></iframe>{{7*7}}",
]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Any]:
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    async with playwright.async_playwright() as driver:
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest_asyncio.fixture(loop_scope="module")
async def show(browser: Any) -> AsyncIterator[Callable[..., Any]]:
    """Opens the page over places; it may neither complain nor ask another host."""
    shown: list[Watched] = []
    async with AsyncExitStack() as stack:

        async def opened(*places: object, **context: Any) -> Any:
            app = make_app(calls_of(*map(str, places)), token=TOKEN, places="here")
            runner = web.AppRunner(app, shutdown_timeout=0.1)
            await runner.setup()
            stack.push_async_callback(runner.cleanup)
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            url = f"http://127.0.0.1:{runner.addresses[0][1]}/#token={TOKEN}"
            return await (await watching(url, **context)).open()

        async def watching(url: str, **options: Any) -> Watched:
            given = {"reduced_motion": "reduce", "viewport": {"width": 1440, "height": 900}, **options}
            context = await browser.new_context(**given)
            stack.push_async_callback(context.close)
            shown.append(Watched(context, url))
            return shown[-1]

        opened.watching = watching  # type: ignore[attr-defined]
        yield opened
    assert [one.complaints for one in shown if one.complaints] == []


def item(page: Any, text: str) -> Any:
    return page.locator(".calls button", has_text=text).first


async def test_a_live_run_appears(show: Any, tmp_path: Path) -> None:
    """While it comes, in a page of the command that was there before."""
    (tmp_path / "traces").mkdir()
    command = [sys.executable, "-m", "llmstream", "inspect", "--no-open", "--port", "0", tmp_path / "traces"]
    env = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=env, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    line = (await process.stdout.readline()).decode()
    found = re.search(r"http://127\.0\.0\.1:\d+/#token=\S+", line)
    assert found is not None, line
    page = await (await show.watching(found[0])).open()
    await expect(page.get_by_text("No calls yet")).to_be_visible()
    with inspect(tmp_path / "traces" / "live.jsonl"):
        asking = asyncio.create_task(ask(chunk("first"), Do.HANG, name="live"))
        await expect(page.locator(".badge.open").first).to_be_visible()
        await expect(page.locator(".row .event", has_text="first")).to_be_visible()
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await expect(page.locator(".title .badge.left")).to_be_visible()
        await ask(chunk("second"), END, name="next")
    await expect(item(page, "deepseek:next")).to_be_visible()
    await page.close()
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 0


async def test_bytes_beside_events(show: Any, traced: Callable[..., Any]) -> None:
    """Forty events in one read are seen as a buffer, and lead to their bytes."""
    path = await traced([[chunk("one"), 1.2, b"".join(chunk(f"w{n}") for n in range(40)), 0.05, END]])
    page = await show(path)
    finding = page.locator(".findings .buffer button")
    await expect(finding).to_contain_text("40 events came in one read")
    await finding.click()
    await expect(page.locator(".row[aria-selected=true] .event")).to_have_text("w0")
    await expect(page.locator(".side pre").nth(1)).to_have_text(re.compile(r'^data: \{"id": "c1".*"w0"'))
    await expect(page.locator(".side .facts")).to_contain_text("read 2")
    await page.keyboard.press("j")
    await expect(page.locator(".row[aria-selected=true] .event")).to_have_text("w1")
    await page.keyboard.press("/")
    await page.keyboard.type("W39")
    await page.keyboard.press("Enter")
    await expect(page.locator(".row[aria-selected=true] .event")).to_have_text("w39")
    await expect(page.locator(".matches")).to_have_text("1 match")
    await page.keyboard.press("2")
    await expect(page.locator(".run.text pre")).to_contain_text("onew0w1")
    await page.keyboard.press("?")
    await expect(page.get_by_role("dialog")).to_be_visible()
    await page.keyboard.press("Escape")
    await page.keyboard.press("3")
    await expect(page.get_by_role("tabpanel")).to_contain_text("HTTP 200")


async def test_a_cut_stream_is_shown_as_cut(show: Any, traced: Callable[..., Any]) -> None:
    page = await show(await traced([[chunk("a"), chunk("b")[:25], 0.05, Do.RESET]]))
    await expect(page.locator(".title .badge.cut")).to_have_text("cut")
    await expect(page.locator(".findings .cut")).to_contain_text("within a frame of which 25 bytes came")
    await expect(page.locator("canvas.lanes")).to_have_attribute("aria-label", re.compile(r"cut\.$"))


async def test_two_runs_are_compared(show: Any, traced: Callable[..., Any]) -> None:
    page = await show(
        await traced([[chunk("the same"), END], [chunk("the same and"), 0.1, chunk(" more"), END]])
    )
    await page.click("#tab-compare")
    await page.get_by_label("Compare with").select_option(index=1)
    await expect(page.locator(".compare canvas")).to_have_count(2)
    await expect(page.locator(".compare .sides .prose")).to_have_text(["the same and more", "the same"])
    await expect(page.locator(".compare")).to_contain_text("the same for 8 characters")
    await page.click("#tab-gaps")
    await expect(page.locator("img.plot")).to_be_visible()
    assert await page.locator("img.plot").evaluate("image => image.naturalWidth") > 100


async def test_a_replay_through_a_dialect(show: Any, traced: Callable[..., Any]) -> None:
    """Another call, which is played and compared; and exports."""
    page = await show(await traced([[chunk("one "), 0.1, chunk("two"), END]]))
    await page.get_by_label("Replay through").select_option("anthropic")
    await expect(page.locator(".title h2")).to_contain_text("as anthropic")
    await expect(page.locator(".row .wire", has_text="event: content_block_delta").first).to_be_visible()
    await page.get_by_role("button", name="Play").click()
    await expect(page.locator(".run.text pre")).to_have_text("one two")
    await expect(page.get_by_role("button", name="Play")).to_be_visible()
    for kind, name in (
        ("test", "test_recorded.py"),
        ("recording", "recording.zip"),
        ("trace", "trace.jsonl"),
    ):
        async with page.expect_download() as waiting:
            await page.get_by_label("Export").select_option(kind)
        assert (await waiting.value).suggested_filename == name


async def test_hostile_text_stays_text(show: Any, traced: Callable[..., Any]) -> None:
    """In rows, details, texts and requests; a line of ten megabytes is cut, and shown when asked for."""
    path = await traced([[*[chunk(text) for text in HOSTILE], chunk("y" * 10_000_000), END]])
    page = await show(path)
    await expect(page.locator(".row")).not_to_have_count(0)
    await expect(page.locator(".row .event", has_text="<script>")).to_be_visible()
    await expect(page.locator(".row .event", has_text="‹U+202E›gnp.exe")).to_be_visible()
    place = await page.locator(".row", has_text='"yyy').first.get_attribute("data-place")
    await page.locator(f"#event-{place}").click()
    more = page.locator(".side .more").first
    await expect(more).to_contain_text("more")
    assert len(await page.locator(".side").inner_text()) < 100_000
    await more.click()
    await expect(page.locator(".side .long")).not_to_have_count(0)
    for tab in ("text", "request"):
        await page.click(f"#tab-{tab}")
        await expect(page.locator(".panel pre").first).to_be_visible()
    assert await page.title() != "owned"
    assert await page.locator("iframe, script:not([src]), img:not(.plot)").count() == 0


async def test_a_hundred_thousand_events(show: Any, tmp_path: Path) -> None:
    """They scroll with some dozens of rows in the document, to the last one."""
    path = tmp_path / "long.jsonl"
    count = 100_000
    with open(path, "wb") as file:  # noqa: ASYNC230
        file.write(encode_line(TraceBegan(format=FORMAT, version=1, at=1.7e9, ns=0)))
        file.write(encode_line(CallBegan(call="c", ns=0, provider="p", model="m")))
        offset = 0
        for n in range(count):
            data = b'data: {"n":%d}\n\n' % n
            file.write(
                encode_line(Read(call="c", ns=n * 10**6, waited_ns=10**6, offset=offset, size=len(data)))
            )
            file.write(encode_line(frame_of("c", offset, data)))
            raw = ls.events.encode(ls.TextDelta(f"word {n} ", "0"))
            file.write(
                b'{"type":"events","call":"c","ns":%d,"events":[[%d,%b]]}\n' % (n * 10**6, offset, raw)
            )
            offset += len(data)
        file.write(encode_line(CallEnded(call="c", ns=count * 10**6)))
    page = await show(path)
    await expect(page.locator("#event-0 .event")).to_contain_text("word 0")
    drawn = await page.evaluate("""async () => {
        const rows = document.querySelector('.rows')
        const frame = () => new Promise(requestAnimationFrame)
        const found = []
        for (let step = 0; step < 60; step++) {
            rows.scrollTop = (rows.scrollHeight - rows.clientHeight) * step / 59
            await frame()
            await frame()
            const top = rows.getBoundingClientRect().top
            const first = document.elementFromPoint(600, top + 40)?.closest('.row')
            const there = document.querySelectorAll(".row").length
            found.push([Math.round(rows.scrollTop / 26), Number(first?.dataset.place), there])
        }
        return found
    }""")
    # At each step there are rows where a person looks, and only those.
    assert all(abs(first - top) <= 2 and there < 120 for top, first, there in drawn)
    assert drawn[-1][0] > count - 100
    await expect(page.locator(f"#event-{count - 1} .event")).to_contain_text(f"word {count - 1}")
    await page.keyboard.press("g")
    await expect(page.locator("#event-0")).to_have_attribute("aria-selected", "true")
    await page.click("canvas.lanes", position={"x": 700, "y": 60})
    await expect(page.locator(".side .facts")).to_contain_text(re.compile(r"event \d{5}"))


async def test_all_recordings_are_shown(show: Any, tmp_path: Path) -> None:
    """One call for each of them, and no complaint of the browser."""
    one = {path.parts[-3]: path for path in SSE}
    for name, path in one.items():
        (tmp_path / "bodies").mkdir(exist_ok=True)
        (tmp_path / "bodies" / f"{name}.sse").write_bytes(path.read_bytes())
    with cassette("c", folder=tmp_path / "bodies"):
        await ls.Model("sim:demo").ask("Hi")
    page = await show(tmp_path / "bodies")
    buttons = page.locator(".calls button")
    await expect(buttons).to_have_count(len(one) + 1)
    for place in range(len(one) + 1):
        await buttons.nth(place).click()
        await expect(buttons.nth(place)).to_have_attribute("aria-current", "true")
        await expect(page.locator(".row").first).to_be_visible()
        for tab in ("text", "request", "gaps", "events"):
            await page.click(f"#tab-{tab}")
    await page.get_by_label("Filter calls").fill("cassette")
    await expect(buttons).to_have_count(0)


async def test_others_are_refused(show: Any, traced: Callable[..., Any], browser: Any) -> None:
    """A page of another origin, a request without the token, another name for this machine."""
    page = await show(await traced([[chunk("a"), END]]))
    await expect(page.locator(".row").first).to_be_visible()
    address = page.url.partition("#")[0]
    context = await browser.new_context()
    stranger = await context.new_page()
    await stranger.goto("data:text/html,<title>evil</title>")
    tried = "async a => { try { return (await fetch(a + 'api/calls')).status } catch { return 'refused' } }"
    assert await stranger.evaluate(tried, address) == "refused"
    await stranger.goto(address)
    await expect(stranger.get_by_text("Not admitted")).to_be_visible()
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        response = await context.request.get(f"{address}api/calls", headers=headers)
        assert response.status == 403
    await context.close()


@pytest.mark.parametrize(("scheme", "width"), [("light", 1440), ("dark", 390)])
async def test_axe_finds_nothing_serious(
    scheme: str, width: int, show: Any, traced: Callable[..., Any]
) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --prefix tests/peers")
    path = await traced(
        [[chunk("one"), 1.1, b"".join(chunk("w") for _ in range(12)), END], [chunk("a"), chunk("b")[:9]]]
    )
    page = await show(path, color_scheme=scheme, viewport={"width": width, "height": 900})
    await item(page, "deepseek").click()
    await page.evaluate(AXE.read_text(encoding="utf-8"))
    for tab in ("events", "text", "request", "gaps", "compare"):
        await page.click(f"#tab-{tab}")
        if tab == "compare":
            await page.get_by_label("Compare with").select_option(index=1)
            await expect(page.locator(".compare table")).to_be_visible()
        else:
            await expect(page.locator(".panel > *").first).to_be_visible()
        found = await page.evaluate("async () => (await axe.run(document)).violations")
        shown = [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found]
        assert [one for one in shown if one[1] in ("serious", "critical")] == [], json.dumps(shown, indent=1)


async def test_pictures_of_both_schemes(browser: Any, tmp_path: Path) -> None:
    """`scripts/inspect_picture` takes the pictures of the guide."""
    command = [sys.executable, ROOT / "scripts" / "inspect_picture", "--out", tmp_path]
    process = await asyncio.create_subprocess_exec(*command, cwd=ROOT)
    assert await process.wait() == 0
    light, dark = [(tmp_path / f"inspect-{scheme}.png").read_bytes() for scheme in ("light", "dark")]
    assert light[:8] == dark[:8] == b"\x89PNG\r\n\x1a\n"
    assert light != dark
