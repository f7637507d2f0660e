"""Messages and chats as a notebook shows them, and what a model's Markdown may not do there.

Nothing in it becomes a tag, loads anything or leads to a script, however it is cut and nested.
"""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from llmstream.chats import (
    Audio,
    Chat,
    Custom,
    File,
    Image,
    Message,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.markdown import code_span, folded_line, plain_text, safe_markdown

PNG = b"\x89PNG"


def shown(*parts: object) -> str | None:
    return Message("", "assistant", parts)._repr_markdown_()  # type: ignore[arg-type]


def test_neighbouring_texts_are_one() -> None:
    assert shown(Text("It is **-2"), Text(" °C**.")) == "It is **-2 °C**."


def test_reasoning_is_folded_before_text() -> None:
    assert shown(Reasoning("Hm <b>."), Text("Yes.")) == (
        "<details><summary>Reasoning</summary>\n\nHm &lt;b>.\n\n</details>\n\nYes."
    )


def test_calls_and_results_are_short_code() -> None:
    call = ToolCall("1", "find", '{"q":"' + "x" * 300 + '"}')
    assert shown(Text("Look."), call) == 'Look.\n\n`find({"q":"' + "x" * 188 + "…`"
    assert shown(ToolResult("1", "-2 °C", name="find")) == "`find` → `-2 °C`"
    assert shown(ToolResult("1", "no such city", is_error=True)) == "`1` failed: `no such city`"


def test_small_images_are_inline() -> None:
    assert shown(File("image/png", data=PNG)) == "![image&#47;png](data:image/png;base64,iVBORw==)"
    assert shown(ToolResult("1", "", name="plot", parts=(Image(data=PNG, media_type="image/png"),))) == (
        "`plot` → nothing\n\n![image&#47;png](data:image/png;base64,iVBORw==)"
    )


def test_other_files_are_only_named() -> None:
    assert shown(Image(data=bytes(600_000), media_type="image/png")) == "*image&#47;png, 600,000 bytes*"
    assert shown(Image(data=b"<svg/>", media_type="image/svg+xml")) == "*image&#47;svg&#43;xml, 6 bytes*"
    assert shown(Audio(data=b"1", media_type="audio/wav")) == "*audio&#47;wav, 1 byte*"


def test_no_image_is_loaded_by_address() -> None:
    assert shown(Image(url="https://a.b/c.png")) == "[image](https://a.b/c.png)"
    signed = shown(Image(url="https://a.b/c.png?signature=secret"))
    assert signed is not None
    assert "secret" not in signed
    assert "a&#46;b" in signed


def test_sources_are_a_list_of_links() -> None:
    sources = (
        Source("url", url="https://a.b/(c)", title="[A]"),
        Source("url", url="javascript:x", title="B"),
    )
    assert shown(*sources) == "- [&#91;A&#93;](https://a.b/%28c%29)\n- B"
    assert shown(Source("url", url="https://a.b/\ud800", title="\ud800")) == "- [\ufffd](https://a.b/?)"


def test_parts_of_other_kinds_are_named() -> None:
    assert shown(Custom("openai.compaction")) == "*custom*"


def test_an_empty_message_shows_as_repr() -> None:
    assert shown() is None
    assert repr(Message.assistant()) == "Message(assistant)"
    assert Chat()._repr_markdown_() is None


def test_a_chat_names_its_speakers() -> None:
    chat = Chat(
        Message.user("Oslo?"),
        Message("the *bot*", "assistant", (ToolCall("1", "weather", "{}"),)),
        Message.tool([ToolResult("1", "-2 °C")]),
    )
    assert chat._repr_markdown_() == (
        "**User**\n\nOslo?\n\n**the \\*bot\\***\n\n`weather({})`\n\n**Tool**\n\n`weather` → `-2 °C`"
    )


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
