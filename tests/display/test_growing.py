"""Long blocks on a terminal: what is drawn again is bounded, whatever has come."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.display.growing import MarkdownBlocks

pytest.importorskip("rich")

from rich.console import Console

from llmstream.display import growing
from llmstream.display.growing import GrowingText, GrowingThought
from llmstream.display.live import _DELTA_CHARS, _shortened

CODE = "```python\n" + "".join(f"x{n} = {n}\n" for n in range(2000)) + "```\n\nThe end.\n"
PROSE = "word " * 10_000
TABLE = "|a" * 5000 + "|\n" + "|-" * 5000 + "|\n" + "|b" * 5000 + "|\n"


def console() -> Console:
    return Console(file=io.StringIO(), width=80, height=24, force_terminal=True, color_system=None)


def text_of(rows: list[growing.Row]) -> list[str]:
    return ["".join(segment.text for segment in row).rstrip() for row in rows]


def grown(text: str, size: int, *, room: int = 20) -> tuple[list[str], int]:
    """All rows, drawn after each piece, and the longest text that one drawing rendered."""
    block, longest, rows = GrowingText(console()), 0, []
    for at in range(0, len(text), size):
        rows += block.feed(text[at : at + size])
        longest = max(longest, len(block.tail))
        gone, _ = block.rows(room)
        rows += gone
    return text_of(rows + block.close()), longest


@pytest.mark.slow
@pytest.mark.parametrize("text", [CODE, PROSE, TABLE], ids=["code", "prose", "table"])
def test_what_is_drawn_again_is_bounded(text: str) -> None:
    _, longest = grown(text, 997)
    assert longest <= growing._MAX_CHARS


@pytest.mark.slow
def test_long_fence_lost_and_doubled_nowhere() -> None:
    rows, _ = grown(CODE, 501)
    code = [row.strip() for row in rows if " = " in row]
    assert code == [f"x{n} = {n}" for n in range(2000)]
    assert rows[-1] == "The end."
    assert "```" not in "".join(rows)


@pytest.mark.slow
def test_parts_of_a_fence_have_no_gap() -> None:
    rows, _ = grown(CODE, 501)
    first = next(at for at, row in enumerate(rows) if "x0 = 0" in row)
    assert all(rows[first : first + 2000])


@pytest.mark.slow
@pytest.mark.parametrize("text", [CODE, PROSE], ids=["code", "prose"])
def test_cut_long_block_ends_the_same(text: str) -> None:
    whole = text_of((block := GrowingText(console())).feed(text) + block.close())
    assert grown(text, 173)[0] == whole
    assert grown(text, 4096)[0] == whole


def test_nothing_of_long_prose_is_lost() -> None:
    rows, _ = grown(PROSE, 501)
    assert sum(row.count("word") for row in rows) >= 9980  # a word may be cut between two parts
    assert "".join("".join(rows).split()) == "word" * 10_000


def test_thought_without_newline_is_bounded() -> None:
    block, rows = GrowingThought(console()), []
    for _ in range(200):
        rows += block.feed("thinking " * 20)
        assert len(block.tail) <= growing._MAX_CHARS
    assert "".join("".join(text_of(rows + block.close())).split()) == "thinking" * 4000


def test_middle_of_huge_fragment_is_left_out() -> None:
    short = _shortened("a" * 1_000_000)
    assert len(short) < _DELTA_CHARS + 100
    assert "900000 characters not shown" in short
    assert _shortened("a" * _DELTA_CHARS) == "a" * _DELTA_CHARS


def blocks(*pieces: str) -> list[str]:
    cutter = MarkdownBlocks()
    return [block for piece in pieces for block in cutter.feed(piece)] + cutter.close()


CASES = {
    "paragraphs": ("a\nb\n\nc\n", ["a\nb\n\n", "c\n"]),
    "several empty lines": ("a\n\n \n\nc", ["a\n\n \n\n", "c"]),
    "heading and text": ("# a\n\nb", ["# a\n\n", "b"]),
    "fence holds empty lines": ("```py\na\n\n\nb\n```\n\nc", ["```py\na\n\n\nb\n```\n\n", "c"]),
    "tilde fence holds backticks": ("~~~\n```\n\n~~~\n\nc", ["~~~\n```\n\n~~~\n\n", "c"]),
    "longer fence holds a shorter": ("````\n```\n\n````\n\nc", ["````\n```\n\n````\n\n", "c"]),
    "fence that never ends": ("```\na\n\nb", ["```\na\n\nb"]),
    "code span is no fence": ("```a``` b\n\nc", ["```a``` b\n\n", "c"]),
    "fence in a list": ("- a\n  ```\n\n  b\n  ```\n\nc", ["- a\n  ```\n\n  b\n  ```\n\n", "c"]),
    "loose list": ("1. a\n\n2. b\n\nc", ["1. a\n\n2. b\n\n", "c"]),
    "list with a paragraph inside": ("- a\n\n  b\n\nc", ["- a\n\n  b\n\n", "c"]),
    "list and bold text": ("- a\n\n**b**", ["- a\n\n", "**b**"]),
    "list and a number of text": ("- a\n\n12 apples", ["- a\n\n", "12 apples"]),
    "paragraph and list": ("a:\n\n- b\n- c", ["a:\n\n", "- b\n- c"]),
    "table": ("|a|b|\n|-|-|\n|1|2|\n\nc", ["|a|b|\n|-|-|\n|1|2|\n\n", "c"]),
    "leading empty lines": ("\n\na", ["a"]),
    "nothing": ("", []),
    "only empty lines": ("\n \n", []),
}


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_block_ends_where_nothing_can_join(text, expected):
    assert blocks(text) == expected


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_single_characters_give_same_blocks(text, expected):
    assert blocks(*text) == expected


@given(st.lists(st.sampled_from(["a", " ", "\n", "\n\n", "- ", "1. ", "12", "```\n", "~~~", "**", "    "])))
def test_any_cut_gives_the_same_blocks(pieces):
    text = "".join(pieces)
    whole = blocks(text)
    assert blocks(*pieces) == blocks(*text) == whole
    assert "".join(whole).strip() == text.strip()


def test_block_is_given_at_the_next_line():
    cutter = MarkdownBlocks()
    assert cutter.feed("a\n\n") == []
    assert cutter.feed("b") == ["a\n\n"]
    assert cutter.tail == "b"
