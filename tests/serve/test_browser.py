"""`EventSource` of a real browser reads every frame of SSEWriter, in order, until the frame `end`."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from llmstream import grammar
from llmstream.events import Finish, TextDelta, decode
from tests.browser import CHROMIUM

pytestmark = [pytest.mark.slow, pytest.mark.skipif(not CHROMIUM, reason="no Chromium")]

Visit = Callable[..., list[Any]]


@pytest.fixture
def visit(started, until, tmp_path: Path) -> Iterator[Visit]:
    """`visit(case, prompt, by)`: what a page reads with EventSource, or with the guide's `read`."""
    server, browsers = started("uvicorn-httptools"), []
    options = ("--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={tmp_path}")
    # A page is left alone as long as its browser can be spoken to.
    command = [CHROMIUM, *options, "--remote-debugging-port=0"]

    def visited(case: str, prompt: str, by: str = "EventSource") -> list[Any]:
        before = len(server.state()["reports"])
        page = f"http://127.0.0.1:{server.port}/page?by={by}&case={case}&prompt={prompt}"
        with (tmp_path / "log").open("wb") as log:
            browsers.append(subprocess.Popen([*command, page], stdout=log, stderr=log))
        until(lambda: len(server.state()["reports"]) > before, "the page reports")
        frames: list[Any] = server.state()["reports"][-1]
        return frames

    yield visited
    for browser in browsers:
        browser.terminate()
        browser.wait(30)


def test_event_source_reads_all_frames(visit: Visit, prompt, vendor) -> None:
    asked = prompt("hello")
    frames = visit("ask", asked)
    events = [decode(frame["data"]) for frame in frames]
    assert [frame["id"] for frame in frames] == [str(number) for number in range(len(events))]
    assert grammar.check(events) == []
    text = "".join(event.delta for event in events if isinstance(event, TextDelta))
    assert text == "Once upon a time there was a stream. " * 50
    assert vendor.count(asked) == 1  # it has not asked again, as it does after a connection that breaks


def test_pings_are_no_messages(visit: Visit, prompt: Callable[[str], str]) -> None:
    """The vendor is silent for 4 s, the heartbeats are 0.5 s apart."""
    events = [decode(frame["data"]) for frame in visit("beating", prompt("pause"))]
    assert isinstance(events[-1], Finish)
    assert grammar.check(events) == []


def test_fetch_reads_all_events(visit: Visit, prompt: Callable[[str], str]) -> None:
    """The program of the guide, with text that a parser of lines could stumble over."""
    events = visit("ask", prompt("odd"), "fetch")
    text = "".join(event["delta"] for event in events if event["type"] == "text-delta")
    assert text == "A line\u2028separator, \U0001f600 and\n\ntwo newlines. " * 20
    assert events[-1]["type"] == "finish"


def test_fetch_notices_a_break(visit: Visit, prompt: Callable[[str], str]) -> None:
    *events, message = visit("failing", prompt("late"), "fetch")
    assert [event["type"] for event in events] == ["stream-start", "text-start", "text-delta"]
    assert message in ("The response broke off.", "network error")


def test_fetch_shows_a_refusal(visit: Visit, prompt: Callable[[str], str]) -> None:
    assert visit("ask", prompt("refused"), "fetch") == ["The model is busy. Try again in 7 s."]
