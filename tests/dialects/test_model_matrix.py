"""Every model at every effort, with and without tools: what the client side writes, the server side takes."""

from __future__ import annotations

import itertools

import pytest

from llmstream.chats.message import Message
from llmstream.dialects.anthropic import Anthropic
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.gemini import Gemini
from llmstream.dialects.mistral import Mistral
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.model_rules import ORDER
from llmstream.request import ReasoningOptions, Request, ResponseFormat, Settings, ToolSpec
from llmstream.server_side.wires import server_side

CLAUDE = [f"claude-{name}" for name in ("fable-5", "fable-5-2", "mythos-5-1", "mythos-preview", "opus-5-5")]
CLAUDE += [f"claude-{name}" for name in ("sonnet-5-5", "haiku-5-5", "opus-5", "sonnet-5", "opus-4-7")]
CLAUDE += ["claude-sonnet-4-6", "claude-haiku-4-5", "claude-3-7-sonnet", "claude-3-5-haiku", "claude-next-1"]
GEMINI = [
    "gemini-2.5-flash",
    "gemini-2.5-pro",
    "gemini-3-pro-preview",
    "gemini-3.5-flash",
    "gemini-3.6-flash",
]
GEMINI += ["gemini-3.8-flash", "gemini-4-argon", "gemini-4-hydrogen", "gemini-9-neon"]
GPT = [
    "gpt-6-astra",
    "gpt-6-sol",
    "gpt-5.6",
    "gpt-5.4",
    "gpt-5.1-chat-latest",
    "gpt-5",
    "o3",
    "gpt-4.1",
    "gpt-7",
]
MISTRAL = ["mistral-large-4", "zai-glm-5-3", "zai-glm-5-2", "mistral-medium-latest", "codestral-latest"]
CASES = [
    *((Anthropic(), model) for model in CLAUDE),
    *((BedrockConverse(), f"us.anthropic.{model}-v1:0") for model in CLAUDE),
    *((Gemini(), model) for model in GEMINI),
    *((OpenAIResponses(), model) for model in GPT),
    *((Mistral(), model) for model in MISTRAL),
]
TOOL = ToolSpec("look", "Looks.", {"type": "object", "properties": {}}, strict=True)
SCHEMA = ResponseFormat({"type": "object", "properties": {"a": {"type": "string"}}})


@pytest.mark.parametrize(("dialect", "model"), CASES, ids=lambda case: getattr(case, "name", case))
def test_no_request_of_ours_is_refused(dialect, model):
    efforts = [None, *ORDER]
    choices = [None, "auto", "required"]
    sampled = Settings(temperature=0.5, top_p=0.5, top_k=5, stop=("x",), max_output_tokens=200_000)
    for effort, choice, schema, settings in itertools.product(
        efforts, choices, (None, SCHEMA), (Settings(), sampled)
    ):
        if schema is not None and choice is not None:
            continue
        request = Request(
            model=model,
            messages=(Message.user("Hi"),),
            tools=() if choice is None else (TOOL,),
            tool_choice=choice,
            reasoning=None if effort is None else ReasoningOptions(effort=effort),
            response_format=schema,
            settings=settings,
        )
        http = dialect.encode(request, provider=dialect.name).http
        assert server_side(dialect).decode_request(http).model in (model, f"models/{model}")
