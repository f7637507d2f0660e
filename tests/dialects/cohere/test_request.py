"""Requests as Cohere takes them."""

from __future__ import annotations

import pytest

from llmstream.chats import content as c
from llmstream.chats.message import Message
from llmstream.dialects.cohere import Cohere
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool
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
OTHER = ToolSpec("now")
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}}


def encoded(*messages, **fields):
    return Cohere().encode(Request(model="command-a", messages=messages or HI, **fields), provider="cohere")


def body(*messages, **fields):
    return encoded(*messages, **fields).http.json()


def sent(*messages, **fields):
    return body(*messages, **fields)["messages"]


def warned(*messages, **fields):
    return encoded(*messages, **fields).warnings


def test_the_whole_of_a_small_request():
    http = encoded().http
    assert (http.method, http.url) == ("POST", "/v2/chat")
    assert http.json() == {
        "model": "command-a",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }
    assert http.headers == {"content-type": "application/json", "accept": "text/event-stream"}


def test_a_conversation_with_everything():
    citation = {"start": 0, "end": 1, "text": "A", "sources": [{"id": "d"}, {"id": "e"}]}
    cited = [
        c.Source("document", f"source-{n}", metadata={"cohere": {"citation": citation, "source": n}})
        for n in (0, 1)
    ]
    conversation = (
        Message.system("Be brief."),
        Message.user("Look ", c.Image(data=b"\x01", media_type="image/webp")),
        Message.assistant(
            c.Reasoning("I will look.", {"cohere": {"tool_plan": True}}),
            c.ToolCall("look_1", "look", '{"where":"up"}'),
            c.ToolCall("now_2", "now"),
        ),
        Message.tool([c.ToolResult("look_1", "a bird"), c.ToolResult("now_2", result={"h": 12})]),
        Message.assistant(c.Reasoning("Hm."), "A bird", *cited, ", at noon."),
        Message.user("Thanks"),
    )
    assert sent(*conversation) == [
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
            "tool_plan": "I will look.",
            "tool_calls": [
                {
                    "id": "look_1",
                    "type": "function",
                    "function": {"name": "look", "arguments": '{"where":"up"}'},
                },
                {"id": "now_2", "type": "function", "function": {"name": "now", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "look_1", "content": "a bird"},
        {"role": "tool", "tool_call_id": "now_2", "content": '{"h":12}'},
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm."},
                {"type": "text", "text": "A bird"},
                {"type": "text", "text": ", at noon."},
            ],
            "citations": [citation],
        },
        {"role": "user", "content": "Thanks"},
    ]
    assert warned(*conversation) == []


def test_empty_assistant_message_is_left_out():
    assert sent(*HI, Message.assistant(""), *HI) == [{"role": "user", "content": "Hi"}] * 2
    assert warned(*HI, Message.assistant(), *HI) == [OtherWarning("an empty assistant message was left out")]


def test_empty_text_beside_calls_is_left_out():
    message = sent(*HI, Message.assistant("", c.ToolCall("a", "look")))[1]
    assert set(message) == {"role", "tool_calls"}


def test_several_system_texts_are_a_list():
    assert sent(Message("", "system", (c.Text("a"), c.Text("b"))), *HI)[0]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b"},
    ]


def test_text_documents_join_the_request():
    note = c.Document(data=b"The moon.", media_type="text/plain", filename="moon.txt")
    made = body(Message.user("Read", note))
    assert made["documents"] == [{"data": {"text": "The moon.", "title": "moon.txt"}}]
    assert made["messages"] == [{"role": "user", "content": "Read"}]
    own = {"cohere": {"documents": [{"id": "d", "data": {"text": "x"}}]}}
    assert len(body(Message.user("Read", note), provider_options=own)["documents"]) == 2
    assert sent(Message.user(note)) == [{"role": "user", "content": "See the documents."}]


def test_images_by_url():
    image = c.Image(url="https://i.example/a.png", metadata={"cohere": {"detail": "low"}})
    assert sent(Message.user("x", image))[0]["content"][1] == {
        "type": "image_url",
        "image_url": {"url": "https://i.example/a.png", "detail": "low"},
    }


