"""The table of steps: escaped, without colours, and only with columns that have values."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import llmstream as ls
from llmstream.display.table import CallCell, TableRow, html_table


class Cells(HTMLParser):
    """Rows of a table, as text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: object) -> None:
        self.tags.add(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_data(self, data: str) -> None:
        if self.rows and self.rows[-1]:
            self.rows[-1][-1] += data


def test_empty_columns_are_left_out() -> None:
    rows = [
        TableRow("0", "sim:demo", usage=ls.Usage(1200, 30, cached_input_tokens=1000, reasoning_tokens=20))
    ]
    shown = Cells(html_table("run", rows, TableRow("Total", total_s=1.5)))
    assert shown.rows == [
        ["Step", "Model", "Tokens in", "Tokens out", "Response"],
        ["0", "sim:demo", "1,200 (1,000 cached)", "30 (20 reasoning)", ""],
        ["Total", "", "", "", "1.50 s"],
    ]


def test_everything_in_cells_is_escaped() -> None:
    evil = "<script>alert('&')</script>"
    row = TableRow(evil, evil, evil, [CallCell(evil, evil), CallCell(evil, pending=True)])
    error = ls.RateLimited(evil, provider=evil)
    shown = Cells(html_table(evil, [row], row, error=error))
    assert "script" not in shown.tags
    assert shown.rows[1][2] == f"{evil} ✗ {evil}{evil} pending"


def test_many_calls_and_long_errors_are_cut() -> None:
    calls = [CallCell("find", "\ud800" + "x" * 999), *[CallCell("find")] * 14]
    html = html_table("run", [TableRow(calls=calls)])
    assert "?" + "x" * 199 + "…" in html
    assert "x" * 200 not in html
    assert html.count("✓") == 11
    assert "… 3 more" in html


def test_the_table_has_no_colours() -> None:
    html = html_table("run", [TableRow("0", "m", "stop", [CallCell("a")], ls.Usage(1, 1), 0.1, 0.01, 2)])
    assert set(re.findall(r'style="([^"]*)"', html)) == {"text-align:left", "text-align:right"}


def weather(city: str) -> str:
    """Tell the weather."""
    raise LookupError("no such city")


async def test_a_run_has_a_row_for_each_step() -> None:
    run = ls.Agent("sim:demo", tools=[weather], price=lambda model, usage: 0.25).stream("How is Oslo?")
    assert run._repr_html_() is None
    await run.collect()
    head, first, second, total = Cells(run._repr_html_() or "").rows
    assert head == ["Step", "Model", "Calls", "Finish", "Tokens in", "Tokens out", "Cost", *head[7:]]
    assert first[:4] == ["0", "sim:demo", "weather ✗ LookupError: no such city", "tool-calls"]
    assert [second[0], second[3], second[6]] == ["1", "stop", "0.25"]
    assert total[:7] == ["Total", "", "", "", f"{run.total_usage.input_tokens}", total[5], "0.5"]
    assert re.fullmatch(r"\d+ ms|\d+\.\d\d s", total[8])


async def test_a_waiting_call_is_pending() -> None:
    asking = ls.tool(weather, needs_approval=True)
    stream = ls.stream("sim:demo", "How is Oslo?", tools=[asking])
    assert stream._repr_html_() is None
    await stream.collect()
    head, row = Cells(stream._repr_html_() or "").rows
    assert head[:3] == ["Model", "Calls", "Finish"]
    assert row[:3] == ["sim:demo", "weather pending", "tool-calls"]
    run = ls.Agent("sim:demo", tools=[asking]).stream("How is Oslo?")
    await run.collect()
    waiting = Cells(run._repr_html_() or "").rows[1]
    assert waiting[:3] == ["0", "weather pending", "suspended"]


async def test_an_error_is_below_the_table() -> None:
    run = ls.Agent("sim:demo").stream("How is Oslo?", deadlines=ls.Deadlines(total_s=1e-6), errors="events")
    await run.collect()
    assert "<p><strong>deadline-exceeded</strong>: " in (run._repr_html_() or "")
