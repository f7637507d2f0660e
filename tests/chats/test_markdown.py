"""Messages and chats as a notebook shows them."""

from __future__ import annotations

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
