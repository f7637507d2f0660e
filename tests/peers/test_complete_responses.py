"""The vendors' own Python clients read the simulator's responses without a stream."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from contextlib import closing
from typing import Any, NamedTuple

import pytest

from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

pytestmark = [
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:The model .* is deprecated:DeprecationWarning"),
]

PROMPT = "How warm is it?"
ASKED: list[Any] = [{"role": "user", "content": PROMPT}]
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"name": "weather", "description": "Weather of a city"}
FUNCTION: Any = {"type": "function", "function": {**TOOL, "parameters": SCHEMA}}
TURN = Turn(
    reasoning="Hm hm.",
    text="Привет, мир",
    calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
    usage=Usage(11, 22, 33),
)


class Read(NamedTuple):
    """What a client found in a response."""

    reasoning: str
    text: str
    calls: list[tuple[str, Any]]
    tokens: tuple[int, int]
    reason: str


Ask = Callable[[str], Awaitable[Read]]


def installed(*modules: str) -> Any:
    """The last of the modules; skips where one is missing."""
    found = None
    for module in modules:
        found = pytest.importorskip(module, reason=f"{module} is not installed (extra: peers)")
    return found


async def openai_chat(url: str) -> Read:
    openai = installed("openai")
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sim-key", max_retries=0) as client:
        got = await client.chat.completions.create(model="sim", messages=ASKED, tools=[FUNCTION])
    choice = got.choices[0]
    assert (got.object, got.model, choice.message.role) == ("chat.completion", "sim", "assistant")
    return Read(
        choice.message.model_extra["reasoning_content"],
        choice.message.content,
        [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls],
        (got.usage.prompt_tokens, got.usage.completion_tokens),
        choice.finish_reason,
    )


async def openai_responses(url: str) -> Read:
    openai = installed("openai")
    tool: Any = {"type": "function", **TOOL, "parameters": SCHEMA}
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="sim-key", max_retries=0) as client:
        got = await client.responses.create(model="sim", input=PROMPT, tools=[tool])
    assert (got.object, got.tools[0].name) == ("response", "weather")
    calls = [item for item in got.output if item.type == "function_call"]
    return Read(
        got.output[0].summary[0].text,
        got.output_text,
        [(call.name, json.loads(call.arguments)) for call in calls],
        (got.usage.input_tokens, got.usage.output_tokens),
        got.status,
    )


async def anthropic_message(client: Any) -> Read:
    tool: Any = {**TOOL, "input_schema": SCHEMA}
    async with client:
        got = await client.messages.create(model="claude-sim", max_tokens=256, messages=ASKED, tools=[tool])
    thinking, text, *calls = got.content
    assert (got.type, bool(thinking.signature)) == ("message", True)
    return Read(
        thinking.thinking,
        text.text,
        [(call.name, call.input) for call in calls],
        (got.usage.input_tokens, got.usage.output_tokens),
        got.stop_reason,
    )


async def anthropic(url: str) -> Read:
    made = installed("anthropic")
    return await anthropic_message(made.AsyncAnthropic(base_url=url, api_key="sim-key", max_retries=0))


async def anthropic_bedrock(url: str) -> Read:
    made = installed("boto3", "anthropic")
    keys = {"aws_access_key": "sim-key", "aws_secret_key": "not-used", "aws_region": "eu-north-1"}
    return await anthropic_message(made.AsyncAnthropicBedrock(base_url=url, max_retries=0, **keys))


async def anthropic_vertex(url: str) -> Read:
    made = installed("google.auth", "anthropic")
    place = {"access_token": "sim-key", "project_id": "some-project", "region": "global"}
    return await anthropic_message(made.AsyncAnthropicVertex(base_url=f"{url}/v1", max_retries=0, **place))


async def google(url: str) -> Read:
    genai = installed("google.genai")
    config = {"tools": [{"function_declarations": [{**TOOL, "parameters_json_schema": SCHEMA}]}]}
    made = genai.Client(api_key="sim-key", http_options={"base_url": url})
    async with made.aio as client:
        got = await client.models.generate_content(model="sim", contents=PROMPT, config=config)
    parts = got.candidates[0].content.parts
    return Read(
        "".join(part.text for part in parts if part.thought),
        "".join(part.text for part in parts if part.text and not part.thought),
        [(call.name, call.args) for call in got.function_calls],
        (got.usage_metadata.prompt_token_count, got.usage_metadata.candidates_token_count),
        got.candidates[0].finish_reason.value,
    )


async def interactions(url: str) -> Read:
    genai = installed("google.genai")
    tool: Any = {"type": "function", **TOOL, "parameters": SCHEMA}
    async with genai.Client(api_key="sim-key", http_options={"base_url": url}).aio as client:
        got = await client.interactions.create(model="sim", input=PROMPT, tools=[tool])
    thought, output, *calls = got.steps
    return Read(
        thought.summary[0].text,
        output.content[0].text,
        [(call.name, call.arguments) for call in calls],
        (got.usage.total_input_tokens, got.usage.total_output_tokens),
        got.status,
    )


async def converse(url: str) -> Read:
    config = installed("botocore.config").Config(retries={"total_max_attempts": 1})
    keys = {"aws_access_key_id": "sim-key", "aws_secret_access_key": "not-used", "region_name": "eu-north-1"}
    tool = {"toolSpec": {**TOOL, "inputSchema": {"json": SCHEMA}}}
    made = installed("boto3").client("bedrock-runtime", endpoint_url=url, config=config, **keys)
    words: Any = [{"role": "user", "content": [{"text": PROMPT}]}]
    with closing(made) as client:
        got = await asyncio.to_thread(
            client.converse, modelId="v.sim", messages=words, toolConfig={"tools": [tool]}
        )
    reasoning, text, *calls = got["output"]["message"]["content"]
    uses = [call["toolUse"] for call in calls]
    return Read(
        reasoning["reasoningContent"]["reasoningText"]["text"],
        text["text"],
        [(use["name"], use["input"]) for use in uses],
        (got["usage"]["inputTokens"], got["usage"]["outputTokens"]),
        got["stopReason"],
    )


async def cohere(url: str) -> Read:
    made = installed("cohere")
    async with made.AsyncClientV2(api_key="sim-key", base_url=url) as client:
        got = await client.chat(
            model="sim", messages=ASKED, tools=[FUNCTION], request_options={"max_retries": 0}
        )
    thinking, text = got.message.content
    calls = [call.function for call in got.message.tool_calls]
    return Read(
        thinking.thinking,
        text.text,
        [(call.name, json.loads(call.arguments)) for call in calls],
        (int(got.usage.tokens.input_tokens), int(got.usage.tokens.output_tokens)),
        got.finish_reason,
    )


async def mistral(url: str) -> Read:
    made = installed("mistralai.client")
    async with made.Mistral(api_key="sim-key", server_url=f"{url}/mistral") as client:
        got = await client.chat.complete_async(model="sim", messages=ASKED, tools=[FUNCTION])
    choice = got.choices[0]
    thinking, text = choice.message.content
    return Read(
        thinking.thinking[0].text,
        text.text,
        [(c.function.name, json.loads(c.function.arguments)) for c in choice.message.tool_calls],
        (got.usage.prompt_tokens, got.usage.completion_tokens),
        choice.finish_reason,
    )


async def ollama(url: str) -> Read:
    made = installed("ollama")
    async with made.AsyncClient(host=url, headers={"authorization": "Bearer sim-key"}) as client:
        got = await client.chat(model="sim", messages=ASKED, tools=[FUNCTION])
    return Read(
        got.message.thinking,
        got.message.content,
        [(call.function.name, call.function.arguments) for call in got.message.tool_calls],
        (got.prompt_eval_count, got.eval_count),
        got.done_reason,
    )


REASONS: dict[Ask, str] = {
    openai_chat: "tool_calls",
    openai_responses: "completed",
    anthropic: "tool_use",
    anthropic_bedrock: "tool_use",
    anthropic_vertex: "tool_use",
    google: "STOP",
    interactions: "requires_action",
    converse: "tool_use",
    cohere: "TOOL_CALL",
    mistral: "tool_calls",
    ollama: "stop",
}
clients = pytest.mark.parametrize("ask", REASONS, ids=lambda ask: ask.__name__)


@clients
async def test_clients_read_complete_responses(ask: Ask) -> None:
    async with Simulator(Script((TURN,)), api_keys={"sim-key"}) as simulator:
        read = await ask(simulator.url)
    calls = [("weather", {"city": "Łódź"}), ("clock", {})]
    assert read == Read("Hm hm.", "Привет, мир", calls, (11, 22), REASONS[ask])


@clients
@pytest.mark.parametrize(
    "fault", [Refuse(status=403, message="not for you"), Break(status=403, message="not for you")]
)
async def test_errors_are_the_vendors(ask: Ask, fault: Refuse | Break) -> None:
    """An error inside a stream is an error status where nothing was sent before it."""
    async with Simulator(Script((Turn(text="Hi", fault=fault),)), api_keys={"sim-key"}) as simulator:
        with pytest.raises(Exception, match=r"(?i)not for you") as caught:
            await ask(simulator.url)
    told = caught.value
    status = getattr(told, "status_code", None) or getattr(told, "code", None)
    if hasattr(told, "response") and isinstance(told.response, dict):
        status = told.response["ResponseMetadata"]["HTTPStatusCode"]
    assert status == 403
