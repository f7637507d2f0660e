"""What a map will ask and cost: a pass over the input before the first request."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from llmstream.cli.map.progress import amount, counted
from llmstream.cli.map.rows import BadRow, Row
from llmstream.display.terminal_text import one_line
from llmstream.errors import LLMStreamError
from llmstream.mapping.asking import Price
from llmstream.streams.options import Prompt, as_messages
from llmstream.usage import Usage

__all__ = ["Survey", "estimate_lines", "surveyed"]

# Usual for English; the estimate is shown as one.
_CHARS_PER_TOKEN: Final = 4
# Assumed of an answer: nobody knows before. A paragraph.
_ANSWER_TOKENS: Final = 200

_SHOWN_CHARS: Final = 300


@dataclass
class Survey:
    """What an input holds.

    bad:     rows that will fail: they cannot be read, or lack a column of the prompt
    chars:   of all prompts
    columns: of all rows, in the order of their first appearance
    first:   the first prompt
    """

    rows: int = 0
    bad: int = 0
    chars: int = 0
    columns: dict[str, None] = field(default_factory=dict)
    first: str = ""
    problem: str = ""

    def cost(
        self, price: Price | None, model: str, *, share: float, overhead: int, answer: int
    ) -> float | None:
        """The estimated cost of a share of the rows; None if there is no price.

        overhead: characters of each request beside its prompt
        answer:   tokens of each answer
        """
        rows = (self.rows - self.bad) * share
        if price is None or rows <= 0:
            return None
        # Prices may depend on the length of a request, so the average one is priced.
        tokens = Usage(max(1, round((self.chars / max(1, self.rows) + overhead) / _CHARS_PER_TOKEN)), answer)
        each = price(model, tokens)
        return None if each is None else each * rows


def surveyed(rows: Iterator[Row], prompt_of: Callable[[Any], Prompt]) -> Survey:
    """Reads an input to its end."""
    found = Survey()
    for row in rows:
        found.rows += 1
        try:
            if not isinstance(row, BadRow):
                found.columns.update(dict.fromkeys(row))
            text = _text(prompt_of(row))
        except LLMStreamError as error:
            found.bad += 1
            found.problem = found.problem or error.message
            continue
        found.chars += len(text)
        found.first = found.first or text
    return found


def _about(number: int) -> str:
    """A number with three digits that count."""
    return f"{float(f'{number:.3g}'):,.0f}"


def _text(prompt: Prompt) -> str:
    return prompt if isinstance(prompt, str) else "\n".join(m.text for m in as_messages(prompt))


def answer_tokens(max_tokens: int | None) -> int:
    """The assumed tokens of an answer."""
    return min(_ANSWER_TOKENS, max_tokens or _ANSWER_TOKENS)


def estimate_lines(
    survey: Survey, model: str, *, stored: int, overhead: int, answer: int, cost: float | None
) -> list[str]:
    """The estimate, for people.

    stored: rows of the output that is there
    """
    left = max(0, survey.rows - stored)
    tokens = round(left * (survey.chars / max(1, survey.rows) + overhead) / _CHARS_PER_TOKEN)
    lines = [counted(survey.rows, "row") + (f", {stored:,} of them already in the output" if stored else "")]
    if survey.bad:
        lines.append(f"{counted(survey.bad, 'row')} will fail: {one_line(survey.problem, 200)}")
    lines.append(
        f"about {_about(tokens)} tokens of input, and {_about(left * answer)} of output at {answer} an answer"
    )
    if cost is None:
        lines.append(f"no price of {model} is known")
    else:
        lines.append(f"about {amount(cost)} with {model}")
    if survey.first:
        lines.append(f"the first prompt: {one_line(survey.first, _SHOWN_CHARS)}")
    return lines
