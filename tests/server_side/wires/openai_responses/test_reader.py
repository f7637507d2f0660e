"""Requests of clients: read as the vendor reads them, refused in its words, written again the same."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmstream.chats.content import Custom, Document, Image, Reasoning, Text, ToolCall, ToolResult
from llmstream.chats.message import Message
from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest
from llmstream.request import (
    NamedTool,
    ProviderTool,
    Request,
    ResponseFormat,
    Settings,
    ToolSpec,
)
from llmstream.request import ReasoningOptions as Effort
from llmstream.server_side.wires import server_side
from tests.examples import examples

DIALECT = OpenAIResponses()
CALL = {"type": "function_call", "call_id": "c1", "name": "look", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "sun"}
EMPTY = {"type": "object", "properties": {}}
LOOK = {"type": "function", "name": "look", "parameters": EMPTY}


def http(**body):
    body = {"model": "gpt-4.1", "input": "Hi", "stream": True, **body}
    sent = {name: value for name, value in body.items() if value is not ...}
    return HttpRequest("/v1/responses", json.dumps(sent).encode(), {"content-type": "application/json"})


def read(**body):
    return server_side(DIALECT).decode_request(http(**body))


def again(**body):
    """The body once read and written."""
    return DIALECT.encode(read(**body), provider="openai").http.json()


def test_the_smallest_request():
    request = read(store=False)
    assert request == Request(model="gpt-4.1", messages=(Message.user("Hi"),))


def test_non_default_fields_become_options():
    assert read().provider_options == {"openai": {"store": None}}
    assert read(store=True, user="u", stream=False).provider_options == {
        "openai": {"store": True, "user": "u", "stream": False}
    }
    assert read(stream=...).provider_options["openai"]["stream"] is None


@pytest.mark.parametrize(
    "body",
    [
        {"store": True, "metadata": {"a": "b"}, "truncation": "auto", "service_tier": "flex"},
        {"model": "gpt-5", "store": False, "include": ["reasoning.encrypted_content"]},
        {"model": "gpt-5", "store": False},
        {"model": "gpt-5", "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"}},
        {"model": "gpt-5", "reasoning": {"summary": "auto"}},
        {"previous_response_id": "resp_1", "input": [OUTPUT]},
        {"conversation": "conv_1", "background": True},
        {"tools": [LOOK], "tool_choice": "required", "parallel_tool_calls": False},
        {"tools": [LOOK], "tool_choice": {"type": "function", "name": "look"}},
        {
            "tools": [LOOK],
            "tool_choice": {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function"}]},
        },
        {"tools": [{"type": "web_search"}], "tool_choice": {"type": "web_search"}},
        {"tools": [{"type": "custom", "name": "sql", "format": {"type": "text"}}]},
        {"tools": [{**LOOK, "defer_loading": True, "strict": False, "description": "d"}]},
        {"tools": [{"type": "mcp", "server_label": "s", "server_url": "https://s.example"}]},
        {"temperature": 0.5, "top_p": 0.9, "max_output_tokens": 100, "top_logprobs": 2},
        {"text": {"format": {"type": "json_object"}}, "input": "As JSON."},
        {"text": {"format": {"type": "text"}}},
        {
            "text": {
                "format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": False},
                "verbosity": "high",
            }
        },
    ],
)
def test_rewritten_body_is_the_same(body):
    body = {"model": "gpt-4.1", "stream": True, "input": [{"role": "user", "content": "Hi"}], **body}
    sent = again(**body)
    for side in (body, sent):
        side["input"] = [
            {**item, "content": "Hi"} if item.get("role") == "user" else item
            for item in (side["input"] if isinstance(side["input"], list) else [{"role": "user"}])
        ]
    assert sent == body


def test_a_conversation_is_read():
    note = {"type": "url_citation", "url": "https://a.example"}
    request = read(
        instructions="Be brief.",
        input=[
            {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "e"},
            {**CALL, "id": "fc", "status": "completed"},
            OUTPUT,
            {
                "type": "message",
                "role": "assistant",
                "id": "m",
                "phase": "final_answer",
                "content": [{"type": "output_text", "text": "a", "annotations": [note]}],
            },
        ],
    )
    assert request.messages == (
        Message.system("Be brief."),
        Message.user("Hi"),
        Message.assistant(
            Reasoning("", {"openai": {"item_id": "rs", "encrypted_content": "e"}}),
            ToolCall("c1", "look", "{}", metadata={"openai": {"item_id": "fc", "status": "completed"}}),
        ),
        Message.tool([ToolResult("c1", "sun", name="look")]),
        Message.assistant(
            Text("a", {"openai": {"item_id": "m", "phase": "final_answer", "annotations": [note]}})
        ),
    )


ITEMS = [
    [{"role": "developer", "content": [{"type": "input_text", "text": "Be brief."}]}],
    [{"role": "system", "content": [{"type": "input_text", "text": "Be brief."}]}],
    [
        {
            "role": "user",
            "content": [
                {"type": "input_image", "image_url": "https://a.example/a.png", "detail": "high"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk="},
                {"type": "input_image", "file_id": "file-1"},
                {"type": "input_file", "file_url": "https://a.example/a.pdf"},
                {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,aGk="},
                {"type": "input_file", "file_id": "file-2"},
            ],
        }
    ],
    [
        {
            "type": "reasoning",
            "id": "rs",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "e",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]},
    ],
    [
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "a"}, {"type": "summary_text", "text": "b"}],
            "encrypted_content": "e",
        },
        {"type": "message", "role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
    ],
    [
        {
            "type": "message",
            "role": "assistant",
            "id": "m",
            "status": "completed",
            "content": [{"type": "output_text", "text": "a"}, {"type": "refusal", "refusal": "b"}],
        }
    ],
    [{**CALL, "id": "fc", "namespace": "crm"}, {**OUTPUT, "status": "completed"}],
    [CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}]}],
    [
        CALL,
        {
            **OUTPUT,
            "output": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "https://a.example/a.png"},
            ],
        },
    ],
    [
        {"type": "custom_tool_call", "call_id": "c", "name": "sql", "input": "SELECT 1"},
        {"type": "custom_tool_call_output", "call_id": "c", "output": "1"},
    ],
    [
        {"type": "shell_call", "id": "s", "call_id": "c", "action": {"commands": ["ls"]}},
        {"type": "shell_call_output", "call_id": "c", "output": [{"stdout": "a"}], "max_output_length": 3},
    ],
    [
        {
            "type": "shell_call",
            "id": "s",
            "call_id": "c",
            "action": {"commands": ["ls"]},
            "environment": {"type": "container_reference"},
        },
        {"type": "shell_call_output", "id": "so", "call_id": "c", "output": [{"stdout": "a"}]},
    ],
    [
        {"type": "apply_patch_call", "id": "a", "call_id": "c", "operation": {"type": "delete_file"}},
        {"type": "apply_patch_call_output", "call_id": "c", "status": "completed"},
    ],
    [
        {"type": "tool_search_call", "id": "t", "call_id": None, "execution": "server", "arguments": {}},
        {"type": "tool_search_output", "id": "to", "call_id": None, "tools": []},
    ],
    [
        {"type": "program", "id": "p", "call_id": "cp", "code": "f()", "fingerprint": "x"},
        CALL,
        OUTPUT,
        {"type": "program_output", "id": "po", "call_id": "cp", "result": "1"},
    ],
    [
        {"type": "web_search_call", "id": "ws", "status": "completed", "action": {"query": "q"}},
        {"type": "mcp_list_tools", "id": "ml", "server_label": "s", "tools": []},
        {"type": "compaction", "id": "cmp", "encrypted_content": "e"},
        {"type": "item_reference", "id": "msg_1"},
    ],
    [
        {"type": "mcp_approval_request", "id": "mr", "name": "pay", "arguments": "{}", "server_label": "s"},
        {"type": "mcp_approval_response", "approval_request_id": "mr", "approve": False, "reason": "no"},
    ],
]


@pytest.mark.parametrize("items", ITEMS, ids=lambda items: items[0].get("type", items[0].get("role")))
def test_rewritten_items_are_the_same(items):
    user = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
    assert again(input=[*items, user])["input"] == [*items, user]


def test_a_caller_reads_what_others_wrote():
    (message,) = read(input=ITEMS[2]).messages
    assert [type(part) for part in message.parts] == [Image] * 3 + [Document] * 3
    assert message.parts[1].data == b"hi"
    (answer,) = read(input=ITEMS[-2]).messages
    assert [type(part) for part in answer.parts] == [ToolCall, ToolResult, Custom, Custom, Custom]


def test_tools_and_formats_are_read():
    schema = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
    request = read(
        tools=[{**LOOK, "description": "d", "parameters": schema, "strict": True}, {"type": "web_search"}],
        tool_choice={"type": "function", "name": "look"},
        text={"format": {"type": "json_schema", "name": "n", "schema": schema, "strict": True}},
        max_output_tokens=20,
        store=False,
    )
    assert request.tools == (ToolSpec("look", "d", schema, True), ProviderTool("web_search"))
    assert request.tool_choice == NamedTool("look")
    assert request.response_format == ResponseFormat(schema, "n")
    assert request.settings == Settings(max_output_tokens=20)
    assert request.provider_options == {}


# Refusals.


def refusal(dialect=DIALECT, **body):
    with pytest.raises(BadRequest) as caught:
        server_side(dialect).decode_request(http(**body))
    assert caught.value.status == 400
    return caught.value.message


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"model": ...}, "Missing required parameter: 'model'"),
        ({"input": ...}, "Missing required parameter: 'input'"),
        ({"input": []}, "empty array"),
        ({"input": 3}, "Invalid type for 'input'"),
        ({"input": ["x"]}, "Invalid type for 'input[0]'"),
        ({"input": [{}]}, "'input[0].type'"),
        ({"instructions": ["x"]}, "Invalid type for 'instructions'"),
        ({"input": [{"role": "tool", "content": "x"}]}, "Invalid value: 'tool'"),
        ({"input": [{"role": "user"}]}, "'input[0].content'"),
        (
            {"input": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
            "Supported values are: 'input_text'",
        ),
        ({"input": [{"role": "user", "content": ["x"]}]}, "expected an object"),
        ({"input": [{"role": "user", "content": [{"type": "input_text"}]}]}, "content[0].text"),
        ({"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "image_url"),
        ({"input": [{"role": "user", "content": [{"type": "input_file"}]}]}, "file_data"),
        (
            {
                "input": [
                    {
                        "role": "user",
                        "content": [{"type": "input_image", "image_url": "data:image/png;base64,*"}],
                    }
                ]
            },
            "base64",
        ),
        ({"input": [{"role": "assistant", "content": [{"type": "input_text"}]}]}, "'output_text'"),
        ({"input": [{"role": "assistant", "content": [{"type": "output_text"}]}]}, "content[0].text"),
        ({"input": [OUTPUT]}, "No tool call found for function call output with call_id c1."),
        ({"input": [CALL]}, "No tool output found for function call c1."),
        ({"input": [CALL, {"type": "function_call_output", "call_id": "c1"}]}, "'input[1].output'"),
        ({"input": [{"type": "function_call_output", "output": "x"}]}, "'input[0].call_id'"),
        ({"input": [{"type": "function_call", "name": "x", "arguments": "{}"}]}, "'input[0].call_id'"),
        ({"input": [{"type": "function_call", "call_id": "x", "arguments": "{}"}]}, "'input[0].name'"),
        ({"input": [{"type": "function_call", "call_id": "x", "name": "f"}]}, "'input[0].arguments'"),
        ({"input": [{"type": "mcp_approval_response"}]}, "approval_request_id"),
        (
            {"input": [{"type": "reasoning", "id": "rs", "summary": []}]},
            "Item 'rs' of type 'reasoning' was provided without its required following item.",
        ),
        (
            {"input": [{"type": "reasoning", "id": "rs", "summary": []}, {"role": "user", "content": "x"}]},
            "without its required following item",
        ),
        ({"input": [{"type": "compaction", "id": "a"}, {"type": "compaction", "id": "a"}]}, "Duplicate item"),
        ({"messages": []}, "has moved to 'input'"),
        ({"max_tokens": 3}, "has moved to 'max_output_tokens'"),
        ({"stop": ["x"]}, "Unknown parameter: 'stop'"),
        ({"previous_response_id": "a", "conversation": "b"}, "Mutually exclusive"),
        ({"temperature": 3}, "decimal value out of range"),
        ({"top_p": -1}, "minimum 0"),
        ({"temperature": "warm"}, "Invalid type for 'temperature'"),
        ({"model": "gpt-5", "temperature": 0.5}, "not supported with this model"),
        ({"max_output_tokens": 3}, "Expected a value >= 16"),
        ({"max_output_tokens": "many"}, "Invalid type for 'max_output_tokens'"),
        ({"tools": "x"}, "Invalid type for 'tools'"),
        ({"tools": [{"name": "x"}]}, "'tools[0].type'"),
        ({"tools": [{"type": "function", "function": {"name": "x"}}]}, "'tools[0].name'"),
        ({"tools": [{**LOOK, "strict": True}]}, "'additionalProperties' is required"),
        ({"tool_choice": "required"}, "must be specified with 'tools'"),
        ({"tools": [LOOK], "tool_choice": "maybe"}, "Invalid value for 'tool_choice'"),
        ({"tools": [LOOK], "tool_choice": {"type": "function", "name": "x"}}, "not found in 'tools'"),
        ({"tools": [LOOK], "tool_choice": {"type": "web_search"}}, "not found in 'tools'"),
        ({"text": {"format": {"type": "json_object"}}}, "must contain the word 'json'"),
        ({"text": {"format": {"type": "xml"}}}, "Supported values are"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        (
            {
                "text": {
                    "format": {
                        "type": "json_schema",
                        "name": "n",
                        "schema": EMPTY,
                        "strict": True,
                    }
                }
            },
            "Invalid schema for response_format 'n'",
        ),
        ({"reasoning": {"effort": "most"}}, "Invalid value: 'most'"),
    ],
)
def test_the_vendor_refuses(body, words):
    assert words in refusal(**body)


def test_a_body_that_is_no_object_is_refused():
    for body in (b"", b"[1]", b"{", b"\xff"):
        with pytest.raises(BadRequest, match="could not parse"):
            server_side(DIALECT).decode_request(HttpRequest("/responses", body))


def test_openai_rules_can_be_disabled():
    dialect = OpenAIResponses(Quirks(reasoning_model_rules=False, unsupported_settings=frozenset()))
    request = server_side(dialect).decode_request(http(model="gpt-5", temperature=0.5, top_k=3))
    assert request.settings.temperature == 0.5
    assert request.provider_options["openai"]["top_k"] == 3


# Whatever can be said: Request to HTTP to Request.

words = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
names = st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
users = st.lists(
    st.one_of(
        words.map(Text),
        names.map(lambda name: Image(url=f"https://{name}.example/a.png")),
        st.binary(min_size=1, max_size=9).map(lambda data: Image(data=data, media_type="image/png")),
        names.map(lambda name: Document(data=b"%PDF-", media_type="application/pdf", filename=name)),
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: [Message.user(*parts)])


@st.composite
def turns(draw):
    number = draw(st.integers(0, 10**6))
    parts = []
    if draw(st.booleans()):
        kept = {"item_id": f"rs_{number}", "encrypted_content": draw(words)}
        parts.append(Reasoning(draw(words), {"openai": kept}))
    phase = {"openai": {"item_id": f"msg_{number}", "phase": "commentary"}}
    parts.append(Text(draw(words), draw(st.sampled_from([None, phase]))))
    count = draw(st.integers(0, 2))
    calls = [ToolCall(f"call_{number}_{n}", draw(names), draw(st.just('{"a": 1}'))) for n in range(count)]
    messages = [Message.assistant(*parts, *calls)]
    if calls:
        messages.append(Message.tool([ToolResult(c.id, draw(words), name=c.name) for c in calls]))
    else:
        messages.extend(draw(users))
    return messages


@st.composite
def requests(draw):
    messages = [Message.system(draw(words))] if draw(st.booleans()) else []
    messages += draw(users)
    seen = set()
    for turn in draw(st.lists(turns(), max_size=3)):
        ids = {part.id for part in turn[0].parts if isinstance(part, ToolCall)}
        ids |= {part.metadata["openai"]["item_id"] for part in turn[0].parts if part.metadata}
        if seen.isdisjoint(ids):
            seen |= ids
            messages += turn
    tools = tuple(
        ToolSpec(name, draw(words), {"type": "object"}) for name in draw(st.sets(names, max_size=2))
    )
    model = draw(st.sampled_from(["gpt-4.1", "gpt-5.4", "grok-4"]))
    return Request(
        model=model,
        messages=tuple(messages),
        tools=tools,
        tool_choice=draw(st.sampled_from([None, "auto", "required", "none"])) if tools else None,
        settings=Settings(max_output_tokens=draw(st.sampled_from([None, 16, 4096]))),
        response_format=draw(st.sampled_from([None, ResponseFormat({"type": "array"}, "n", None, False)])),
        reasoning=None if model == "gpt-4.1" else draw(st.sampled_from([None, Effort(effort="low")])),
    )


def joined(messages):
    """Neighbours of one side are one message on this wire."""
    out = []
    for message in messages:
        if out and out[-1].role == message.role == "assistant":
            out[-1] = Message("", "assistant", (*out[-1].parts, *message.parts))
        else:
            out.append(message)
    return tuple(out)


@settings(max_examples=examples(80), deadline=None)
@given(requests())
def test_a_request_survives_the_wire(request_):
    encoded = DIALECT.encode(request_, provider="openai")
    read_again = server_side(DIALECT).decode_request(encoded.http)
    assert encoded.warnings == []
    assert read_again.messages == joined(request_.messages)
    for name in ("model", "tools", "tool_choice", "settings", "response_format", "reasoning"):
        assert getattr(read_again, name) == getattr(request_, name)
    assert read_again.provider_options == {}
    assert DIALECT.encode(read_again, provider="openai").http.json() == encoded.http.json()
