"""The page of `examples/use_chat` in Chromium, against its server in a process of its own.

Its packages are those of `npm install --prefix examples/use_chat`, or of tests/peers, which has the same
versions. Without them, Chromium or playwright, the tests are skipped.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser import CHROMIUM, Watched

pytestmark = pytest.mark.slow
playwright = pytest.importorskip("playwright.async_api", reason="playwright is not installed")
expect = playwright.expect

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "use_chat"

PEERS = ROOT / "tests" / "peers"
VERSIONS: dict[str, str] = json.loads((EXAMPLE / "package.json").read_bytes())["dependencies"]
MODULES = (
    EXAMPLE / "node_modules",
    Path(os.environ.get("LLMSTREAM_NODE_MODULES") or PEERS / "node_modules"),
)

TEXT = " ".join(f"word{number}" for number in range(120))
"""Each word once: a gap and a repetition both show."""

TWO = {
    "turns": [
        {
            "calls": [
                {"name": "book_table", "arguments": {"city": city, "time": "19:30", "people": 2}}
                for city in ("Oslo", "Lima")
            ]
            + [{"name": "weather", "arguments": {"city": "Oslo"}}]
        },
        {"text": "Enjoy."},
    ]
}
SLOW = {"pace": {"delta_s": 0.02}, "turns": [{"reasoning": "A long answer is due.", "text": TEXT}]}


def is_complete(modules: Path) -> bool:
    return all((modules / name).is_dir() for name in VERSIONS)


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the example with its page built, so that workers of a test run do not share the output."""
    if not CHROMIUM:
        pytest.skip("Chromium is not installed")
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed")
    modules = next(filter(is_complete, MODULES), None)
    if modules is None:
        pytest.skip("packages of npm are missing: npm install --prefix examples/use_chat")
    folder = tmp_path_factory.mktemp("example") / "use_chat"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("node_modules", "dist", "__pycache__"))
    (folder / "node_modules").symlink_to(modules.resolve(), target_is_directory=True)
    built = subprocess.run(["npm", "run", "build"], cwd=folder, capture_output=True, text=True, timeout=60)
    assert built.returncode == 0, built.stderr
    return folder


class Server:
    """The example in a process of its own, which can be killed and started again at the same address."""

    def __init__(self, example: Path, folder: Path) -> None:
        self.url = ""
        self._example, self._folder = example, folder
        self._port = "0"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, model: str | dict[str, Any] = SLOW) -> None:
        """Starts it with a model or a script; by default one that writes TEXT, whatever it is asked."""
        if not isinstance(model, str):
            script = self._folder / "script.json"
            script.write_text(json.dumps(model))
            model = f"sim:{script}"
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(self._example / "server.py"),
            *("--port", self._port, "--database", str(self._folder / "chats.db")),
            env={**os.environ, "PYTHONPATH": str(ROOT), "LLMSTREAM_MODEL": model},
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.PIPE,
        )
        assert self._process.stderr is not None
        seen = ""
        while not (found := re.search(r"running on (http://127\.0\.0\.1:(\d+))", seen)):
            line = (await self._process.stderr.readline()).decode()
            assert line, seen
            seen += line
        self.url, self._port = found[1], found[2]

    async def end(self, sent: signal.Signals = signal.SIGINT) -> tuple[int | None, str]:
        """The exit status, and what it wrote after its start."""
        assert self._process is not None
        if self._process.returncode is None:
            self._process.send_signal(sent)
        _, errors = await self._process.communicate()
        return self._process.returncode, errors.decode()


@pytest.fixture
async def server(built: Path, tmp_path: Path) -> AsyncIterator[Server]:
    server = Server(built, tmp_path)
    await server.start()
    yield server
    _, errors = await server.end()
    assert "Traceback" not in errors


@pytest.fixture
async def tabs(server: Server) -> AsyncIterator[Watched]:
    async with playwright.async_playwright() as driver:
        # In a container, which is a sandbox already, Chromium may not make its own.
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        tabs = Watched(await browser.new_context(), server.url)
        yield tabs
        await browser.close()
        assert tabs.complaints == []


