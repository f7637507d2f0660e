"""A run on a terminal, drawn as it grows: the end of it looks the same however it came."""

from __future__ import annotations

import asyncio
import io
import re

import pytest

pytest.importorskip("rich")

from rich.console import Console
from rich.segment import Segment

from llmstream.display.live import LiveDisplay, Region
from llmstream.events import (
    File,
    Finish,
    ReasoningDelta,
    Source,
    StreamStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
    ToolResult,
    UnsupportedSetting,
    Usage,
)

MARKDOWN = """\
# A heading

A paragraph with **bold** words, `code`, and a [link](https://example.com/where) that is long
enough to be wrapped at the end of a row of eighty columns.

- one
- two
  with more

  ```python
  x = 1


  y = 2
  ```

1. first

2. second

| a | b |
|---|---|
| 1 | 2 |

> a quotation

```
code
```
The end."""


class Tty(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(monkeypatch):
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("LINES", "24")


async def shown(events, *, draw_each=False, stopped=False, **options):
    """What is written; drawn after each event where asked, else only at the end."""
    out = Tty()
    show = LiveDisplay(out, **options)
    for event in events:
        show.feed(event)
        if draw_each and show._timer is not None:
            show._timer.cancel()
            show._draw()
    show.close(stopped=stopped)
    await asyncio.sleep(0)
    return out.getvalue()


def in_pieces(text, size, kind=TextDelta):
    return [kind(text[i : i + size], "0") for i in range(0, len(text), size)]


async def test_markdown_is_rendered(screen):
    rows = screen.rows(await shown([TextDelta(MARKDOWN, "0")]))
    text = "\n".join(rows)
    assert "A heading" in text
    assert "**" not in text
    assert "(https://example.com/where)" in text.replace("\n", "")
    assert " • one" in rows
    assert rows.count(" • one") == 1
    assert text.count("y = 2") == 1


def timeless(rows: list[str]) -> list[str]:
    """The rows, without how long the first token took."""
    return [re.sub(r"\d+\.\d\d s to", "… s to", row) for row in rows]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50])
async def test_any_cut_and_draw_ends_the_same(size, screen):
    whole = timeless(screen.rows(await shown([TextDelta(MARKDOWN, "0")])))
    pieces = await shown(in_pieces(MARKDOWN, size), draw_each=True)
    assert timeless(screen.rows(pieces)) == whole


@pytest.mark.parametrize("size", [pytest.param(1, marks=pytest.mark.slow), 5])
async def test_block_taller_than_screen_scrolls(size, screen, monkeypatch):
    """It is complete at the end."""
    monkeypatch.setenv("LINES", "8")
    code = "```\n" + "".join(f"line {n}\n" for n in range(40)) + "```\n\nAfter."
    whole = timeless(screen.rows(await shown([TextDelta(code, "0")])))
    pieces = await shown(in_pieces(code, size), draw_each=True)
    assert [row for row in timeless(screen.rows(pieces)) if row] == [row for row in whole if row]
    assert [row.strip() for row in whole if row.strip().startswith("line")] == [
        f"line {n}" for n in range(40)
    ]


def test_narrowed_window_leaves_no_old_rows():
    """The terminal has wrapped the growing rows, so more rows than were drawn are erased."""
    out = Tty()
    console = Console(file=out, width=80, force_terminal=True)
    region = Region(console)
    region.draw([], [[Segment("a" * 67)], [], [Segment("b" * 30)]])
    console.width = 30
    out.truncate(0)
    region.draw([], [])
    assert out.getvalue().lstrip("\0") == "\r\x1b[2K" + "\x1b[1A\x1b[2K" * 4


async def test_reasoning_is_dim_and_kept_apart(screen):
    events = [ReasoningDelta("First.\nSecond ", "0"), ReasoningDelta("half.", "0"), TextDelta("Answer.", "1")]
    out = await shown(events, draw_each=True)
    assert "\x1b[2;3mFirst." in out
    assert screen.rows(out)[:4] == ["First.", "Second half.", "", "Answer."]


async def test_reasoning_can_be_hidden():
    out = await shown([ReasoningDelta("Secret", "0"), TextDelta("a", "1")], reasoning=False, draw_each=True)
    assert "Secret" not in out


