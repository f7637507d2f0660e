"""How conversations are shown on a terminal: in short, as hits, complete, and as a tree of branches.

What they cost is shown as a table with bars, and as a plot in SVG.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Final

from llmstream.chats import Message, Role
from llmstream.chats.content import Image, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.transcript import transcript
from llmstream.cli.storage import branch_end, branch_ends
from llmstream.cli.terminal import columns
from llmstream.display.plain import cost_text
from llmstream.display.plot import stacked
from llmstream.display.terminal_text import one_line, safe
from llmstream.errors import InvalidRequest
from llmstream.short_forms import counted
from llmstream.store import ConversationInfo, CostRow, Hit, Store
from llmstream.store.store import TreeNode

__all__ = [
    "code_block",
    "cost_lines",
    "cost_svg",
    "hit_form",
    "last_answer",
    "short_form",
    "show",
    "tree_form",
]

_BOLD, _DIM, _OFF = "\x1b[1m", "\x1b[2m", "\x1b[0m"
# The line that begins or ends a code block: CommonMark 0.31, 4.5.
_FENCE: Final = re.compile(r" {0,3}(`{3,}|~{3,})")
_MIN_COLUMNS: Final = 40


def _styled(text: str, style: str) -> str:
    return f"{style}{text}{_OFF}" if sys.stdout.isatty() else text


def _width() -> int:
    return max(_MIN_COLUMNS, columns() or 100)


def _line(message: Message) -> str:
    text = " ".join(message.text.split()) or " ".join(map(_call, message.tool_calls))
    return text or ", ".join(part.part_kind for part in message.parts)


def _call(call: ToolCall) -> str:
    return f"{call.name}({call.arguments})"


def _when(seconds: float) -> str:
    return time.strftime("%Y-%m-%d %H:%M", time.localtime(seconds))


def short_form(store: Store, info: ConversationInfo) -> str:
    """A conversation in a few lines: its metadata, its last prompt, the beginning of the answer to it."""
    chat = store.chat(info.id)
    messages, branches = chat.messages(), len(chat.branches())
    facts = [
        _when(info.updated),
        info.model,
        counted(info.messages, "message"),
        f"{branches} branches" if branches > 1 else "",
        *[f"#{tag}" for tag in info.tags],
    ]
    lines = [
        f"{_styled(one_line(info.id), _BOLD)}  {_styled(one_line('  '.join(filter(None, facts))), _DIM)}"
    ]
    prompts = [at for at, message in enumerate(messages) if message.role == Role.USER]
    for message in messages[prompts[-1] :] if prompts else messages[-1:]:
        if message.role in (Role.USER, Role.ASSISTANT) and message.text.strip():
            mark = ">" if message.role == Role.USER else " "
            lines.append(one_line(f"  {mark} {_line(message)}", _width() - 1))
    return "\n".join(lines)


def hit_form(hit: Hit) -> str:
    """A hit in two lines, with the words marked on a terminal."""
    head = (
        f"{_styled(one_line(hit.conversation), _BOLD)}  {_styled(f'{_when(hit.created)}  {hit.role}', _DIM)}"
    )
    text, at = "", 0
    for start, end in hit.found:
        text += safe(hit.excerpt[at:start]) + _styled(safe(hit.excerpt[start:end]), _BOLD)
        at = end
    return f"{head}\n  {text}{safe(hit.excerpt[at:])}"


def last_answer(store: Store, info: ConversationInfo, branch: int | None = None) -> str:
    """The text of the last answer.

    branch: its number; default: the current one
    raises: InvalidRequest if there is none
    """
    for message in reversed(_messages(store, info, branch)):
        if message.role == Role.ASSISTANT and message.text:
            # Output to a pipe is data.
            return safe(message.text) if sys.stdout.isatty() else message.text
    raise InvalidRequest(f"the conversation {info.id} has no answer")


def _messages(store: Store, info: ConversationInfo, branch: int | None) -> list[Message]:
    chat = store.chat(info.id)
    return chat.messages() if branch is None else chat.messages_of(branch_end(store, info.id, branch))


def code_block(text: str) -> str:
    """The first fenced block of a text, without its fences.

    raises: InvalidRequest if there is none
    """
    fence, block = "", list[str]()
    for line in text.split("\n"):
        found = _FENCE.match(line)
        if not fence:
            fence = found[1] if found is not None else ""
        elif found is not None and found[1].startswith(fence) and not line.strip(" `~\r"):
            break
        else:
            block.append(line)
    if not fence:
        raise InvalidRequest("the last answer has no code block; -r prints it all")
    return "\n".join(block).rstrip("\n")


def show(store: Store, info: ConversationInfo, branch: int | None = None) -> None:
    """Prints a conversation: rendered on a terminal, as Markdown elsewhere.

    branch: its number; default: the current one
    raises: InvalidRequest if there is none
    """
    messages = _messages(store, info, branch)
    if not sys.stdout.isatty():
        print(transcript(messages), end="")
        return
    title = info.title or info.id
    print(_styled(one_line(title), _BOLD))
    count = len(branch_ends(store.tree(info.id)))
    branches = f"  {count} branches, shown by --tree" if count > 1 else ""
    print(_styled(one_line(f"{info.id}  {_when(info.created)}  {info.model}{branches}"), _DIM))
    for message in messages:
        print()
        print(_styled(one_line(message.sender or str(message.role)), _DIM))
        for part in message.parts:
            _print_part(part, rendered=message.role == Role.ASSISTANT)


def _print_part(part: object, *, rendered: bool) -> None:
    match part:
        case Text(text) if rendered:
            _print_markdown(safe(text))
        case Text(text):  # a person's text is shown unformatted
            print(safe(text))
        case Reasoning(text):
            print(_styled(safe(text), _DIM))
        case ToolCall():
            print(_styled(f"> {one_line(_call(part), _width() - 3)}", _DIM))
        case ToolResult():
            mark = "! " if part.is_error else ""
            print(_styled(one_line(f"  {mark}{part.content}", _width() - 1), _DIM))
        case Image():
            print(
                _styled(
                    f"[image, {len(part.data):,} bytes]" if part.data else f"[image {one_line(part.url)}]",
                    _DIM,
                )
            )
        case _:
            print(
                _styled(
                    f"[{getattr(part, 'part_kind', 'part')} {one_line(getattr(part, 'filename', ''))}]", _DIM
                )
            )


def _print_markdown(text: str) -> None:
    try:
        from rich.console import Console
        from rich.markdown import Markdown
    except ModuleNotFoundError:  # without the extra `cli`
        print(text)
        return
    Console().print(Markdown(text, hyperlinks=False))


# All branches: a chain of messages is one column; at a fork, each branch is indented.


def tree_form(store: Store, info: ConversationInfo) -> str:
    """The tree of a conversation; the messages of the current branch are marked."""
    nodes = store.tree(info.id)
    below: dict[int | None, list[TreeNode]] = {}
    for node in nodes:
        below.setdefault(node.parent, []).append(node)
    numbers = {end: number for number, end in enumerate(branch_ends(nodes), 1)}
    return "\n".join([_styled(one_line(info.title or info.id), _BOLD), *_drawn(below, numbers)])


def _drawn(below: dict[int | None, list[TreeNode]], numbers: dict[int, int]) -> Iterator[str]:
    waiting = [(node, "", "") for node in reversed(below.get(None, []))]
    if len(waiting) > 1:
        waiting = _forked(below[None], "")
    while waiting:
        node, mark, indent = waiting.pop()
        sign = "●" if node.current else "○"
        facts = f"  {_styled(f'branch {numbers[node.id]}', _DIM)}" if node.id in numbers else ""
        room = _width() - len(mark) - 16 - (len(facts) and 14)
        yield f"{mark}{sign} {_styled(str(node.role), _DIM)} {one_line(node.text, max(20, room))}{facts}"
        children = below.get(node.id, [])
        waiting += [(children[0], indent, indent)] if len(children) == 1 else _forked(children, indent)


def _forked(children: list[TreeNode], indent: str) -> list[tuple[TreeNode, str, str]]:
    last = len(children) - 1
    found = [
        (node, indent + ("└─" if at == last else "├─"), indent + ("  " if at == last else "│ "))
        for at, node in enumerate(children)
    ]
    return found[::-1]


# What conversations cost: as a table with bars on a terminal, and as a plot in SVG.


_NAME: Final = 40
_MIN_BAR: Final = 8
_MAX_BAR: Final = 40
# A character has eight widths, so short bars differ too.
_EIGHTHS: Final = " ▏▎▍▌▋▊▉"


def cost_lines(by: Sequence[str], rows: Sequence[CostRow]) -> Iterator[str]:
    """A row for each group, the sum below; bars show the cost, or tokens where no price is known."""
    if not rows:
        yield "No turns."
        return
    groups = [[one_line(part, _NAME) for part in row.group] for row in rows]
    widths = [max(map(len, column)) for column in zip(by, *groups, strict=True)]
    head, *names = ["  ".join(map(str.ljust, group, widths)) for group in ([*map(str.upper, by)], *groups)]
    wide = max(len("total"), len(head))
    values = _values(rows)
    # 46 columns of numbers, and a gap.
    room = min(_MAX_BAR, (columns() or 100) - wide - 50)
    yield f"{head:<{wide}}{'TURNS':>8}{'IN':>13}{'OUT':>13}{'COST':>12}"
    for name, row, value in zip(names, rows, values, strict=True):
        bar = f"  {_bar(value / max(values), room)}" if room >= _MIN_BAR and max(values) else ""
        yield f"{name:<{wide}}{_numbers(row)}{bar}".rstrip()
    if len(rows) > 1:
        yield f"{'total':<{wide}}{_numbers(_total(rows))}"


def _numbers(row: CostRow) -> str:
    cost = "unknown" if row.cost is None else cost_text(row.cost)
    return f"{row.turns:>8,}{row.input_tokens:>13,}{row.output_tokens:>13,}{cost:>12}"


def _total(rows: Sequence[CostRow]) -> CostRow:
    known = [row.cost for row in rows if row.cost is not None]
    return CostRow(
        (),
        sum(row.turns for row in rows),
        sum(row.input_tokens for row in rows),
        sum(row.output_tokens for row in rows),
        sum(known) if known else None,
    )


def _values(rows: Sequence[CostRow]) -> list[float]:
    # Without prices, tokens are the best measure.
    if any(row.cost for row in rows):
        return [row.cost or 0.0 for row in rows]
    return [float(row.input_tokens + row.output_tokens) for row in rows]


def _bar(share: float, room: int) -> str:
    eighths = round(share * room * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


def cost_svg(by: Sequence[str], rows: Sequence[CostRow]) -> str:
    """Bars for the values of the first name, or of the day, stacked by the others.

    returns: a complete SVG document
    """
    at = by.index("day") if "day" in by else 0
    values = _values(rows)
    unit = "US dollars" if any(row.cost for row in rows) else "tokens"
    stacks: dict[str, dict[str, float]] = {}
    for row, value in zip(rows, values, strict=True):
        rest = ", ".join(part for place, part in enumerate(row.group) if place != at) or "all"
        stack = stacks.setdefault(row.group[at], {})
        stack[rest] = stack.get(rest, 0.0) + value
    return stacked(
        f"{'Cost' if unit == 'US dollars' else 'Tokens'} by {', '.join(by)}",
        stacks,
        x_title=by[at],
        y_title=unit,
        label="{:,.0f}".format if unit == "tokens" else "${:.4g}".format,
    )
