"""OpenAI's own Python clients for Bedrock and Azure are content with the simulator."""

from __future__ import annotations

from typing import Any

import pytest

from llmstream.simulator import Call, Script, Simulator, Turn

openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")
pytest.importorskip("boto3", reason="boto3 is not installed (extra: peers)")

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {"type": "function", "name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
TURN = Turn(reasoning="Hm hm.", text="Привет", calls=(Call("weather", {"city": "Łódź"}),))


def with_a_key(url: str) -> Any:
    return openai.AsyncBedrockOpenAI(
        api_key="sim-key", aws_region="eu-north-1", base_url=f"{url}/openai/v1", max_retries=0
    )


def signed(url: str) -> Any:
    return openai.AsyncBedrockOpenAI(
        aws_access_key_id="sim-key",
        aws_secret_access_key="not-used",
        aws_region="eu-north-1",
        base_url=f"{url}/openai/v1",
        max_retries=0,
    )


def on_azure(url: str) -> Any:
    return openai.AsyncOpenAI(api_key="sim-key", base_url=f"{url}/openai/v1", max_retries=0)


@pytest.mark.parametrize("client_at", [with_a_key, signed, on_azure])
async def test_responses_and_chat_are_read(client_at: Any) -> None:
    async with (
        Simulator(Script((TURN,)), api_keys={"sim-key"}) as simulator,
        client_at(simulator.url) as client,
    ):
        async with client.responses.stream(
            model="openai.gpt-6-sol", input="Hi", tools=[TOOL], reasoning={"effort": "low"}
        ) as stream:
            response = await stream.get_final_response()
        chunks = await client.chat.completions.create(
            model="openai.gpt-oss-120b", messages=[{"role": "user", "content": "Hi"}], stream=True
        )
        text = "".join([c.choices[0].delta.content or "" async for c in chunks if c.choices])
    assert [item.type for item in response.output] == ["reasoning", "message", "function_call"]
    assert (response.output_text, response.output[-1].arguments) == ("Привет", '{"city":"Łódź"}')
    assert text == "Привет"
