"""The page in Chromium, against `llmstream web` in a process of its own."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator
from typing import Any

import pytest

from llmstream.web.demo import BROKEN_OFF, MARKDOWN, SUGGESTIONS
from tests.browser import Watched

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
expect = playwright.expect

WEATHER, BOOKING, SHOW, BREAK = SUGGESTIONS


@pytest.fixture
async def browser(chromium: str) -> AsyncIterator[Any]:
    async with playwright.async_playwright() as driver:
        # In a container, which is a sandbox already, Chromium may not make its own.
        browser = await driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield browser
        await browser.close()


@pytest.fixture
async def tabs(browser: Any, server: Any) -> AsyncIterator[Watched]:
    watched = Watched(await browser.new_context(reduced_motion="reduce"), server.url)
    yield watched
    await watched.context.close()
    assert watched.complaints == []


async def ask(page: Any, prompt: str) -> None:
    """As a person does, once the page takes a prompt: not yet when the last text of an answer is there."""
    await page.fill("#prompt", prompt)
    await expect(page.get_by_label("Send")).to_be_enabled()
    await page.press("#prompt", "Enter")


def said(page: Any) -> Any:
    """The last text of the last answer."""
    return page.locator(".answer").last.locator(":scope > .markdown").last


def over(page: Any) -> Any:
    """There once the last answer is over."""
    return page.locator(".answer").last.locator("footer")


async def test_an_answer_streams(tabs: Watched) -> None:
    page = await tabs.open()
    await page.click(f"text={WEATHER}")
    await expect(page.get_by_label("Stop")).to_be_visible()
    await expect(page.locator(".progress progress")).to_have_count(2)
    await expect(page.locator(".tool.done")).to_have_count(2)
    await expect(page.locator("td", has_text="waterproof")).to_be_visible()
    await expect(over(page)).to_contain_text("out")
    await expect(page.get_by_label("Send")).to_be_visible()
    await expect(page.locator(".reasoning .body").first).to_be_hidden()
    await page.locator(".reasoning summary").first.click()
    await expect(page.locator(".reasoning .body").first).to_contain_text("do not depend")
    assert "token" not in page.url


async def test_reload_in_the_middle(tabs: Watched) -> None:
    """Nothing is missing and nothing comes twice."""
    page = await tabs.open()
    await ask(page, BREAK)  # the first answer is cut
    await expect(page.locator(".failure")).to_contain_text("broke")
    await page.get_by_text("Retry").click()
    await expect(said(page)).to_contain_text("is named below it. Nothing")
    await page.reload()
    await expect(said(page)).to_contain_text("cuts an answer only once.")
    await expect(over(page)).to_be_visible()
    assert await said(page).inner_text() == BROKEN_OFF
    await page.reload()
    await expect(over(page)).to_be_visible()
    assert await said(page).inner_text() == BROKEN_OFF
    await expect(page.locator(".answer")).to_have_count(1)


async def test_a_second_tab_stops_it(tabs: Watched) -> None:
    first = await tabs.open()
    await ask(first, "Hello")
    await expect(over(first)).to_be_visible()
    second = await tabs.open(first.url)
    await expect(over(second)).to_be_visible()
    await ask(first, SHOW)
    await expect(second.get_by_label("Stop")).to_be_visible()
    await expect(said(second)).to_contain_text("What this page renders")
    await second.keyboard.press("Escape")
    for page in (first, second):
        await expect(page.locator(".answer").last).to_contain_text("Stopped")
        await expect(page.get_by_label("Send")).to_be_visible()
    assert await said(first).inner_text() == await said(second).inner_text()
    await ask(second, "Hello again")
    await expect(first.locator(".question").last).to_contain_text("Hello again")
    await expect(over(first)).to_be_visible()


@pytest.mark.parametrize("reloads", [False, True])
async def test_approve_edit_deny(tabs: Watched, reloads: bool) -> None:
    page = await tabs.open()

    async def asked() -> Any:
        await ask(page, BOOKING)
        card = page.locator(".tool.waiting")
        await expect(card.locator(".approval")).to_be_visible()
        if reloads:
            await page.reload()
        return card

    card = await asked()
    await card.get_by_role("button", name="Approve").click()
    await expect(said(page)).to_contain_text("Done: Chez Simulateur, 19:30, for 2.")

    card = await asked()
    await card.get_by_text("Edit arguments").click()
    await card.locator("textarea").fill("{")
    await expect(card.get_by_role("button", name="Approve as edited")).to_be_disabled()
    await card.locator("textarea").fill('{"restaurant": "Noma", "people": "x", "time": "20:00"}')
    await card.get_by_role("button", name="Approve as edited").click()
    await expect(page.locator(".problem")).to_be_visible()
    tabs.complaints.clear()  # Chromium reports the refusal
    await card.locator("textarea").fill('{"restaurant": "Noma", "people": 3, "time": "20:00"}')
    await card.get_by_role("button", name="Approve as edited").click()
    await expect(said(page)).to_contain_text("Done: Noma, 20:00, for 3.")

    card = await asked()
    await card.get_by_placeholder("Note").fill("too expensive")
    await card.get_by_role("button", name="Deny").click()
    await expect(page.locator(".tool.denied")).to_have_count(1)
    await expect(said(page)).to_contain_text("I did not do that")
    await expect(said(page)).to_contain_text("too expensive")
    if reloads:
        await page.reload()
    await expect(page.locator(".tool.done")).to_have_count(2)
    await expect(page.locator(".tool.denied")).to_have_count(1)


async def test_two_calls_are_decided_together(tabs: Watched) -> None:
    page = await tabs.open()
    await ask(page, "Book a table in Paris and one in Tokyo")
    cards = page.locator(".tool.waiting")
    await expect(cards).to_have_count(2)
    await cards.nth(0).get_by_role("button", name="Approve").click()
    await expect(cards.nth(0)).to_contain_text("Waiting for the other calls")
    await hide(page, True)
    await hide(page, False)
    await cards.nth(1).get_by_role("button", name="Deny").click()
    await expect(page.locator(".tool.done")).to_have_count(1)
    await expect(page.locator(".tool.denied")).to_have_count(1)
    await expect(said(page)).to_contain_text("Done: Chez Simulateur, 19:30, for 2. Enjoy")


async def hide(page: Any, hidden: bool) -> None:
    """What a browser does when another tab is brought to the front, and back."""
    script = "h => { Object.defineProperty(document, 'hidden', {value: h, configurable: true});"
    await page.evaluate(script + " document.dispatchEvent(new Event('visibilitychange')) }", hidden)


async def test_a_hidden_page_catches_up(tabs: Watched) -> None:
    """It lets go of its connection, and misses nothing."""
    page = await tabs.open()
    ended: list[str] = []
    page.on("requestfailed", lambda request: ended.append(request.url))
    await ask(page, SHOW)
    await expect(said(page)).to_contain_text("What this page renders")
    await hide(page, True)
    second = await tabs.open(page.url)
    await expect(over(second)).to_be_visible()
    assert any(address.endswith("/events") for address in ended)
    await expect(over(page)).to_have_count(0)
    await hide(page, False)
    await expect(over(page)).to_be_visible()
    assert await said(page).inner_html() == await said(second).inner_html()


async def test_decided_in_another_tab(tabs: Watched) -> None:
    first = await tabs.open()
    await ask(first, BOOKING)
    await expect(first.locator(".approval")).to_be_visible()
    second = await tabs.open(first.url)
    await second.get_by_role("button", name="Approve").click()
    for page in (first, second):
        await expect(page.locator(".approval")).to_have_count(0)
        await expect(said(page)).to_contain_text("Enjoy your meal!")


async def test_a_killed_server(tabs: Watched, server: Any) -> None:
    """The answer ends with what had arrived, and the conversation goes on; the page is not opened again."""
    page = await tabs.open()
    await ask(page, "Hello")
    await expect(over(page)).to_be_visible()
    await ask(page, SHOW)
    await expect(said(page)).to_contain_text("A list with numbers")
    tabs.offline = True
    await server.end(signal.SIGKILL)
    await expect(page.get_by_text("Reconnecting")).to_be_visible()
    await server.start()
    await expect(page.locator(".failure")).to_contain_text("The server was stopped")
    await expect(said(page)).to_contain_text("A list with numbers")
    await expect(page.get_by_text("Reconnecting")).to_have_count(0)
    await expect(page.get_by_label("Send")).to_be_visible()
    await page.get_by_text("Retry").click()
    await expect(said(page)).to_contain_text("is shown, never run.")
    await expect(over(page)).to_be_visible()
    await expect(page.locator(".failure")).to_have_count(0)
    await expect(page.locator(".question")).to_have_count(2)


async def test_an_interrupted_server(tabs: Watched, server: Any) -> None:
    """Ctrl-C closes the run in order, before a page could ask."""
    page = await tabs.open()
    await ask(page, SHOW)
    await expect(said(page)).to_contain_text("What this page renders")
    tabs.offline = True
    assert await server.end() == 0
    await server.start()
    await expect(page.locator(".failure")).to_contain_text("The server was stopped")
    await expect(page.get_by_label("Send")).to_be_visible()


async def test_an_approval_outlives_a_restart(tabs: Watched, server: Any) -> None:
    page = await tabs.open()
    await ask(page, BOOKING)
    await expect(page.locator(".approval")).to_be_visible()
    tabs.offline = True
    await server.end(signal.SIGKILL)
    await server.start()
    await page.get_by_role("button", name="Approve").click()
    await expect(said(page)).to_contain_text("Enjoy your meal!")
    await expect(page.locator(".tool.done")).to_have_count(1)


async def test_html_stays_text(tabs: Watched) -> None:
    page = await tabs.open()
    await ask(
        page,
        '<img src=x onerror="document.title=1"> <script>document.title=1</script> [x](javascript:alert(1))',
    )
    await expect(over(page)).to_be_visible()
    await expect(said(page)).to_contain_text("<script>")
    assert await page.locator("main img, main script, main a[href^=javascript]").count() == 0


async def test_a_prompt_without_a_server(tabs: Watched, server: Any) -> None:
    """What is typed stays, and the page works again as soon as the server does."""
    page = await tabs.open()
    await ask(page, "One")
    await expect(over(page)).to_be_visible()
    tabs.offline = True
    await server.end(signal.SIGKILL)
    await ask(page, "Two")
    await expect(page.locator(".problem")).to_contain_text("cannot be reached")
    await expect(page.locator("#prompt")).to_have_value("Two")
    await server.start()
    await expect(page.locator(".problem")).to_have_count(0)
    await page.press("#prompt", "Enter")
    await expect(page.locator(".question").last).to_contain_text("Two")
    await expect(over(page)).to_be_visible()
    await expect(page.locator(".question")).to_have_count(2)


async def test_keys_and_drafts(tabs: Watched) -> None:
    page = await tabs.open()
    await page.type("#prompt", "one")
    await page.press("#prompt", "Shift+Enter")
    await page.type("#prompt", "two")
    await page.reload()
    await expect(page.locator("#prompt")).to_have_value("one\ntwo")
    await page.press("#prompt", "Enter")
    await expect(page.locator(".question")).to_contain_text("one\ntwo")
    await expect(page.locator("#prompt")).to_have_value("")
    await expect(over(page)).to_be_visible()


async def test_several_conversations(tabs: Watched) -> None:
    page = await tabs.open()
    await ask(page, "First")
    await expect(over(page)).to_be_visible()
    await page.get_by_text("New chat").first.click()
    await ask(page, "Second")
    await expect(over(page)).to_be_visible()
    await expect(page.locator("nav .title")).to_have_text(["Second", "First"])
    await page.locator("nav .title", has_text="First").click()
    await expect(page.locator(".question")).to_contain_text("First")
    await page.go_back()
    await expect(page.locator(".question")).to_contain_text("Second")
    await page.get_by_label("Delete “First”").click()
    await page.get_by_role("button", name="Delete", exact=True).click()
    await expect(page.locator("nav .title")).to_have_text(["Second"])
    await expect(page.locator(".question")).to_contain_text("Second")


async def test_a_page_without_the_token(tabs: Watched) -> None:
    page = await tabs.open(tabs.url.partition("#")[0])
    await expect(page.get_by_text("Not admitted")).to_be_visible()
    tabs.complaints[:] = [one for one in tabs.complaints if "401" not in one]


async def test_a_phone_has_no_sideways_scroll(browser: Any, server: Any) -> None:
    watched = Watched(await browser.new_context(viewport={"width": 360, "height": 640}), server.url)
    page = await watched.open()
    await ask(page, SHOW)
    await expect(over(page)).to_be_visible()
    assert await page.evaluate("document.documentElement.scrollWidth") == 360
    await page.get_by_label("Open the list").click()
    await expect(page.locator("nav .title")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator("nav .title")).to_be_hidden()
    await watched.context.close()
    assert watched.complaints == []


RENDER = """async (given) => {
  const [text, grows] = Array.isArray(given) ? given : [given, false]
  const { html, render } = await import('./vendor/preact-htm.js')
  const { Markdown } = await import('./markdown.js')
  const place = document.createElement('div')
  render(html`<${Markdown} text=${text} grows=${grows} />`, place)
  return place.firstChild.innerHTML
}"""

CASES = {
    "a *b* **c** `d` ~~e~~": "<p>a <em>b</em> <strong>c</strong> <code>d</code> <del>e</del></p>",
    "a\\*b snake_case_name 2 * 3 * 4": "<p>a*b snake_case_name 2 * 3 * 4</p>",
    "**open": "<p>**open</p>",
    "`a **b**`": "<p><code>a **b**</code></p>",
    "***a***": "<p><strong><em>a</em></strong></p>",
    "# A #": "<h3>A</h3>",
    "a\nb\n\nc": "<p>a<br>b</p><p>c</p>",
    "- a\n- b\n  - c\n\n- d": "<ul><li>a</li><li>b<ul><li>c</li></ul></li><li>d</li></ul>",
    "3. a\n4. b": '<ol start="3"><li>a</li><li>b</li></ol>',
    "> a\n> b": "<blockquote><p>a<br>b</p></blockquote>",
    "---": "<hr>",
    "|a|b|\n|-|-:|\n|1|2|": '<div class="table" tabindex="0"><table><thead><tr><th class="">a</th>'
    '<th class="right">b</th></tr></thead><tbody><tr><td class="">1</td><td class="right">2</td></tr>'
    "</tbody></table></div>",
    "<b>x</b> &amp;": "<p>&lt;b&gt;x&lt;/b&gt; &amp;amp;</p>",
    "[x](javascript:alert(1))": "<p><span>x</span></p>",
    "![x](https://a.example/x.png)": '<p><a href="https://a.example/x.png" target="_blank" '
    'rel="noopener noreferrer nofollow" title="https://a.example/x.png">x</a></p>',
    "see https://a.example/b.": '<p>see <a href="https://a.example/b" target="_blank" '
    'rel="noopener noreferrer nofollow" title="https://a.example/b">https://a.example/b</a>.</p>',
}


async def test_markdown_becomes_elements(tabs: Watched) -> None:
    page = await tabs.open()
    found = {text: await page.evaluate(RENDER, text) for text in CASES}
    assert found == CASES
    fence = await page.evaluate(RENDER, "```py\na <b>\n\n  c\n```\nafter")
    assert "<code>a &lt;b&gt;\n\n  c</code>" in fence
    assert fence.endswith("<p>after</p>")
    assert "<code>open\n" in await page.evaluate(RENDER, "~~~\nopen\n")


async def test_a_table_begins_as_a_table(tabs: Watched) -> None:
    """While its text grows, no line of bars is shown; a text that ends so is what it is."""
    page = await tabs.open()
    text = "So:\n|a|b|\n|--|:-:|\n|1|2|\n\n|c"
    for end in range(5, len(text) + 1):
        shown = await page.evaluate(RENDER, [text[:end], True])
        assert "|" not in shown.replace("\n", ""), text[:end]
    assert await page.evaluate(RENDER, ["|a", False]) == "<p>|a</p>"
    assert await page.evaluate(RENDER, ["|a\nand b", True]) == "<p>|a<br>and b</p>"
    assert "|---" not in await page.evaluate(RENDER, ["a\n```\n|a|", True])
    assert "<p>x | y</p>" in await page.evaluate(RENDER, ["x | y", True])


async def test_markdown_of_any_prefix(tabs: Watched) -> None:
    """A text that streams is rendered at each length; long and nested ones take no time."""
    page = await tabs.open()
    for end in range(0, len(MARKDOWN), 7):
        await page.evaluate(RENDER, [MARKDOWN[:end], True])
    hostile = ["*" * 20_000, "[" * 20_000, "> " * 10_000, "`" * 5_000 + "a", "- " * 5_000, "**a " * 5_000]
    async with asyncio.timeout(10):
        for text in hostile:
            await page.evaluate(RENDER, text)