async def ask(page: Any, prompt: str) -> None:
    await page.get_by_label("Message").fill(prompt)
    await page.keyboard.press("Enter")


def answer(page: Any) -> Any:
    """The last text of the model."""
    return page.locator(".text").last


def button(page: Any, name: str) -> Any:
    return page.get_by_role("button", name=name)


async def show(page: Any) -> None:
    """What a browser does when a tab is brought to the front."""
    await page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")


async def over(page: Any) -> None:
    """Waits for the end of the response, whatever it is."""
    await expect(button(page, "Send")).to_be_visible()
    await expect(page.locator(".waiting")).to_have_count(0)


def test_versions_are_those_of_peers() -> None:
    peers = json.loads((PEERS / "package.json").read_bytes())["dependencies"]
    assert peers.items() >= VERSIONS.items()


async def test_an_answer_streams(tabs: Watched) -> None:
    page = await tabs.open()
    await ask(page, "Hello")
    await expect(page.locator(".user")).to_have_text("Hello")
    await expect(answer(page)).to_contain_text("word3")
    await expect(button(page, "Stop")).to_be_visible()
    await expect(answer(page)).not_to_contain_text("word119")
    await over(page)
    assert await answer(page).inner_text() == TEXT
    thought = page.get_by_text("A long answer is due.")
    await expect(thought).to_be_hidden()
    await page.get_by_text("Reasoning").click()
    await expect(thought).to_be_visible()


async def test_reload_in_the_middle(tabs: Watched) -> None:
    """Nothing is missing and nothing comes twice, during the response and after it."""
    page = await tabs.open()
    await ask(page, "Hello")
    await expect(answer(page)).to_contain_text("word9")
    await page.reload()
    await expect(button(page, "Stop")).to_be_visible()
    for _ in range(2):
        await over(page)
        await expect(answer(page)).to_have_text(TEXT)
        await expect(page.locator(".text")).to_have_count(1)
        await expect(page.locator(".user")).to_have_count(1)
        await page.reload()


@pytest.mark.parametrize("approves", [True, False])
async def test_approval_after_a_reload(tabs: Watched, server: Server, approves: bool) -> None:
    """Also after a restart: the call waits in the database."""
    await server.end()
    await server.start("sim:demo")
    page = await tabs.open()
    await ask(page, "A table in Oslo, please")
    await expect(button(page, "Approve")).to_be_visible()
    await page.reload()
    card = page.locator(".tool")
    await expect(card).to_contain_text("May it run?")
    await over(page)  # a server that ends cuts the response, which Chromium reports
    await server.end()
    await server.start("sim:demo")
    await page.reload()
    await button(page, "Approve" if approves else "Deny").click()
    if approves:
        await expect(card).to_contain_text("Calling the restaurant")
        await expect(card).to_contain_text("booked, for 1 in Oslo")
    await expect(card).to_contain_text("Done" if approves else "Denied")
    await expect(answer(page)).to_contain_text("That is all there is.")
    await over(page)
    await page.reload()
    await expect(page.locator(".user, .text, .tool")).to_have_count(4)
    await expect(card).to_contain_text("Done" if approves else "Denied")


async def test_two_calls_decided_together(tabs: Watched, server: Server) -> None:
    """The first decision waits for the second, also when another tab was in front between them."""
    await server.end()
    await server.start(TWO)
    page = await tabs.open()
    await ask(page, "Two tables, please")
    cards = page.locator(".tool")
    await expect(cards).to_have_count(3)
    await expect(cards.nth(2)).to_contain_text("light snow")
    await button(cards.nth(0), "Approve").click()
    await expect(cards.nth(0)).to_contain_text("Approved")
    await show(page)
    await button(cards.nth(1), "Deny").click()
    await expect(answer(page)).to_have_text("Enjoy.")
    await over(page)
    for card, state in enumerate(("Done", "Denied", "Done")):
        await expect(cards.nth(card).locator("h2")).to_contain_text(state)


