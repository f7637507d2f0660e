"""No Markdown of a model becomes a tag, loads anything or leads to a script, however it is cut and nested."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmstream.chats.safe_markdown import code_span, folded_line, plain_text, safe_markdown

PIECES = [
    *(
        "`",
        "``",
        "```",
        "~~~",
        "```py\n",
        "\n",
        "\n\n",
        "    ",
        "  ",
        "\t",
        "- ",
        "1. ",
        "> ",
        "|",
        "\\",
        "*",
        "$",
    ),
    *(
        "<img src=x onerror=alert(1)>",
        "<script>",
        "</code>",
        "</details>",
        "<!--",
        "<https://a.b>",
        "<",
        ">",
        "&lt;",
    ),
    *(
        "![a](https://a.b/c)",
        "![",
        "[a](javascript:b)",
        "[a](java&#115;cript:b)",
        "](javascript\\:b)",
        "[a]: vbscript:b",
    ),
    *("a | b\n--|--\n", "\n===\n", "# ", "text", "&#60;b&#62;", "\r\n", "\x00", "\ud800"),
]


def rendered(text: str) -> list[object]:
    """All tokens of a renderer that lets HTML through."""
    markdown_it = pytest.importorskip("markdown_it")
    parser = markdown_it.MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    parser.validateLink = lambda url: True
    return [token for block in parser.parse(text) for token in (block, *(block.children or ()))]


@given(st.lists(st.sampled_from(PIECES), max_size=14).map("".join))
@example("```\n<b>\n``` x\n<b>\n```")
@example("https://a.b`![a](https://a.b/c)`")
@example("a `|<b>` | c\n--|--\n`|<b>` | d")
def test_nothing_becomes_tag_or_image(text: str) -> None:
    for token in rendered(safe_markdown(text)):
        assert token.type != "image"
        if token.type.startswith("html"):
            assert set(re.findall(r"<[^>]*>", token.content)) <= {"<code>", "</code>"}
        scheme = str(token.attrs.get("href", "")).lower()
        assert not scheme.startswith(("javascript:", "vbscript:"))


def test_code_in_blocks_is_unchanged() -> None:
    code = "```python\nif a < b:\n    print('<b>', `x`)\n```"
    assert safe_markdown(f"See:\n\n{code}\n\nDone.") == f"See:\n\n\n{code}\n\n\nDone."


def test_fence_is_longer_than_its_content() -> None:
    assert safe_markdown("~~~\n````\n~~~") == "`````\n````\n`````"


def test_a_block_stays_in_its_list_item() -> None:
    shown = rendered(safe_markdown("1. Install:\n   ```sh\n   pip <x>\n   ```\n2. Run"))
    kinds = [token.type for token in shown]
    assert kinds.count("ordered_list_open") == 1
    (fence,) = [token for token in shown if token.type == "fence"]
    assert (fence.info, fence.content) == ("sh", "pip <x>\n")


def test_an_open_block_ends_with_text() -> None:
    assert safe_markdown("```py\na = 1\n") == "```py\na = 1\n```"


def test_formulas_and_tables_remain() -> None:
    text = "Let $a^2 + b_1$ be.\n\n| a | b |\n|---|---|\n| `x` | **2** |"
    assert safe_markdown(text) == text


def test_spans_with_a_bar_or_tag_are_html() -> None:
    assert safe_markdown("a `List<int>` b `x y`") == "a <code>List&#60;int&#62;</code> b `x y`"
    assert code_span("a\nb") == "`a b`"


def test_an_address_swallows_no_backtick() -> None:
    """As marked does, which renders Markdown in JupyterLab: its bare addresses reach up to the next blank."""
    shown = safe_markdown("https://a.b`![a](https://a.b/c)`")
    assert "![" not in shown
    assert "`" not in shown


def test_attributes_of_formulas_are_removed() -> None:
    assert safe_markdown(r"$\style{x:url(//a.b)}{y} \stylish$") == r"$style{x:url(//a.b)}{y} \stylish$"


def test_plain_text_means_nothing_else() -> None:
    assert plain_text("a*b\n[c]<d>") == "a&#42;b &#91;c&#93;&#60;d&#62;"
    assert folded_line("a\n  b" + "c" * 20, 8) == "a bcccc…"
