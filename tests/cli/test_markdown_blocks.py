"""Growing Markdown is cut where a block is over, however the text comes."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.cli.markdown_blocks import MarkdownBlocks


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
def test_a_block_ends_where_nothing_can_join_it(text, expected):
    assert blocks(text) == expected


@pytest.mark.parametrize(("text", "expected"), CASES.values(), ids=CASES)
def test_one_character_at_a_time_gives_the_same_blocks(text, expected):
    assert blocks(*text) == expected


@given(st.lists(st.sampled_from(["a", " ", "\n", "\n\n", "- ", "1. ", "12", "```\n", "~~~", "**", "    "])))
def test_no_cut_changes_the_blocks_and_nothing_is_lost(pieces):
    text = "".join(pieces)
    whole = blocks(text)
    assert blocks(*pieces) == blocks(*text) == whole
    assert "".join(whole).strip() == text.strip()


def test_a_block_is_given_as_soon_as_the_next_line_begins():
    cutter = MarkdownBlocks()
    assert cutter.feed("a\n\n") == []
    assert cutter.feed("b") == ["a\n\n"]
    assert cutter.tail == "b"