def test_files_of_a_result():
    note = c.Document(data=b"more", media_type="text/plain")
    image = c.Image(url="https://i.example/a.png")
    call = Message.assistant(c.ToolCall("a", "look"))
    messages = sent(*HI, call, Message.tool([c.ToolResult("a", "this", parts=(note, image))]), *HI)
    assert messages[2]["content"] == [
        {"type": "document", "document": {"data": {"text": "this"}}},
        {"type": "document", "document": {"data": {"text": "more"}}},
    ]
    assert messages[3] == {
        "role": "user",
        "content": [
            {"type": "text", "text": "This belongs to the result of tool call a:"},
            {"type": "image_url", "image_url": {"url": "https://i.example/a.png"}},
        ],
    }
    assert messages[4] == {"role": "user", "content": "Hi"}


def test_result_blocks_go_back_verbatim():
    blocks = [{"type": "document", "document": {"id": "d", "data": {"x": 1}}}]
    result = c.ToolResult("a", "x", metadata={"cohere": {"content": blocks}})
    call = Message.assistant(c.ToolCall("a", "look"))
    assert sent(*HI, call, Message.tool([result]))[2]["content"] == blocks


def test_user_message_results_come_first():
    call = Message.assistant(c.ToolCall("a", "look"))
    messages = sent(*HI, call, Message.user(c.ToolResult("a", "x"), "And?"))
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "user"]


@pytest.mark.parametrize(
    "part",
    [
        c.Audio(data=b"x", media_type="audio/wav"),
        c.Document(data=b"%PDF", media_type="application/pdf"),
        c.Document(url="https://d.example/a.txt", media_type="text/plain"),
        c.Reasoning("x"),
    ],
)
def test_what_would_be_lost_is_refused(part):
    with pytest.raises(Unsupported):
        encoded(Message.user("x", part))


def test_what_has_no_place_is_refused():
    with pytest.raises(Unsupported, match="system message"):
        encoded(Message("", "system", (c.Image(url="https://x.example"),)))
    with pytest.raises(Unsupported, match="tool result"):
        encoded(*HI, Message.tool([c.ToolResult("a", parts=(c.Audio(url="https://x.example"),))]))
    with pytest.raises(InvalidRequest, match="'critic'"):
        encoded(Message("", "critic"))


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
    assert len(sent(*HI, Message.tool([ran]))) == 1


def test_settings_by_the_vendors_names():
    settings = Settings(
        temperature=0.5,
        top_p=0.9,
        top_k=40,
        max_output_tokens=9,
        stop=("a",),
        seed=7,
        presence_penalty=0.5,
        frequency_penalty=0.1,
    )
    wanted = {"temperature": 0.5, "p": 0.9, "k": 40, "max_tokens": 9, "stop_sequences": ["a"], "seed": 7}
    wanted |= {"presence_penalty": 0.5, "frequency_penalty": 0.1}
    assert body(settings=settings).items() >= wanted.items()
    assert warned(settings=settings) == []


def test_refused_values_are_moved_into_range():
    settings = Settings(top_p=1.0, top_k=900, presence_penalty=-1.0, stop=tuple("abcdefg"))
    made = body(settings=settings)
    assert (made["p"], made["k"], made["presence_penalty"]) == (0.99, 500, 0.0)
    assert made["stop_sequences"] == list("abcde")
    assert len(warned(settings=settings)) == 4
    assert warned(settings=Settings(parallel_tool_calls=True)) == [
        UnsupportedSetting("parallel_tool_calls", "the API does not support limiting parallel calls")
    ]


