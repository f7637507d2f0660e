"""AWS's own Python client is content with the simulator."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from typing import Any

import pytest

from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.events import Usage
from llmstream.simulator import Break, Call, Refuse, Script, Simulator, Turn

boto3 = pytest.importorskip("boto3", reason="boto3 is not installed (extra: peers)")
botocore = pytest.importorskip("botocore")
exceptions = pytest.importorskip("botocore.exceptions")
botocore_config = pytest.importorskip("botocore.config")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL = {"toolSpec": {"name": "weather", "description": "Weather of a city", "inputSchema": {"json": SCHEMA}}}
TOOLS: dict[str, Any] = {"toolConfig": {"tools": [TOOL]}}
ASKED: list[Any] = [{"role": "user", "content": [{"text": "How warm is it?"}]}]


class Ask:
    """`await ask(**options)`: the events of one answer; the client blocks, so it has a thread."""

    def __init__(self, client: Any) -> None:
        self.client = client

    async def __call__(self, **options: Any) -> list[Any]:
        return await asyncio.to_thread(self._ask, **options)

    def _ask(self, **options: Any) -> list[Any]:
        options = {"modelId": "vendor.sim-v1:0", "messages": ASKED, **options}
        answer = self.client.converse_stream(**options)
        assert answer["ResponseMetadata"]["RequestId"].startswith("req_sim_")
        with closing(answer["stream"]) as stream:
            return list(stream)


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[Ask]:
    script = Script(turns) if turns else None
    config = botocore_config.Config(retries={"total_max_attempts": 1})
    credentials = {"aws_access_key_id": key, "aws_secret_access_key": "not-used"}
    async with Simulator(script, dialects=[BedrockConverse()], api_keys={"sim-key"}) as simulator:
        with closing(
            boto3.client(
                "bedrock-runtime",
                region_name="eu-north-1",
                endpoint_url=simulator.url,
                config=config,
                **credentials,
            )
        ) as client:
            yield Ask(client)


def message_of(events: list[Any]) -> dict[str, Any]:
    """The message that the deltas make, as the next request takes it."""
    blocks: dict[int, dict[str, Any]] = {}
    for kind, event in (pair for one in events for pair in one.items()):
        if kind == "contentBlockStart":
            blocks[event["contentBlockIndex"]] = {"toolUse": {**event["start"]["toolUse"], "input": ""}}
        if kind == "contentBlockDelta":
            delta = event["delta"]
            block = blocks.setdefault(event["contentBlockIndex"], {})
            if "toolUse" in delta:
                block["toolUse"]["input"] += delta["toolUse"]["input"]
            elif "text" in delta:
                block["text"] = block.get("text", "") + delta["text"]
            else:
                thought = block.setdefault("reasoningContent", {"reasoningText": {"text": ""}})[
                    "reasoningText"
                ]
                thought["text"] += delta["reasoningContent"].get("text", "")
                thought |= {k: v for k, v in delta["reasoningContent"].items() if k == "signature"}
    content = [blocks[index] for index in sorted(blocks)]
    for block in content:
        if "toolUse" in block:
            block["toolUse"]["input"] = botocore.compat.json.loads(block["toolUse"]["input"])
    return {"role": "assistant", "content": content}


def last(events: list[Any], kind: str) -> Any:
    return [event[kind] for event in events if kind in event][-1]


async def test_client_reads_each_block_and_usage() -> None:
    """Reasoning, text, calls, finish reason and usage."""
    turn = Turn(
        reasoning="Hm hm.",
        text="Привет, мир",
        calls=(Call("weather", {"city": "Łódź"}), Call("clock")),
        usage=Usage(11, 22, 33, cached_input_tokens=3),
    )
    async with connected(turn) as ask:
        events = await ask(**TOOLS)
    content = message_of(events)["content"]
    thought = content[0]["reasoningContent"]["reasoningText"]
    assert (thought["text"], bool(thought["signature"])) == ("Hm hm.", True)
    assert content[1] == {"text": "Привет, мир"}
    calls = [block["toolUse"] for block in content[2:]]
    assert [(c["name"], c["input"]) for c in calls] == [("weather", {"city": "Łódź"}), ("clock", {})]
    assert len({c["toolUseId"] for c in calls}) == 2
    assert events[0] == {"messageStart": {"role": "assistant"}}
    assert sum("contentBlockStop" in event for event in events) == 4
    assert last(events, "messageStop") == {"stopReason": "tool_use"}
    usage = last(events, "metadata")["usage"]
    assert (usage["inputTokens"], usage["cacheReadInputTokens"]) == (8, 3)  # the vendor counts them apart
    assert (usage["outputTokens"], usage["totalTokens"]) == (22, 33)


async def test_second_turn_with_results_works() -> None:
    async with connected() as ask:
        first = message_of(await ask(**TOOLS))
        call = first["content"][-1]["toolUse"]
        assert (call["name"], call["input"]) == ("weather", {"city": "Paris"})
        result = {"toolUseId": call["toolUseId"], "content": [{"text": "7 degrees"}], "status": "success"}
        history = [*ASKED, first, {"role": "user", "content": [{"toolResult": result}]}]
        second = await ask(messages=history, **TOOLS)
    assert "7 degrees" in message_of(second)["content"][-1]["text"]
    assert last(second, "messageStop") == {"stopReason": "end_turn"}


@pytest.mark.parametrize(
    ("reason", "told"),
    [("length", "max_tokens"), ("content-filter", "content_filtered"), ("stop", "end_turn")],
)
async def test_finish_reasons_are_its_own(reason: Any, told: str) -> None:
    async with connected(Turn(text="a", finish_reason=reason)) as ask:
        assert last(await ask(), "messageStop") == {"stopReason": told}


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "ValidationException"),
        (403, "AccessDeniedException"),
        (404, "ResourceNotFoundException"),
        (408, "ModelTimeoutException"),
        (424, "ModelErrorException"),
        (429, "ThrottlingException"),
        (500, "InternalServerException"),
        (503, "ServiceUnavailableException"),
    ],
)
async def test_refusals_are_its_typed_errors(status: int, code: str) -> None:
    async with connected(Turn(fault=Refuse(status=status, message="not today"))) as ask:
        with pytest.raises(exceptions.ClientError, match="not today") as caught:
            await ask()
    assert type(caught.value).__name__ == code  # one of the service's own, not the general one
    answer = caught.value.response
    assert (answer["Error"]["Code"], answer["ResponseMetadata"]["RequestId"]) == (code, "req_sim_0")


async def test_a_wrong_key_is_a_client_error() -> None:
    async with connected(key="wrong") as ask:
        with pytest.raises(exceptions.ClientError, match="key is not valid") as caught:
            await ask()
    assert caught.value.response["Error"]["Code"] == "UnrecognizedClientException"


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "validationException"),
        (429, "throttlingException"),
        (500, "internalServerException"),
        (503, "serviceUnavailableException"),
    ],
)
async def test_in_stream_error_is_exception_frame(status: int, code: str) -> None:
    fault = Break(after_events=3, status=status, message="it broke")
    async with connected(Turn(text="a b", fault=fault)) as ask:
        with pytest.raises(exceptions.EventStreamError, match="it broke") as caught:
            await ask()
    assert caught.value.response["Error"]["Code"] == code


CLAUDE = "eu.anthropic.claude-opus-5-5"
ADAPTIVE: dict[str, Any] = {"thinking": {"type": "adaptive", "display": "summarized"}}
CHOICE: Any = {"toolChoice": {"any": {}}}


def thoughts_of(events: list[Any]) -> str:
    deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
    return "".join(delta.get("reasoningContent", {}).get("text", "") for delta in deltas)


async def test_reasons_calls_a_tool_and_continues() -> None:
    """The signed thought goes back before the call, as the vendor wants it."""
    options: Any = {"modelId": CLAUDE, "additionalModelRequestFields": ADAPTIVE, **TOOLS}
    async with connected() as ask:
        events = await ask(**options)
        assert thoughts_of(events) == "The tool weather can help here."
        first = message_of(events)
        assert first["content"][0]["reasoningContent"]["reasoningText"]["signature"]
        result = {"toolUseId": first["content"][-1]["toolUse"]["toolUseId"], "content": [{"text": "7"}]}
        history = [*ASKED, first, {"role": "user", "content": [{"toolResult": result}]}]
        events = await ask(messages=history, **options)
    assert "weather says: 7" in message_of(events)["content"][-1]["text"]
    assert thoughts_of(events) == "The results are here."


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"additionalModelRequestFields": {"thinking": {"type": "disabled"}}}, "thinking.type.disabled"),
        ({"toolConfig": {**TOOLS["toolConfig"], **CHOICE}}, "forced tool use"),
        ({"inferenceConfig": {"temperature": 0.5}}, "temperature"),
    ],
)
async def test_refusal_of_model_fails_validation(options: Any, words: str) -> None:
    async with connected(Turn(text="Hello.")) as ask:
        with pytest.raises(exceptions.ClientError, match=words) as caught:
            await ask(modelId=CLAUDE, **options)
    assert caught.value.response["Error"]["Code"] == "ValidationException"


async def test_a_forced_call_stands_alone() -> None:
    async with connected() as ask:
        (block,) = message_of(await ask(toolConfig={**TOOLS["toolConfig"], **CHOICE}))["content"]
    assert (block["toolUse"]["name"], block["toolUse"]["input"]) == ("weather", {"city": "Paris"})


async def test_an_answer_of_a_schema_is_json() -> None:
    shape = {**SCHEMA, "additionalProperties": False}
    text = botocore.compat.json.dumps(shape)
    output = {"textFormat": {"type": "json_schema", "structure": {"jsonSchema": {"schema": text}}}}
    async with connected() as ask:
        (block,) = message_of(await ask(outputConfig=output))["content"]
    assert block["text"] == '{"city":"Paris"}'


async def test_tokens_are_counted_before_asking() -> None:
    words = [{"role": "user", "content": [{"text": "x" * 40}]}]
    async with connected() as ask:
        counted = await asyncio.to_thread(
            ask.client.count_tokens, modelId="m", input={"converse": {"messages": words}}
        )
    assert counted["inputTokens"] == 10
