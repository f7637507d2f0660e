"""Steps of a stream or run as an HTML table for notebooks.

The table has no colours of its own, so that it looks right in light and in dark themes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape as html_escape
from typing import Final, NamedTuple

from llmstream.errors import LLMStreamError
from llmstream.short_forms import amount
from llmstream.usage import Usage

__all__ = ["CallCell", "TableRow", "html_table"]

# A cell should not fill the screen.
_CALLS_SHOWN: Final = 12
_ERROR_CHARS: Final = 200


class CallCell(NamedTuple):
    """A tool call of a step.

    error:   why it failed, or None
    pending: whether it has no result
    """

    name: str
    error: str | None = None
    pending: bool = False


class TableRow(NamedTuple):
    """A step of a run, a response, or the sum of them.

    label:           number of the step, or "Total"
    first_content_s: time to the first content
    total_s:         duration of the response
    """

    label: str = ""
    model: str = ""
    finish: str = ""
    calls: Sequence[CallCell] = ()
    usage: Usage = Usage()
    cost: float | None = None
    first_content_s: float | None = None
    total_s: float | None = None


def html_table(
    caption: str,
    rows: Sequence[TableRow],
    total: TableRow | None = None,
    *,
    error: LLMStreamError | None = None,
) -> str:
    """A table of the rows and their total; columns without any value are left out.

    caption: above the table, such as a `repr`
    error:   why it failed; stands below the table
    """
    sums = [] if total is None else [total]
    columns = [column for column in _COLUMNS if any(column.cell(row) for row in (*rows, *sums))]
    head = "".join([f"<th {column.style}>{column.title}</th>" for column in columns])
    body = "".join([_row(row, columns) for row in rows])
    foot = "".join([_row(row, columns, cell="th") for row in sums])
    table = (
        f"<table><caption {_LEFT}>{escape(caption)}</caption><thead><tr>{head}</tr></thead>"
        f"<tbody>{body}</tbody><tfoot>{foot}</tfoot></table>"
    )
    return (
        table
        if error is None
        else f"{table}<p><strong>{escape(error.code)}</strong>: {escape(str(error))}</p>"
    )


def escape(text: str) -> str:
    """The text as HTML; a lone surrogate, which no message of a kernel can hold, becomes "?"."""
    return html_escape(text.encode("utf-8", "replace").decode())


_LEFT: Final = 'style="text-align:left"'
_RIGHT: Final = 'style="text-align:right"'


class _Column(NamedTuple):
    """cell: the HTML of a row's cell, "" for none"""

    title: str
    cell: Callable[[TableRow], str]
    style: str = _RIGHT


def _row(row: TableRow, columns: Iterable[_Column], cell: str = "td") -> str:
    return f"<tr>{''.join([f'<{cell} {c.style}>{c.cell(row)}</{cell}>' for c in columns])}</tr>"


def _calls(row: TableRow) -> str:
    shown = [_call(call) for call in row.calls[:_CALLS_SHOWN]]
    if len(row.calls) > _CALLS_SHOWN:
        shown.append(f"… {len(row.calls) - _CALLS_SHOWN} more")
    return "<br>".join(shown)


def _call(call: CallCell) -> str:
    name = f"<code>{escape(call.name)}</code>"
    if call.pending:
        return f"{name} pending"
    if call.error is None:
        return f"{name} ✓"
    error = call.error if len(call.error) <= _ERROR_CHARS else call.error[:_ERROR_CHARS] + "…"
    return f"{name} ✗ {escape(error)}"


def _tokens(count: int | None, part: int | None, of: str) -> str:
    if count is None:
        return ""
    return f"{count:,} ({part:,} {of})" if part else f"{count:,}"


def _seconds(seconds: float | None) -> str:
    if seconds is None:
        return ""
    return f"{seconds:.2f} s" if seconds >= 1 else f"{seconds * 1000:.0f} ms"


_COLUMNS: Final = (
    _Column("Step", lambda row: escape(row.label), _LEFT),
    _Column("Model", lambda row: escape(row.model), _LEFT),
    _Column("Calls", _calls, _LEFT),
    _Column("Finish", lambda row: escape(row.finish), _LEFT),
    _Column("Tokens in", lambda r: _tokens(r.usage.input_tokens, r.usage.cached_input_tokens, "cached")),
    _Column("Tokens out", lambda r: _tokens(r.usage.output_tokens, r.usage.reasoning_tokens, "reasoning")),
    _Column("Cost", lambda row: "" if row.cost is None else amount(row.cost)),
    _Column("First content", lambda row: _seconds(row.first_content_s)),
    _Column("Response", lambda row: _seconds(row.total_s)),
)