def test_tools_and_their_choice():
    made = body(tools=(TOOL, OTHER))
    assert made["tools"] == [
        {
            "type": "function",
            "function": {"name": "look", "description": "Looks.", "parameters": TOOL.input_schema},
        },
        {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
    ]
    assert "tool_choice" not in made
    assert "tool_choice" not in body(tools=(TOOL,), tool_choice="auto")
    assert body(tools=(TOOL,), tool_choice="required")["tool_choice"] == "REQUIRED"
    assert body(tools=(TOOL,), tool_choice="none")["tool_choice"] == "NONE"
    assert "tool_choice" not in body(tool_choice="required")


def test_forced_tool_is_the_only_tool_sent():
    made = body(tools=(TOOL, OTHER), tool_choice=NamedTool("now"))
    assert [tool["function"]["name"] for tool in made["tools"]] == ["now"]
    assert made["tool_choice"] == "REQUIRED"


def test_strict_is_for_all_tools():
    assert body(tools=(ToolSpec("a", strict=True), OTHER))["strict_tools"] is True
    assert "strict_tools" not in body(tools=(ToolSpec("a", strict=False),))
    assert len(warned(tools=(ToolSpec("a", strict=True), ToolSpec("b", strict=False)))) == 1


def test_tools_of_a_vendor_are_left_out():
    assert "tools" not in body(tools=(ProviderTool("web_search"),))
    assert warned(tools=(ProviderTool("web_search"),)) == [
        UnsupportedTool("web_search", "cohere has no tools of its own")
    ]


@pytest.mark.parametrize(
    ("reasoning", "wanted", "warnings"),
    [
        (ReasoningOptions(effort="none"), {"type": "disabled"}, 0),
        (ReasoningOptions(budget_tokens=500), {"type": "enabled", "token_budget": 500}, 0),
        (ReasoningOptions(effort="low", budget_tokens=500), {"type": "enabled", "token_budget": 500}, 1),
        (ReasoningOptions(effort="high"), {"type": "enabled"}, 1),
        (ReasoningOptions(), {"type": "enabled"}, 0),
    ],
)
def test_thinking(reasoning, wanted, warnings):
    assert body(reasoning=reasoning)["thinking"] == wanted
    assert len(warned(reasoning=reasoning)) == warnings


def test_structured_output():
    assert body(response_format=ResponseFormat())["response_format"] == {"type": "json_object"}
    assert body(response_format=ResponseFormat(SCHEMA))["response_format"] == {
        "type": "json_object",
        "json_schema": {**SCHEMA, "required": ["n"]},
    }


@pytest.mark.parametrize(
    "beside", [{"tools": (TOOL,)}, {"provider_options": {"cohere": {"documents": ["The moon."]}}}]
)
def test_schema_beside_tools_is_in_prompt(beside):
    """The same beside documents."""
    made = body(response_format=ResponseFormat(SCHEMA), **beside)
    assert "response_format" not in made
    assert made["messages"][0]["role"] == "system"
    assert '"integer"' in made["messages"][0]["content"]
    assert len(warned(response_format=ResponseFormat(SCHEMA), **beside)) == 1


def test_the_callers_own_fields_win():
    own = {"cohere": {"safety_mode": "OFF", "stream": False}}
    assert body(provider_options=own).items() >= {"safety_mode": "OFF", "stream": False}.items()
    hosted = Request(model="m", messages=HI, provider_options={"acme": {"seed": 2}}, headers={"x-a": "b"})
    http = Cohere().encode(hosted, provider="acme").http
    assert (http.json()["seed"], http.headers["x-a"]) == (2, "b")


def test_what_is_no_json_is_refused():
    with pytest.raises(InvalidRequest, match="cannot be written"):
        encoded(provider_options={"cohere": {"x": object()}})


@pytest.mark.parametrize(
    ("part", "may"),
    [
        (c.Image(url="https://x.example/a.png"), True),
        (c.Document(url="https://x.example/a.txt?v=1"), False),
        (c.Document(url="https://x.example/a", media_type="application/json"), False),
        (c.Document(url="https://x.example/a"), False),
        (c.Document(url="https://x.example/a.pdf"), True),
        (c.Audio(url="https://x.example/a.mp3"), True),
    ],
)
def test_which_parts_may_stay_a_url(part, may):
    assert Cohere().accepts_url(part) is may


def test_how_the_model_can_be_held_to_json():
    def ways(**fields):
        return Cohere().output_abilities(Request(model="m", messages=HI, **fields))

    assert ways() == ("json_schema", "tool", "json_object")
    assert ways(tools=(TOOL,)) == ("tool",)
    assert ways(provider_options={"cohere": {"documents": ["The moon."]}}) == ("tool",)
