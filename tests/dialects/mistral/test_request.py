"""Requests as Mistral takes them."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.mistral import Mistral
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, UnsupportedTool
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)

HI = (Message.user("Hi"),)
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {"where": {"type": "string"}}})
WIRE_TOOL = {
    "type": "function",
    "function": {"name": "look", "description": "Looks.", "parameters": TOOL.input_schema},
}
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def encoded(*messages, model="mistral-small-latest", **fields):
    return Mistral().encode(Request(model=model, messages=messages or HI, **fields), provider="mistral")


def body(*messages, **fields):
    return encoded(*messages, **fields).http.json()


def sent(*messages, **fields):
    return body(*messages, **fields)["messages"]


def warned(*messages, **fields):
    return encoded(*messages, **fields).warnings


def test_the_whole_of_a_small_request():
    http = encoded().http
    assert (http.method, http.url) == ("POST", "/v1/chat/completions")
    assert http.json() == {
        "model": "mistral-small-latest",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }
    assert http.headers == {"content-type": "application/json", "accept": "text/event-stream"}


def test_a_conversation_with_everything():
    conversation = (
        Message.system("Be brief."),
        Message.user("Look ", c.Image(data=b"\x01", media_type="image/webp")),
        Message.assistant(
            c.Reasoning("Hm.", {"mistral": {"signature": "sig"}}),
            "Looking.",
            c.ToolCall("D681PevKs", "look", '{"where":"up"}'),
            c.ToolCall("toolu_01", "now"),
        ),
        Message.tool([c.ToolResult("D681PevKs", "a bird"), c.ToolResult("toolu_01", "noon", name="now")]),
        Message.assistant("A bird, at noon."),
        Message.user("Thanks"),
    )
    messages = sent(*conversation)
    mapped = messages[2]["tool_calls"][1]["id"]
    assert len(mapped) == 9
    assert messages == [
        {"role": "system", "content": "Be brief."},
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "Look "},
                {"type": "image_url", "image_url": {"url": "data:image/webp;base64,AQ=="}},
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}], "signature": "sig"},
                {"type": "text", "text": "Looking."},
            ],
            "tool_calls": [
                {
                    "id": "D681PevKs",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"where":"up"}'},
                },
                {"id": mapped, "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "name": "look", "tool_call_id": "D681PevKs", "content": "a bird"},
        {"role": "tool", "name": "now", "tool_call_id": mapped, "content": "noon"},
        {"role": "assistant", "content": "A bird, at noon."},
        {"role": "user", "content": "Thanks"},
    ]
    assert warned(*conversation) == []


# the order of roles

CALL = Message.assistant(c.ToolCall("abcdefghi", "look", "{}"))
RESULT = Message.tool([c.ToolResult("abcdefghi", "a bird")])


def roles(*messages):
    return [message["role"] for message in sent(*messages)]


def test_assistant_turn_joins_tool_and_user():
    messages = sent(*HI, CALL, RESULT, Message.user("And?"))
    assert messages[-2:] == [{"role": "assistant", "content": "OK"}, {"role": "user", "content": "And?"}]


def test_user_message_results_come_first():
    both = Message.user(c.ToolResult("abcdefghi", "a bird"), "And?")
    assert roles(*HI, CALL, both) == ["user", "assistant", "tool", "assistant", "user"]


def test_last_assistant_message_is_a_prefix():
    assert sent(*HI, Message.assistant("The answer"))[-1] == {
        "role": "assistant",
        "content": "The answer",
        "prefix": True,
    }


def test_a_call_without_a_result_gets_one():
    missing = {
        "role": "tool",
        "name": "look",
        "tool_call_id": "abcdefghi",
        "content": "There is no result: the call was not run.",
    }
    assert sent(*HI, CALL)[-1] == missing
    assert sent(*HI, CALL, Message.user("Stop"))[2] == missing
    assert roles(*HI, CALL, Message.user("Stop")) == ["user", "assistant", "tool", "assistant", "user"]
    assert warned(*HI, CALL)


def test_result_without_a_call_is_left_out():
    assert roles(*HI, RESULT) == ["user"]
    assert len(warned(*HI, RESULT)) == 1
    assert roles(*HI, CALL, RESULT, RESULT) == ["user", "assistant", "tool"]


def test_system_after_response_moves_to_top():
    conversation = (Message.system("a"), *HI, Message.assistant("b"), Message.system("c"), Message.user("d"))
    assert [m["content"] for m in sent(*conversation)] == ["a", "c", "Hi", "b", "d"]
    assert len(warned(*conversation)) == 1


def test_system_message_after_the_user_stays():
    assert roles(*HI, Message.system("c")) == ["user", "system"]


def test_empty_assistant_message_is_left_out():
    assert roles(*HI, Message.assistant(), Message.user("x")) == ["user", "user"]
    assert len(warned(*HI, Message.assistant(c.Source("url", url="https://x.example")), *HI)) == 1


def test_an_unknown_role_is_refused():
    with pytest.raises(InvalidRequest, match="'critic'"):
        encoded(Message("", "critic"))


# content


def test_texts_of_an_answer_are_one_string():
    assert sent(Message.assistant("a", "b"), *HI)[0]["content"] == "ab"


def test_foreign_reasoning_is_not_the_models():
    messages = sent(*HI, Message.assistant(c.Reasoning("Hm", {"anthropic": {"signature": "s"}}), "x"), *HI)
    assert messages[1]["content"] == "x"


def test_unsigned_reasoning_goes_back():
    messages = sent(*HI, Message.assistant(c.Reasoning("Hm"), "x"), *HI)
    assert messages[1]["content"][0] == {"type": "thinking", "thinking": [{"type": "text", "text": "Hm"}]}


@pytest.mark.parametrize(
    ("part", "wire"),
    [
        (
            c.Image(url="https://i.example/a.png", metadata={"mistral": {"detail": "low"}}),
            {"type": "image_url", "image_url": {"url": "https://i.example/a.png", "detail": "low"}},
        ),
        (
            c.Document(data=b"%PDF", media_type="application/pdf", filename="a.pdf"),
            {
                "type": "document_url",
                "document_url": "data:application/pdf;base64,JVBERg==",
                "document_name": "a.pdf",
            },
        ),
        (
            c.Document(url="https://d.example/a.pdf"),
            {"type": "document_url", "document_url": "https://d.example/a.pdf"},
        ),
        (c.Document(data=b"hello", media_type="text/plain"), {"type": "text", "text": "hello"}),
        (c.Document(metadata={"mistral": {"file_id": "f-1"}}), {"type": "file", "file_id": "f-1"}),
        (c.Audio(data=b"RIFF", media_type="audio/wav"), {"type": "input_audio", "input_audio": "UklGRg=="}),
        (
            c.Audio(url="https://a.example/a.mp3"),
            {"type": "input_audio", "input_audio": "https://a.example/a.mp3"},
        ),
        (
            c.File("image/png", data=b"\x01"),
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,AQ=="}},
        ),
    ],
)
def test_files_of_a_user(part, wire):
    assert sent(Message.user("x", part))[0]["content"][1] == wire


def test_result_files_stand_in_the_result():
    image = c.Image(url="https://i.example/a.png")
    messages = sent(*HI, CALL, Message.tool([c.ToolResult("abcdefghi", "this", parts=(image,))]))
    assert messages[-1]["content"] == [
        {"type": "text", "text": "this"},
        {"type": "image_url", "image_url": {"url": "https://i.example/a.png"}},
    ]


def test_a_structured_result_is_json_text():
    assert sent(*HI, CALL, Message.tool([c.ToolResult("abcdefghi", result=[1])]))[-1]["content"] == "[1]"


@pytest.mark.parametrize(
    "part",
    [
        c.Image(url="https://x.example"),
        c.Custom("openai.thing"),
        c.ToolCall("x", "search", provider_executed=True),
    ],
)
def test_unsendable_assistant_parts_left_out(part):
    conversation = (*HI, Message.assistant("x", part), *HI)
    assert sent(*conversation)[1] == {"role": "assistant", "content": "x"}
    assert len(warned(*conversation)) == 1


def test_vendor_tool_results_are_left_out():
    ran = c.ToolResult("x", name="search", provider_executed=True)
    assert roles(*HI, Message.tool([ran])) == ["user"]


def test_what_has_no_place_is_refused():
    with pytest.raises(Unsupported, match="system message"):
        encoded(Message("", "system", (c.Image(url="https://x.example"),)))
    with pytest.raises(Unsupported, match="user message"):
        encoded(Message.user(c.Reasoning("x")))


# everything else


def test_settings_by_the_vendors_names():
    settings = Settings(
        temperature=0.5,
        top_p=0.9,
        max_output_tokens=9,
        stop=("a",),
        seed=7,
        presence_penalty=1.0,
        frequency_penalty=-1.0,
    )
    wanted = {"temperature": 0.5, "top_p": 0.9, "max_tokens": 9, "stop": ["a"], "random_seed": 7}
    wanted |= {"presence_penalty": 1.0, "frequency_penalty": -1.0}
    assert body(settings=settings).items() >= wanted.items()
    assert warned(settings=settings) == []


def test_refused_value_is_moved_into_range():
    settings = Settings(top_k=5, temperature=2.0)
    assert body(settings=settings)["temperature"] == 1.5
    assert body(settings=settings)["top_k"] == 5
    assert warned(settings=settings) == [OtherWarning("temperature 2 became 1.5: the API takes 0 to 1.5")]


def test_tools_and_their_choice():
    assert body(tools=(TOOL,))["tools"] == [WIRE_TOOL]
    assert "tool_choice" not in body(tools=(TOOL,))
    assert body(tools=(TOOL,), tool_choice="required")["tool_choice"] == "any"
    assert body(tools=(TOOL,), tool_choice="auto")["tool_choice"] == "auto"
    named = body(tools=(TOOL,), tool_choice=NamedTool("look"))["tool_choice"]
    assert named == {"type": "function", "function": {"name": "look"}}
    parallel = Settings(parallel_tool_calls=False)
    assert body(tools=(TOOL,), settings=parallel)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in body(settings=parallel)


def test_no_tools_where_none_may_be_called():
    assert body(tools=(TOOL,), tool_choice="none").keys() == {"model", "messages", "stream"}


def test_no_empty_list_of_tools_is_sent():
    assert "tools" not in body()
    assert "tools" not in body(tools=(ProviderTool("web_search"),))
    assert warned(tools=(ProviderTool("web_search"),)) == [
        UnsupportedTool("web_search", "the chat API has no tools of its own")
    ]


def test_bare_tool_and_a_strict_tool():
    assert body(tools=(ToolSpec("now", strict=True),))["tools"][0]["function"] == {
        "name": "now",
        "parameters": {"type": "object", "properties": {}},
        "strict": True,
    }


@pytest.mark.parametrize(
    ("model", "reasoning", "wanted", "warnings"),
    [
        ("mistral-small-latest", ReasoningOptions(effort="none"), {"reasoning_effort": "none"}, 0),
        ("mistral-small-latest", ReasoningOptions(effort="high"), {"reasoning_effort": "high"}, 0),
        ("mistral-small-latest", ReasoningOptions(effort="low"), {"reasoning_effort": "high"}, 1),
        ("mistral-small-latest", ReasoningOptions(budget_tokens=99), {"reasoning_effort": "high"}, 1),
        ("magistral-medium-latest", ReasoningOptions(effort="high"), {"prompt_mode": "reasoning"}, 0),
        ("magistral-medium-latest", ReasoningOptions(effort="low"), {"prompt_mode": "reasoning"}, 1),
        ("magistral-medium-latest", ReasoningOptions(effort="none"), {}, 1),
        ("mistral-large-4-0", ReasoningOptions(effort="none"), {"reasoning_effort": "low"}, 1),
        ("mistral-large-4", ReasoningOptions(effort="medium"), {"reasoning_effort": "medium"}, 0),
        ("zai-glm-5-3-flash", ReasoningOptions(effort="none"), {"reasoning_effort": "low"}, 1),
        ("zai-glm-latest", ReasoningOptions(effort="xhigh"), {"reasoning_effort": "max"}, 1),
        ("zai-glm-5-2", ReasoningOptions(effort="none"), {"reasoning_effort": "none"}, 0),
        ("codestral-latest", ReasoningOptions(effort="high"), {}, 1),
    ],
)
def test_reasoning(model, reasoning, wanted, warnings):
    made = body(model=model, reasoning=reasoning)
    assert {k: v for k, v in made.items() if k in ("reasoning_effort", "prompt_mode")} == wanted
    assert len(warned(model=model, reasoning=reasoning)) == warnings


def test_structured_output():
    assert body(response_format=ResponseFormat())["response_format"] == {"type": "json_object"}
    wanted = ResponseFormat(SCHEMA, "count", "How many.", strict=True)
    assert body(response_format=wanted)["response_format"] == {
        "type": "json_schema",
        "json_schema": {"name": "count", "description": "How many.", "schema": SCHEMA, "strict": True},
    }


def test_the_callers_own_fields_win():
    own = {"mistral": {"safe_prompt": True, "stream": False}}
    assert body(provider_options=own).items() >= {"safe_prompt": True, "stream": False}.items()
    hosted = Request(model="m", messages=HI, provider_options={"acme": {"n": 2}}, headers={"x-a": "b"})
    http = Mistral().encode(hosted, provider="acme").http
    assert (http.json()["n"], http.headers["x-a"]) == (2, "b")


def test_what_is_no_json_is_refused():
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encoded(provider_options={"mistral": {"x": object()}})


@pytest.mark.parametrize(
    ("part", "may"),
    [
        (c.Image(url="https://x.example/a.png"), True),
        (c.Document(url="https://x.example/a.txt?v=1"), False),
        (c.Document(url="https://x.example/a.pdf"), True),
        (c.Audio(url="https://x.example/a.mp3"), True),
    ],
)
def test_which_parts_may_stay_a_url(part, may):
    assert Mistral().accepts_url(part) is may


def test_glm_gets_schemas_without_references():
    nested = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"type": "object"}},
    }
    tool = ToolSpec("t", "T.", nested)
    sent = body(model="zai-glm-5-3", tools=(tool,))["tools"][0]["function"]["parameters"]
    assert sent == {"type": "object", "properties": {"a": {"type": "object"}}}
    assert body(model="mistral-large-4", tools=(tool,))["tools"][0]["function"]["parameters"] == nested