async def test_calls_show_while_written_and_at_end(screen):
    events = [
        TextDelta("Let me look.", "0"),
        ToolInputStart("weather", "c1"),
        ToolInputDelta('{"city":', "c1"),
        ToolInputDelta('"Oslo"}', "c1"),
        ToolInputEnd("c1"),
        ToolCall("weather", '{"city":"Oslo"}', "c1"),
        ToolResult("cold", "c1", "weather"),
        ToolResult("no", "c2", "wind", is_error=True),
        TextDelta("Cold.", "2"),
        Finish("stop", Usage(3, 4)),
    ]
    out = await shown(events, draw_each=True)
    assert 'weather({"city":…' in out
    rows = screen.rows(out)
    assert rows[:7] == [
        "Let me look.",
        "",
        'weather({"city":"Oslo"})',
        "> Ran tool: `weather`",
        "> Ran tool: `wind` - failed: `no`",
        "",
        "Cold.",
    ]
    assert rows[8].endswith("3 in · 4 out · stop")


async def test_warnings_files_and_sources_are_told(screen):
    events = [
        StreamStart([UnsupportedSetting("seed")]),
        TextDelta("a", "0"),
        File("image/png", b""),
        Source("url", "s", "https://example.com/", "A page"),
        Source("document", "d", filename="b.pdf"),
    ]
    rows = [row for row in screen.rows(await shown(events)) if row]
    assert rows[:5] == [
        "warning: the option seed is not supported as given",
        "a",
        "[a file of type image/png]",
        "[1] A page: https://example.com/",
        "[2] b.pdf",
    ]


@pytest.mark.parametrize("size", [1, 2, 1000])
async def test_nothing_harmful_is_ever_written(size, screen):
    """The model may send anything."""
    evil = (
        "a\x1b]52;c;QQ==\x07b \x1b[2J\x1b[H \x9b31m \x90x\x9c \x1b]8;;http://e\x1b\\c\x1b]8;;\x1b\\ "
        "\u202eabc &#27;[2J &#x9b;2J &#x202e; &#13; &#7; &#8; &NewLine; `\x1b[1A` "
        "[x](http://e/&#27;]52;c;QQ==&#7;) ![i](http://e/\x1b[1A)\n\n```\x1b[31m\n\x1b[1A&#27;\n```\n\n"
        "| \x08 | &#8; |\n|-|-|\n| \x0e | \x1b(0 |\n\n<b>\x1b[5m</b>\n"
    )
    events = [
        *in_pieces(evil, size, ReasoningDelta),
        *in_pieces(evil, size),
        ToolInputStart("f\x1b[2J", "c"),
        ToolInputDelta(evil, "c"),
        ToolCall("f\x1b[2J", evil, "c"),
        ToolResult(evil, "c", "f\x9b2J", is_error=True),
        File("a\x1b[2J", b""),
        Source("url", "s", evil, evil),
    ]
    out = await shown(events, draw_each=True)
    assert screen.harmful(out) == []


async def test_colours_can_be_left_out():
    out = await shown([TextDelta("**a** `b`", "0")], color=False)
    assert "\x1b[3" not in out.replace("\x1b[3m", "")
    assert "38;" not in out


async def test_a_stopped_run_keeps_what_came(screen):
    rows = screen.rows(await shown([TextDelta("half a sent", "0")], stopped=True))
    assert rows[:2] == ["half a sent", ""]
    assert rows[2].endswith("stopped")


async def test_run_without_output_leaves_nothing(screen):
    assert [row for row in screen.rows(await shown([])) if row] == []


async def test_drawing_goes_on_while_nothing_comes(screen):
    out = Tty()
    show = LiveDisplay(out)
    show.feed(TextDelta("first words", "0"))
    for _ in range(100):
        await asyncio.sleep(0.01)
        if "first words" in out.getvalue():
            break
    assert screen.rows(out.getvalue()) == ["first words"]
    show.close()


async def test_lost_terminal_is_raised_to_reader():
    class Gone(Tty):
        lost = False

        def write(self, text: str) -> int:
            if self.lost:
                raise BrokenPipeError
            return super().write(text)

    out = Gone()
    show = LiveDisplay(out)
    out.lost = True
    show.feed(TextDelta("a", "0"))
    show._timer.cancel()
    show._draw()
    with pytest.raises(BrokenPipeError):
        show.feed(TextDelta("b", "0"))


async def test_drawing_cost_is_linear_in_length():
    """Each block is rendered once for good; what is drawn in between never holds more than one."""
    out = Tty()
    show = LiveDisplay(out)
    tails = []
    for n in range(300):
        show.feed(TextDelta(f"Paragraph {n} of a long answer.\n\n", "0"))
        tails.append(len(show._block.tail))
    show.close()
    assert max(tails) < 100