async def test_decided_in_another_tab(tabs: Watched, server: Server) -> None:
    """A page that is out of date says so, and has the newest with one click."""
    await server.end()
    await server.start("sim:demo")
    first = await tabs.open()
    await ask(first, "A table in Oslo, please")
    await expect(button(first, "Approve")).to_be_visible()
    second = await tabs.open(first.url)
    await button(second, "Approve").click()
    await expect(answer(second)).to_contain_text("That is all there is.")
    await over(second)
    await button(first, "Deny").click()
    await expect(first.get_by_role("alert")).to_contain_text("This page is out of date.")
    assert [text for text in tabs.complaints if "409" not in text] == []
    tabs.complaints.clear()  # Chromium reports each refusal
    await button(first, "Refresh").click()
    await expect(first.locator(".tool")).to_contain_text("booked, for 1 in Oslo")
    await expect(first.get_by_role("alert")).to_have_count(0)
    await expect(first.locator(".text")).to_have_text(await second.locator(".text").all_inner_texts())


async def test_a_second_tab_stops_it(tabs: Watched) -> None:
    first = await tabs.open()
    await ask(first, "Hello")
    await expect(answer(first)).to_contain_text("word9")
    second = await tabs.open(first.url)
    await expect(answer(second)).to_contain_text("word9")
    await button(second, "Stop").click()
    for page in (first, second):
        await over(page)
        await expect(page.get_by_role("alert")).to_have_count(0)
    written = await answer(first).inner_text()
    assert len(written) < len(TEXT)
    assert TEXT.startswith(written)
    assert await answer(second).inner_text() == written
    await ask(second, "Again")
    await over(second)
    await show(first)
    await expect(first.locator(".user")).to_have_text(["Hello", "Again"])
    await expect(first.locator(".text")).to_have_text([written, TEXT])


async def test_a_killed_server(tabs: Watched, server: Server) -> None:
    """The page shows an error and what had arrived, never a response that goes on for ever."""
    page = await tabs.open()
    await ask(page, "Hello")
    await expect(answer(page)).to_contain_text("word9")
    tabs.offline = True
    await server.end(signal.SIGKILL)
    await expect(page.get_by_role("alert")).to_contain_text("The connection is lost.")
    await button(page, "Reconnect").click()
    await expect(page.get_by_role("alert")).to_contain_text("The connection is lost.")
    await server.start()
    await button(page, "Reconnect").click()
    await expect(button(page, "Answer again")).to_be_visible()
    await over(page)
    await expect(answer(page)).to_contain_text("word9")
    assert TEXT.startswith(await answer(page).inner_text())
    await button(page, "Answer again").click()
    await expect(answer(page)).to_have_text(TEXT)
    await over(page)
    await page.reload()
    await expect(page.locator(".text")).to_have_text([TEXT])
    await expect(page.locator(".user")).to_have_text(["Hello"])
    await over(page)


async def test_a_message_without_a_server(tabs: Watched, server: Server) -> None:
    """It is sent once the server is back, and once only."""
    page = await tabs.open()
    tabs.offline = True
    await server.end()
    await ask(page, "Hello")
    await expect(page.get_by_role("alert")).to_contain_text("The connection is lost.")
    await server.start()
    await button(page, "Reconnect").click()
    await expect(answer(page)).to_have_text(TEXT)
    await over(page)
    await page.reload()
    await expect(page.locator(".user")).to_have_text(["Hello"])
    await expect(page.locator(".text")).to_have_text([TEXT])


async def test_killed_during_a_call(tabs: Watched, server: Server) -> None:
    """A call without a result is not shown as one that runs."""
    await server.end()
    await server.start("sim:demo")
    page = await tabs.open()
    await ask(page, "A table in Oslo, please")
    await button(page, "Approve").click()
    await expect(page.locator(".tool")).to_contain_text("Calling the restaurant")
    tabs.offline = True
    await server.end(signal.SIGKILL)
    await server.start("sim:demo")
    await page.reload()
    await expect(button(page, "Answer again")).to_be_visible()
    await expect(page.locator(".tool")).to_have_count(1)
    await expect(page.locator(".tool")).to_contain_text("cancelled before it was done")
    await ask(page, "And one in Lima")
    await expect(button(page, "Approve")).to_be_visible()
