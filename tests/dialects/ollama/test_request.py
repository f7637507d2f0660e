"""A request in Ollama's words and back."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    Image,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.ollama import Ollama
from llmstream.errors import BadRequest, ErrorInfo, Unsupported
from llmstream.events import OtherWarning, UnsupportedSetting, UnsupportedTool, Warning
from llmstream.exchange import HttpRequest
from llmstream.request import NamedTool, ProviderTool, Request, ResponseFormat, Settings, ToolSpec
from llmstream.request import ReasoningOptions as Effort
from llmstream.server_side.wires import server_side

PNG = b"\x89PNG\r\n\x1a\n"
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = ToolSpec("weather", "Weather of a city", SCHEMA)

CONVERSATION = (
    Message.system("Be brief."),
    Message.user("What is this, and how warm is it there?", Image(data=PNG, media_type="image/png")),
    Message.assistant(
        Reasoning("A harbour."),
        "I ask.",
        ToolCall("call_a", "weather", '{"city": "Łódź"}'),
        ToolCall("call_b", "weather", '{"city":"Gdynia"}'),
    ),
    Message.tool(
        [ToolResult("call_a", "7 °C", name="weather"), ToolResult("call_b", "9 °C", name="weather")]
    ),
    Message.assistant("Seven and nine."),
    Message.user("Thanks."),
)


def encoded(**fields: Any) -> tuple[dict[str, Any], list[Warning]]:
    made = Ollama().encode(Request(model="tiny:1b", **fields), provider="ollama")
    body: dict[str, Any] = made.http.json()
    return body, made.warnings


def decoded(body: bytes) -> Request:
    return server_side(Ollama()).decode_request(HttpRequest("/api/chat", body))


def test_the_whole_request_on_the_wire() -> None:
    body, warnings = encoded(
        messages=CONVERSATION,
        tools=(WEATHER,),
        settings=Settings(temperature=0.5, max_output_tokens=64, stop=("END",), seed=7),
        reasoning=Effort(effort="low"),
        response_format=ResponseFormat(SCHEMA),
    )
    assert not warnings
    assert body["stream"] is True
    assert body["think"] == "low"
    assert body["format"] == SCHEMA
    assert body["options"] == {"temperature": 0.5, "num_predict": 64, "stop": ["END"], "seed": 7}
    assert body["tools"][0] == {
        "type": "function",
        "function": {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA},
    }
    system, user, assistant, first, second, _, _ = body["messages"]
    assert system == {"role": "system", "content": "Be brief."}
    assert user["images"] == [base64.b64encode(PNG).decode()]
    assert assistant["thinking"] == "A harbour."
    assert assistant["content"] == "I ask."
    assert [c["function"]["arguments"] for c in assistant["tool_calls"]] == [
        {"city": "Łódź"},
        {"city": "Gdynia"},
    ]
    assert first == {"role": "tool", "content": "7 °C", "tool_name": "weather", "tool_call_id": "call_a"}
    assert second["content"] == "9 °C"


def test_a_request_survives_the_wire() -> None:
    request = Request(
        model="tiny:1b",
        messages=CONVERSATION,
        tools=(WEATHER, ToolSpec("clock", input_schema={"type": "object", "properties": {}})),
        settings=Settings(
            temperature=0.5,
            top_p=0.9,
            top_k=40,
            max_output_tokens=64,
            stop=("END",),
            seed=7,
            presence_penalty=0.1,
            frequency_penalty=0.2,
        ),
        reasoning=Effort(effort="none"),
        response_format=ResponseFormat(SCHEMA),
        provider_options={"ollama": {"keep_alive": "5m", "options": {"num_ctx": 8192}}},
    )
    made = Ollama().encode(request, provider="ollama")
    assert server_side(Ollama()).accepts(made.http)
    assert server_side(Ollama()).decode_request(made.http) == request


def test_results_take_the_name_of_their_tool() -> None:
    body, _ = encoded(
        messages=(Message.assistant(ToolCall("c", "clock")), Message.tool([ToolResult("c", "noon")])),
    )
    assert body["messages"][0]["tool_calls"][0]["function"]["arguments"] == {}
    assert body["messages"][1]["tool_name"] == "clock"


def test_idless_history_matches_by_name() -> None:
    """And by order."""
    request = decoded(
        b'{"model":"m","messages":[{"role":"assistant","content":"","tool_calls":['
        b'{"function":{"name":"a","arguments":{}}},{"function":{"name":"b","arguments":{}}}]},'
        b'{"role":"tool","content":"B","tool_name":"b"},{"role":"tool","content":"A"}]}'
    )
    calls = request.messages[0].tool_calls
    results = request.messages[1].tool_results
    assert [r.content for r in results] == ["B", "A"]
    assert [r.tool_call_id for r in results] == [calls[1].id, calls[0].id]


@pytest.mark.parametrize(
    ("part", "remedy"),
    [
        (Image(url="https://example.org/x.png"), "Image(data=...)"),
        (Audio(data=b"x"), "Transcribe"),
        (Document(data=b"x"), "Extract"),
    ],
)
def test_unreadable_media_error_has_remedy(part: Any, remedy: str) -> None:
    with pytest.raises(Unsupported) as caught:
        encoded(messages=(Message.user(part),))
    assert remedy in caught.value.message
    assert caught.value.provider == "ollama"


def test_a_data_url_is_sent_as_its_base64() -> None:
    url = "data:image/png;base64," + base64.b64encode(PNG).decode()
    body, _ = encoded(messages=(Message.user(Image(url=url)),))
    assert body["messages"][0]["images"] == [base64.b64encode(PNG).decode()]


def test_choice_none_drops_tools_others_warn() -> None:
    body, warnings = encoded(tools=(WEATHER,), tool_choice="none")
    assert "tools" not in body
    assert not warnings
    for choice in ("required", NamedTool("weather")):
        body, warnings = encoded(tools=(WEATHER,), tool_choice=choice)
        assert len(body["tools"]) == 1
        assert [w.setting for w in warnings if isinstance(w, UnsupportedSetting)] == ["tool_choice"]
    assert encoded(tools=(WEATHER,), tool_choice="auto")[1] == []


@pytest.mark.parametrize(
    ("effort", "think", "warned"),
    [
        ("none", False, 0),
        ("minimal", "low", 1),
        ("low", "low", 0),
        ("medium", "medium", 0),
        ("high", "high", 0),
        ("xhigh", "high", 1),
        ("max", "high", 1),
    ],
)
def test_efforts_become_think(effort: Any, think: object, warned: int) -> None:
    body, warnings = encoded(reasoning=Effort(effort=effort))
    assert body["think"] == think
    assert len(warnings) == warned


def test_a_budget_only_switches_thinking_on() -> None:
    body, warnings = encoded(reasoning=Effort(budget_tokens=1000))
    assert body["think"] is True
    assert len(warnings) == 1


def test_the_callers_own_fields_win() -> None:
    body, _ = encoded(
        settings=Settings(temperature=1.0, seed=1),
        provider_options={
            "ollama": {"keep_alive": "10m", "think": True, "options": {"seed": 2, "num_ctx": 4096}}
        },
    )
    assert body["keep_alive"] == "10m"
    assert body["think"] is True
    assert body["options"] == {"temperature": 1.0, "seed": 2, "num_ctx": 4096}


def test_what_is_left_out_is_said() -> None:
    body, warnings = encoded(
        tools=(ProviderTool("web_search"),),
        settings=Settings(parallel_tool_calls=False),
        messages=(
            Message.assistant(
                Text("Found."),
                Source("url", url="https://example.org"),
                ToolCall("s", "web_search", "{}", provider_executed=True),
                ToolResult("s", "hits", provider_executed=True),
                Custom("acme.thing"),
            ),
        ),
    )
    assert body["messages"] == [{"role": "assistant", "content": "Found."}]
    assert "tools" not in body
    kinds = [type(w) for w in warnings]
    assert kinds == [OtherWarning, OtherWarning, OtherWarning, UnsupportedTool, UnsupportedSetting]


def test_non_object_input_is_wrapped_in_one() -> None:
    messages = (Message.assistant(ToolCall("a", "f", "[1,2]"), ToolCall("b", "f", '{"x": ')),)
    body, warnings = encoded(messages=messages)
    calls = body["messages"][0]["tool_calls"]
    assert [c["function"]["arguments"] for c in calls] == [{"input": [1, 2]}, {"input": '{"x": '}]
    assert len(warnings) == 2


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "missing request body"),
        (b"{", "json:"),
        (b"[]", "json:"),
        (b'{"messages":[]}', "model is required"),
        (b'{"model":"m","messages":"hi"}', "json:"),
        (b'{"model":"m","format":"xml"}', "invalid format"),
        (b'{"model":"m","think":"lots"}', "invalid think value"),
        (b'{"model":"m","options":{"temperature":"hot"}}', 'option "temperature" must be of type float32'),
        (b'{"model":"m","options":{"stop":"END"}}', 'option "stop" must be of type array'),
        (b'{"model":"m","messages":[{"role":"user","images":["http://x/y.png"]}]}', "illegal base64"),
        (
            b'{"model":"m","messages":[{"role":"assistant","tool_calls":'
            b'[{"function":{"name":"f","arguments":"{}"}}]}]}',
            "arguments",
        ),
    ],
)
def test_bad_request_has_the_servers_message(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest) as caught:
        decoded(body)
    assert words in caught.value.message
    assert caught.value.status == 400
    answer = server_side(Ollama()).encode_error(caught.value.info)
    assert answer.status == 400
    error = Ollama().decode_error(answer.status, answer.headers, answer.body, provider="ollama")
    assert isinstance(error, BadRequest)
    assert error.message == caught.value.message


def test_other_paths_are_not_accepted() -> None:
    accepts = server_side(Ollama()).accepts
    assert accepts(HttpRequest("http://localhost:11434/api/chat"))
    assert accepts(HttpRequest("/api/chat?x=1"))
    assert not accepts(HttpRequest("/api/chat", method="GET"))
    assert not accepts(HttpRequest("/api/generate"))


def test_error_keeps_its_status_and_wait() -> None:
    answer = server_side(Ollama()).encode_error(
        ErrorInfo("rate-limited", "slow down", True, retry_after_s=2.5)
    )
    assert (answer.status, answer.headers["retry-after"]) == (429, "2.5")
