"""Anthropic's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from llmstream.dialects.anthropic import Anthropic
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

anthropic = pytest.importorskip("anthropic", reason="Anthropic's own client is not installed")
# Its warnings of models that end say nothing of the wire.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
]

TOOL: Any = {
    "name": "weather",
    "description": "Weather of a city",
    "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
ASKED: list[Any] = [{"role": "user", "content": "How warm is it?"}]


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Any]:
    script = Script(turns) if turns else None
    async with (
        Simulator(script, dialects=[Anthropic()], api_keys={"sim-key"}) as simulator,
        anthropic.AsyncAnthropic(base_url=simulator.url, api_key=key, max_retries=0) as client,
    ):
        yield client


async def final(client: Any, **options: Any) -> Any:
    options = {"model": "sim", "max_tokens": 256, "messages": ASKED, **options}
    async with client.messages.stream(**options) as stream:
        return await stream.get_final_message()


async def test_it_reads_blocks_reason_and_usage() -> None:
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, cached_input_tokens=3),
    )
    async with connected(turn) as client:
        message = await final(client)
    assert [block.type for block in message.content] == ["thinking", "text", "tool_use", "tool_use"]
    thinking, text, first, second = message.content
    assert (thinking.thinking, text.text) == ("Hm hm.", "Привет, мир")
    assert (first.name, first.input) == ("weather", {"city": "Łódź"})
    assert (second.name, second.input) == ("clock", {})
    assert message.stop_reason == "tool_use"
    usage = message.usage
    assert (usage.input_tokens, usage.cache_read_input_tokens, usage.output_tokens) == (8, 3, 22)
    assert message.model == "sim"


async def test_second_turn_with_results_works() -> None:
    async with connected() as client:
        first = await final(client, tools=[TOOL])
        call = first.content[-1]
        assert (call.name, call.input) == ("weather", {"city": "Paris"})
        history = [
            *ASKED,
            {"role": "assistant", "content": first.content},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "7 degrees"}],
            },
        ]
        second = await final(client, messages=history, tools=[TOOL])
        models = [m.id async for m in client.models.list()]
    assert "7 degrees" in "".join(b.text for b in second.content if b.type == "text")
    assert second.stop_reason == "end_turn"
    assert models == ["sim"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "BadRequestError"),
        (401, "AuthenticationError"),
        (403, "PermissionDeniedError"),
        (404, "NotFoundError"),
        (413, "RequestTooLargeError"),
        (429, "RateLimitError"),
        (500, "InternalServerError"),
        (503, "ServiceUnavailableError"),
        (529, "OverloadedError"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, kind: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as client:
        with pytest.raises(getattr(anthropic, kind), match="not today") as caught:
            await final(client)
    assert caught.value.request_id == "req_sim_0"


async def test_wrong_key_is_authentication_error() -> None:
    async with connected(key="wrong") as client:
        with pytest.raises(anthropic.AuthenticationError):
            await final(client)


async def test_bad_request_is_bad_request_error() -> None:
    async with connected() as client:
        with pytest.raises(anthropic.BadRequestError):
            await final(client, messages=[])


async def test_in_stream_error_raises_its_error() -> None:
    turn = Turn(text="a b", fault=Break(after_events=3, status=529, message="it is busy"))
    async with connected(turn) as client:
        with pytest.raises(anthropic.APIStatusError, match="it is busy"):
            await final(client)


OFF: Any = {"type": "disabled"}
BUDGET: Any = {"type": "enabled", "budget_tokens": 1024}
BETWEEN: Any = {"type": "between_tools"}
ADAPTIVE: Any = {"type": "adaptive", "display": "summarized"}
UPDATES: Any = {"type": "adaptive", "display": "updates"}
ANSWER = Turn(reasoning="Hm hm.", text="Hello.")


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("claude-opus-5-5", {"thinking": ADAPTIVE, "output_config": {"effort": "max"}}),
        ("claude-fable-5-1", {"thinking": UPDATES}),
        ("claude-sonnet-5-5", {"thinking": BETWEEN}),
        ("claude-haiku-5-5", {"thinking": OFF, "output_config": {"effort": "high"}}),
        ("claude-opus-4-8", {"thinking": OFF}),
        ("claude-sonnet-4-5", {"thinking": BUDGET, "max_tokens": 4096}),
        ("claude-opus-5", {"tools": [TOOL], "tool_choice": {"type": "any"}}),
    ],
)
async def test_what_a_model_takes_is_answered(model: str, options: Any) -> None:
    async with connected(ANSWER) as client:
        message = await final(client, model=model, **options)
    assert [block.type for block in message.content] == ["thinking", "text"]
    assert message.content[0].signature
    assert message.model == model


@pytest.mark.parametrize(
    ("model", "options", "words"),
    [
        ("claude-opus-5-5", {"thinking": OFF}, "thinking.type.disabled"),
        ("claude-fable-5-2", {"thinking": OFF}, "thinking.type.disabled"),
        ("claude-opus-5-5", {"thinking": BETWEEN}, "thinking.type.between_tools"),
        ("claude-sonnet-5-5", {"thinking": OFF}, "thinking.type.disabled"),
        ("claude-opus-5", {"thinking": BUDGET, "max_tokens": 4096}, "thinking.type.enabled"),
        ("claude-opus-5-5", {"tools": [TOOL], "tool_choice": {"type": "any"}}, "forced tool use"),
        ("claude-sonnet-4-6", {"output_config": {"effort": "xhigh"}}, "output_config.effort"),
        ("claude-haiku-4-5", {"output_config": {"effort": "low"}}, "effort parameter"),
    ],
)
async def test_refusal_of_model_is_a_bad_request(model: str, options: Any, words: str) -> None:
    async with connected(ANSWER) as client:
        with pytest.raises(anthropic.BadRequestError, match=words):
            await final(client, model=model, **options)


async def test_a_runner_of_tools_runs_to_the_end() -> None:
    """It begins with a message thread, is refused by its code, and sends the conversation."""
    asked: list[str] = []

    @anthropic.beta_async_tool
    async def weather(city: str) -> str:
        """Weather of a city."""
        asked.append(city)
        return f"7 degrees in {city}"

    async with connected() as client:
        runner = client.beta.messages.tool_runner(
            model="claude-opus-5-5",
            max_tokens=256,
            messages=[{"role": "user", "content": "How warm is it in Oslo?"}],
            tools=[weather],
            thinking={"type": "adaptive", "display": "summarized"},
            output_config={"effort": "low"},
            stream=True,
        )
        messages = [await stream.get_final_message() async for stream in runner]
    assert asked == ["Oslo"]
    assert [m.stop_reason for m in messages] == ["tool_use", "end_turn"]
    assert [block.type for block in messages[0].content] == ["thinking", "text", "tool_use"]
    assert "weather says: 7 degrees in Oslo" in messages[1].content[-1].text


async def test_a_thread_is_refused_by_name() -> None:
    async with connected() as client:
        thread = client.beta.messages.thread(model="sim", max_tokens=64)
        with pytest.raises(anthropic.BadRequestError, match="message threads are not served") as caught:
            async with thread.stream({"role": "user", "content": "Hi"}) as stream:
                await stream.get_final_message()
    assert caught.value.error_code == "thread_unsupported_request"
    assert caught.value.body["request_id"] == caught.value.request_id == "req_sim_0"


async def test_it_parses_an_answer_of_a_schema() -> None:
    pydantic = pytest.importorskip("pydantic")
    place = pydantic.create_model("Place", city=str, year=int)
    async with connected() as client:
        message = await final(client, output_format=place)
    assert message.parsed_output == place(city="Paris", year=1)


async def test_instructions_between_turns_work() -> None:
    talk = [
        *ASKED,
        {"role": "assistant", "content": "7 degrees."},
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "And now?"},
    ]
    async with connected() as client:
        message = await final(client, model="claude-opus-5-5", messages=talk)
        assert "You said: And now?" in message.content[0].text
        with pytest.raises(anthropic.BadRequestError, match="role 'system' is not supported"):
            await final(client, model="claude-sonnet-4-5", messages=talk)


async def test_no_tokens_at_all_fill_the_cache() -> None:
    async with connected() as client:
        message = await final(client, max_tokens=0, cache_control={"type": "ephemeral"})
    assert (message.content, message.stop_reason, message.usage.output_tokens) == ([], "max_tokens", 0)


async def test_toolsets_have_no_name() -> None:
    sets: Any = [{"type": "computer_toolset_20260801"}, {"type": "browser_toolset_20260801"}]
    async with connected(ANSWER) as client:
        message = await final(client, model="claude-opus-5-5", tools=[*sets, TOOL])
    assert message.content[-1].text == "Hello."


async def test_both_versions_and_key_headers_work() -> None:
    old = {"anthropic-version": "2023-06-01", "x-api-key": "sim-key", "authorization": anthropic.omit}
    async with connected(ANSWER) as client:
        with pytest.raises(anthropic.BadRequestError, match="temperature: Extra inputs are not permitted"):
            await final(client, extra_body={"temperature": 0.5})
        message = await final(client, extra_body={"temperature": 0.5}, extra_headers=old)
        assert message.content[-1].text == "Hello."
        with pytest.raises(anthropic.AuthenticationError):
            await final(client, extra_headers={**old, "x-api-key": "wrong"})


async def test_models_and_tokens_are_looked_up() -> None:
    async with connected() as client:
        counted = await client.messages.count_tokens(
            model="sim", messages=[{"role": "user", "content": "x" * 40}]
        )
        model = await client.models.retrieve("claude-opus-5-5")
    assert (counted.input_tokens, model.id) == (10, "claude-opus-5-5")


async def test_single_events_and_blocking_client() -> None:
    async with connected(ANSWER) as client:
        options: Any = {"model": "sim", "max_tokens": 16, "messages": ASKED}
        kinds = [event.type async for event in await client.messages.create(stream=True, **options)]

        def blocking() -> str:
            with (
                closing(
                    anthropic.Anthropic(base_url=str(client.base_url), api_key="sim-key", max_retries=0)
                ) as own,
                own.messages.stream(**options) as stream,
            ):
                return "".join(stream.text_stream)

        text = await asyncio.to_thread(blocking)
    assert (kinds[0], kinds[-1]) == ("message_start", "message_stop")
    assert kinds.count("content_block_stop") == 2
    assert text == "Hello."


async def test_fields_of_today_are_taken() -> None:
    """Blocks and settings of the betas that anthropic 2.12 knows."""
    click = {"type": "tool_use", "id": "t1", "name": "left_click", "toolset_name": "computer", "input": {}}
    talk: Any = [
        *ASKED,
        {"role": "assistant", "content": [{"type": "compaction", "content": "They talked."}]},
        {"role": "user", "content": "Click."},
        {"role": "assistant", "content": [click]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": "clicked"}]},
        {"role": "system", "content": [{"type": "tool_removal", "name": "weather"}], "clear_at": "turn_end"},
        {"role": "user", "content": [{"type": "text", "text": "And?"}], "output_config": {"effort": "low"}},
    ]
    options: Any = {
        "model": "claude-opus-5-5",
        "messages": talk,
        "max_tokens": 256,
        "cache_control": {"type": "ephemeral", "ttl": "1h"},
        "context_management": {"edits": [{"type": "clear_tool_uses_20250919"}]},
        "fallbacks": [{"model": "claude-sonnet-5-5"}],
        "output_config": {"effort": "high", "task_budget": {"type": "tokens", "total": 20000}},
        "speed": "fast",
        "thinking": {"type": "adaptive", "display": "updates", "block_binding": {}},
        "tools": [TOOL, {"type": "computer_toolset_20260801"}, {"type": "web_search_20260318", "name": "w"}],
        "betas": ["message-threads-2026-08-12", "inline-tools-2026-09-15"],
    }
    async with connected(ANSWER) as client, client.beta.messages.stream(**options) as stream:
        message = await stream.get_final_message()
    assert message.content[-1].text == "Hello."
