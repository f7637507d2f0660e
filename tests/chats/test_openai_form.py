"""Messages of OpenAI's form, and what they are as ours."""

from __future__ import annotations

import base64

import pytest

import llmstream as ls
from llmstream.chats import (
    Audio,
    Document,
    Image,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    from_openai,
    to_openai,
)

CAT = {"url": "https://example.org/cat.png", "detail": "low"}
PNG = base64.b64encode(b"\x89PNG").decode()


def test_every_role_and_a_turn_of_tools() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
    other = {"id": "c2", "type": "function", "function": {"name": "hear", "arguments": ""}}
    found = from_openai(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": "Look!", "name": "ada"},
            {"role": "assistant", "content": None, "tool_calls": [call, other], "reasoning_content": "Hm."},
            {"role": "tool", "tool_call_id": "c1", "content": "seen"},
            {"role": "tool", "tool_call_id": "c2", "content": [{"type": "text", "text": "heard"}]},
            {"role": "assistant", "content": "", "refusal": "No."},
        ]
    )
    assert found == [
        ls.Message.system("Be brief."),
        ls.Message("ada", "user", (Text("Look!"),)),
        ls.Message.assistant(
            Reasoning("Hm."), ToolCall("c1", "look", '{"at":1}'), ToolCall("c2", "hear", "")
        ),
        ls.Message.tool([ToolResult("c1", "seen", name="look"), ToolResult("c2", "heard", name="hear")]),
        ls.Message.assistant("No."),
    ]


def test_parts_of_both_apis() -> None:
    (message,) = from_openai(
        [
            {
                "role": "user",
                "content": [
                    "And",
                    {"type": "input_text", "text": "this"},
                    {
                        "type": "image_url",
                        "image_url": CAT,
                    },
                    {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"},
                    {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
                    {
                        "type": "file",
                        "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"},
                    },
                    {"type": "input_file", "file_id": "file-1"},
                ],
            }
        ]
    )
    assert message.parts == (
        Text("And"),
        Text("this"),
        Image(url="https://example.org/cat.png", metadata={"openai": {"detail": "low"}}),
        Image(data=b"\x89PNG", media_type="image/png"),
        Audio(data=b"\x89PNG", media_type="audio/mpeg"),
        Document(data=b"\x89PNG", media_type="application/pdf", filename="a.pdf"),
        Document(metadata={"openai": {"file_id": "file-1"}}),
    )


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ({"content": "x"}, "message 0 has the role None"),
        ({"role": "human", "content": "x"}, "'human'"),
        ({"role": ["user"], "content": "x"}, "message 0"),
        ({"role": "user"}, 'has no "content"'),
        ({"role": "user", "content": 5}, "not int"),
        ({"role": "user", "content": [5]}, "part 0"),
        ({"role": "user", "content": [{"type": "image", "source": {}}]}, "of type 'image' cannot be read"),
        ({"role": "user", "content": [{"type": ["x"]}]}, "cannot be read"),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "data:image/png;base64,?"}]},
            "base64",
        ),
        ({"role": "tool", "content": "x"}, "tool_call_id"),
        ({"role": "assistant", "content": None, "function_call": {"name": "f"}}, "tool_calls"),
        ({"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}, "call 0"),
        ({"role": "assistant", "content": "", "tool_calls": 5}, "must be a list"),
        ("user: hi", "is not a dict"),
    ],
)
def test_what_cannot_be_read_is_named(message, said) -> None:
    with pytest.raises(ls.InvalidRequest) as refused:
        from_openai([message])
    assert said in str(refused.value)


def test_what_was_read_is_written_again() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at":1}'}}
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}}
    given = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Look!", "name": "ada"},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "At these:"},
                {"type": "image_url", "image_url": CAT},
                image,
                {"type": "input_audio", "input_audio": {"data": PNG, "format": "mp3"}},
                {
                    "type": "file",
                    "file": {"filename": "a.pdf", "file_data": f"data:application/pdf;base64,{PNG}"},
                },
                {"type": "file", "file": {"file_id": "file-1"}},
            ],
        },
        {"role": "assistant", "content": None, "tool_calls": [call], "reasoning_content": "Hm."},
        {"role": "tool", "tool_call_id": "c1", "content": "seen"},
        {"role": "assistant", "content": "A cat."},
    ]
    assert to_openai(from_openai(given), reasoning=True) == given
    assert "reasoning_content" not in to_openai(from_openai(given))[3]


def test_unknown_fields_of_form_are_refused() -> None:
    with pytest.raises(ls.InvalidRequest, match="no role 'robot'"):
        to_openai([ls.Message("", "robot", (Text("Hi"),))])
    with pytest.raises(ls.InvalidRequest, match="cannot express a part Reasoning"):
        to_openai([ls.Message.user(Text("Hi"), Reasoning("Hm."))])
