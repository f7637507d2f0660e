"""Transcripts in Markdown."""

from __future__ import annotations

import pytest

from llmstream.chats import Chat, Image, Message, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.transcript import ran_tool_line, transcript


def test_tool_line_between_the_two_sides() -> None:
    """It stands between assistant and user."""
    chat = Chat(
        Message.system("You are brief."),
        Message.user("What is the first song?\nAnd the second?"),
        Message.assistant(Reasoning("hm"), "Let me ", "look.", ToolCall("1", "songs", "{}")),
        Message.tool([ToolResult("1", '["One"]')]),
        Message.user("Go on."),
        Message.assistant("One."),
    )
    golden = """\
**System**: You are brief.

**User**: What is the first song?
And the second?

**Assistant**: Let me look.

> Ran tool: `songs`

**User**: Go on.

**Assistant**: One.
"""
    assert transcript(chat) == transcript(chat.messages()) == golden


def test_tool_lines_group_in_call_order() -> None:
    """The calls come from several messages."""
    assert (
        transcript(
            [
                Message.assistant(ToolCall("1", "a"), ToolCall("2", "b"), ToolCall("3", "c")),
                Message.tool([ToolResult("1", "x"), ToolResult("2", "no such file", is_error=True)]),
                Message.tool([ToolResult("3", name="c2")]),
            ]
        )
        == "> Ran tool: `a`\n> Ran tool: `b` - failed: `no such file`\n> Ran tool: `c2`\n"
    )


def test_vendor_tool_line_shows_where_it_ran() -> None:
    message = Message.assistant(
        "Looking.",
        ToolCall("1", "web", provider_executed=True),
        ToolResult("1", provider_executed=True),
        "Found.",
    )
    assert transcript([message]) == "**Assistant**: Looking.\n\n> Ran tool: `web`\n\n**Assistant**: Found.\n"


def test_sender_cannot_break_the_heading() -> None:
    assert transcript([Message.new_text("critic", "assistant", "No.")]) == "**critic**: No.\n"
    assert transcript([Message.new_text("a*b\n", "assistant", "No.")]) == "**a\\*b**: No.\n"
    assert transcript([Message.new_text("", "developer", "x")]) == "**Developer**: x\n"


def test_what_has_no_text_leaves_nothing() -> None:
    assert transcript([]) == transcript(Chat()) == ""
    assert transcript([Message.user(Image(url="u")), Message.assistant(), Message.user("", " \n")]) == ""


def test_texts_around_blanks_are_a_paragraph() -> None:
    assert transcript([Message.user("a", " ", "", "b\n\n")]) == "**User**: a b\n"


def test_a_result_nobody_called_shows_its_id() -> None:
    assert transcript([Message.tool([ToolResult("c9")])]) == "> Ran tool: `c9`\n"
    assert transcript([Message.tool([ToolResult("")])]) == "> Ran tool: `unknown`\n"


@pytest.mark.parametrize(
    ("name", "error", "line"),
    [
        ("date", None, "> Ran tool: `date`\n"),
        ("date", "no clock", "> Ran tool: `date` - failed: `no clock`\n"),
        ("date", "", "> Ran tool: `date` - failed\n"),
        ("date", " \n ", "> Ran tool: `date` - failed\n"),
        ("date", "line 1\r\n\n  line 2\u2028end\n", "> Ran tool: `date` - failed: `line 1 line 2 end`\n"),
        ("date", "no `x` here", "> Ran tool: `date` - failed: ``no `x` here``\n"),
        ("date", "`x`", "> Ran tool: `date` - failed: `` `x` ``\n"),
        ("date", "``` and `", "> Ran tool: `date` - failed: ```` ``` and ` ````\n"),
        ("a`b", None, "> Ran tool: ``a`b``\n"),
        ("a\nb", None, "> Ran tool: `a b`\n"),
    ],
)
def test_tool_line_is_always_one_line(name: str, error: str | None, line: str) -> None:
    """The name and the error may hold anything."""
    assert ran_tool_line(name, error) == line
    assert line.count("\n") == 1
    assert Text(line) == Text(ran_tool_line(name, error))
