"""Vendors' own Python clients, and agents for the terminal, through the gateway to vendors of other wires.

Claude Code, Codex, Gemini CLI and OpenCode run where they are installed; tests/peers/README.md says how. They
need no account: the gateway answers by a simulator.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "gateway"))

from gateway_parts import gateway_before

from llmstream.chats.content import ToolResult
from llmstream.request import Request
from llmstream.simulator import Call, Cut, Turn

pytestmark = [
    pytest.mark.slow,
    # google-genai makes a subclass of aiohttp's session the first time that it asks.
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

VENDORS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock-converse")
SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "weather", "description": "Weather of a city", "parameters": SCHEMA}
CUT = "break off"
ANSWER = "Hello from another wire."


def script(request: Request, number: int) -> Turn:
    """A call where a tool is offered, half an answer where one is asked to break off."""
    if request.tools:
        return Turn(calls=(Call("weather", {"city": "Oslo"}),))
    if CUT in request.messages[-1].text:
        return Turn(text=ANSWER * 5, fault=Cut(after_events=9, clean=True))
    return Turn(text=ANSWER)


Ask = Callable[..., Awaitable[str]]
"""(address, prompt, streamed, tools offered) to the text, or to the name of the tool that is called."""


async def openai_chat(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    openai = pytest.importorskip("openai")
    given: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": prompt}]}
    if tools:
        given["tools"] = [{"type": "function", "function": FUNCTION}]
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        if streamed:
            async with client.chat.completions.stream(**given) as stream:
                message = (await stream.get_final_completion()).choices[0].message
        else:
            message = (await client.chat.completions.create(**given)).choices[0].message
        return message.tool_calls[0].function.name if tools else message.content


async def openai_responses(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    openai = pytest.importorskip("openai")
    given: dict[str, Any] = {"model": "sim", "input": prompt}
    if tools:
        given["tools"] = [{"type": "function", "strict": False, **FUNCTION}]
    async with openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="k", max_retries=0) as client:
        if streamed:
            async with client.responses.stream(**given) as stream:
                async for event in stream:
                    if event.type == "error":
                        raise openai.OpenAIError(event.message)
                answer = await stream.get_final_response()
        else:
            answer = await client.responses.create(**given)
        return answer.output[-1].name if tools else answer.output_text


async def anthropic_messages(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    anthropic = pytest.importorskip("anthropic")
    given: dict[str, Any] = {
        "model": "sim",
        "max_tokens": 100,
        "messages": [{"role": "user", "content": prompt}],
    }
    if tools:
        given["tools"] = [{"name": "weather", "description": "Weather of a city", "input_schema": SCHEMA}]
    async with anthropic.AsyncAnthropic(base_url=url, api_key="k", max_retries=0) as client:
        if streamed:
            async with client.messages.stream(**given) as stream:
                message = await stream.get_final_message()
        else:
            message = await client.messages.create(**given)
        block = message.content[-1]
        return block.name if tools else block.text


async def google_genai(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    genai = pytest.importorskip("google.genai")
    declared = {"name": "weather", "description": "Weather", "parameters_json_schema": SCHEMA}
    config = {"tools": [{"function_declarations": [declared]}]} if tools else {}
    made = genai.Client(api_key="k", http_options={"base_url": url})
    async with made.aio as client:
        given: dict[str, Any] = {"model": "sim", "contents": prompt, "config": config}
        if streamed:
            chunks = [chunk async for chunk in await client.models.generate_content_stream(**given)]
        else:
            chunks = [await client.models.generate_content(**given)]
    parts = [part for chunk in chunks for part in chunk.candidates[0].content.parts]
    if tools:
        return next(part.function_call.name for part in parts if part.function_call)
    return "".join(part.text or "" for part in parts)


async def mistralai(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    mistral = pytest.importorskip("mistralai.client")
    given: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": prompt}]}
    if tools:
        given["tools"] = [{"type": "function", "function": FUNCTION}]
    async with mistral.Mistral(api_key="k", server_url=f"{url}/mistral") as client:
        if not streamed:
            message = (await client.chat.complete_async(**given)).choices[0].message
            return message.tool_calls[0].function.name if tools else message.content
        async with await client.chat.stream_async(**given) as stream:
            deltas = [event.data.choices[0].delta async for event in stream if event.data.choices]
    if tools:
        return next(call.function.name for delta in deltas for call in delta.tool_calls or ())
    return "".join(delta.content for delta in deltas if isinstance(delta.content, str))


async def cohere_chat(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    cohere = pytest.importorskip("cohere")
    given: dict[str, Any] = {
        "model": "sim",
        "messages": [{"role": "user", "content": prompt}],
        "request_options": {"max_retries": 0},
    }
    if tools:
        given["tools"] = [{"type": "function", "function": FUNCTION}]
    async with cohere.AsyncClientV2(api_key="k", base_url=url) as client:
        if not streamed:
            message = (await client.chat(**given)).message
            return message.tool_calls[0].function.name if tools else message.content[-1].text
        events = [event async for event in client.chat_stream(**given)]
    if events[-1].type != "message-end" or events[-1].delta.finish_reason == "ERROR":
        raise cohere.core.ApiError(body="no end")
    if tools:
        return next(e.delta.message.tool_calls.function.name for e in events if e.type == "tool-call-start")
    return "".join(e.delta.message.content.text or "" for e in events if e.type == "content-delta")


async def ollama_chat(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    ollama = pytest.importorskip("ollama")
    given: dict[str, Any] = {"model": "sim", "messages": [{"role": "user", "content": prompt}]}
    if tools:
        given["tools"] = [{"type": "function", "function": FUNCTION}]
    async with ollama.AsyncClient(host=url) as client:
        if streamed:
            messages = [part.message async for part in await client.chat(stream=True, **given)]
        else:
            messages = [(await client.chat(**given)).message]
    if tools:
        return next(call.function.name for message in messages for call in message.tool_calls or ())
    return "".join(message.content or "" for message in messages)


async def boto3_converse(url: str, prompt: str, streamed: bool, tools: bool) -> str:
    boto3 = pytest.importorskip("boto3")
    config = pytest.importorskip("botocore.config").Config(retries={"total_max_attempts": 1})
    given: dict[str, Any] = {"modelId": "sim", "messages": [{"role": "user", "content": [{"text": prompt}]}]}
    if tools:
        spec = {"name": "weather", "description": "Weather", "inputSchema": {"json": SCHEMA}}
        given["toolConfig"] = {"tools": [{"toolSpec": spec}]}
    client = boto3.client(
        "bedrock-runtime",
        endpoint_url=url,
        region_name="us-east-1",
        aws_access_key_id="k",
        aws_secret_access_key="s",
        config=config,
    )

    def ask() -> str:
        with closing(client):
            if not streamed:
                block = client.converse(**given)["output"]["message"]["content"][-1]
                return block["toolUse"]["name"] if tools else block["text"]
            with closing(client.converse_stream(**given)["stream"]) as stream:
                events = list(stream)
        if tools:
            starts = [event["contentBlockStart"]["start"] for event in events if "contentBlockStart" in event]
            return starts[-1]["toolUse"]["name"]
        deltas = [event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event]
        return "".join(delta["text"] for delta in deltas)

    return await asyncio.to_thread(ask)


CLIENTS: dict[str, Ask] = {
    "openai-chat": openai_chat,
    "openai-responses": openai_responses,
    "anthropic": anthropic_messages,
    "gemini": google_genai,
    "mistral": mistralai,
    "cohere": cohere_chat,
    "ollama": ollama_chat,
    "bedrock-converse": boto3_converse,
}


@pytest.mark.parametrize("client", CLIENTS)
async def test_text_and_tools_of_four_vendors(client: str) -> None:
    ask = CLIENTS[client]
    for vendor in VENDORS[1:]:
        async with gateway_before(vendor, script) as (url, _):
            assert await ask(url, "Hello", True, False) == ANSWER, vendor
            assert await ask(url, "Hello", False, False) == ANSWER, vendor
            assert await ask(url, "Hello", True, True) == "weather", vendor
    assert await ask_whole_call(ask) == "weather"


async def ask_whole_call(ask: Ask) -> str:
    async with gateway_before("gemini", script) as (url, _):
        return await ask(url, "Hello", False, True)


# google-genai leaves its connection to the garbage collector when a stream fails.
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("client", CLIENTS)
async def test_a_cut_is_an_error_at_each(client: str) -> None:
    """The vendor's stream ends cleanly in the middle: no client takes the half for an answer."""
    for vendor, streamed in (("openai-chat", True), ("anthropic", True), ("gemini", False)):
        async with gateway_before(vendor, script) as (url, _):
            with pytest.raises(Exception) as caught:
                await CLIENTS[client](url, CUT, streamed, False)
            assert not isinstance(caught.value, AssertionError), vendor


# Programs of Node.


def agents_script(request: Request, number: int) -> Turn:
    """Has the agent run a command, and repeats what it printed."""
    results = [part for m in request.messages for part in m.parts if isinstance(part, ToolResult)]
    if results:
        return Turn(text=f"It printed: {results[-1].content[-200:]}")
    offered = {getattr(tool, "name", "") for tool in request.tools}
    command = "printf through-; expr 40 + 2"
    for name, arguments in (
        ("Bash", {"command": command, "description": "Echo"}),
        ("bash", {"command": command, "description": "Echo"}),
        ("run_shell_command", {"command": command, "description": "Echo"}),
        ("exec_command", {"cmd": command}),
        ("shell", {"command": ["bash", "-lc", command]}),
    ):
        if name in offered:
            return Turn(reasoning="A command.", text="I run it.", calls=(Call(name, arguments),))
    return Turn(text="Nothing to run.")


def claude(home: Path, url: str, variant: bool) -> tuple[list[str], dict[str, str]]:
    variables = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_AUTH_TOKEN": "k",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "IS_SANDBOX": "1",
    }
    return ["-p", "Run it", "--allowedTools", "Bash"], variables


def codex(home: Path, url: str, sockets: bool) -> tuple[list[str], dict[str, str]]:
    fields = f'name="llmstream",base_url="{url}/v1",wire_api="responses"'
    if sockets:
        fields += ",supports_websockets=true"
    settings = [f"model_providers.llmstream={{{fields}}}", "model_provider=llmstream", "model=gpt-5"]
    arguments = ["exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox", "Run it"]
    return [*arguments, *(word for setting in settings for word in ("-c", setting))], {}


def gemini(home: Path, url: str, variant: bool) -> tuple[list[str], dict[str, str]]:
    (home / ".gemini").mkdir()
    settings = {"security": {"auth": {"selectedType": "gemini-api-key"}}}
    (home / ".gemini" / "settings.json").write_text(json.dumps(settings))
    arguments = ["--yolo", "--skip-trust", "-m", "gemini-2.5-pro", "-p", "Run it"]
    return arguments, {"GEMINI_API_KEY": "k", "GOOGLE_GEMINI_BASE_URL": url}


def opencode(home: Path, url: str, messages: bool) -> tuple[list[str], dict[str, str]]:
    provider = {
        "npm": "@ai-sdk/anthropic" if messages else "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "k"},
        "models": {"sim": {"tool_call": True}},
    }
    settings = {"provider": {"gateway": provider}, "permission": {"bash": "allow"}}
    (home / "opencode.json").write_text(json.dumps(settings))
    return ["run", "-m", "gateway/sim", "Run it"], {}


AGENTS = {"claude": claude, "codex": codex, "gemini": gemini, "opencode": opencode}
"""Of (home folder, address, whether it speaks its other protocol): arguments and variables."""


@asynccontextmanager
async def program(name: str, home: Path, url: str) -> AsyncIterator[asyncio.subprocess.Process]:
    command, _, variant = name.partition(" ")
    installed = Path(os.environ.get("LLMSTREAM_NODE_MODULES") or Path(__file__).parent / "node_modules")
    found = shutil.which(command, path=f"{installed / '.bin'}{os.pathsep}{os.environ['PATH']}")
    if found is None:
        pytest.skip(f"{command} is not installed; see tests/peers/README.md")
    arguments, settings = AGENTS[command](home, url, bool(variant))
    process = await asyncio.create_subprocess_exec(
        found,
        *arguments,
        env={**os.environ, "HOME": str(home), "PWD": str(home), **settings},
        cwd=home,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


# Every program with every vendor; CI has each of them once.
PROGRAMS = ("claude", "codex", "gemini", "opencode", "opencode anthropic")
PROGRAMS_AND_VENDORS = [
    pytest.param(name, vendor, marks=[pytest.mark.exhaustive] if program != place else [])
    for program, name in enumerate(PROGRAMS)
    for place, vendor in enumerate(VENDORS)
]


@pytest.mark.parametrize(("name", "vendor"), PROGRAMS_AND_VENDORS)
async def test_agents_run_a_tool_loop(name: str, vendor: str, tmp_path: Path) -> None:
    async with gateway_before(vendor, agents_script) as (url, simulator):
        async with program(name, tmp_path, url) as process, asyncio.timeout(120):
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        assert "through-42" in output.decode()
        # None had to ask again, as Claude Code does where a server refuses what it sends first.
        asked = [received.request for received in simulator.requests]
        # OpenCode asks for a title too, and offers no tools.
        assert len([request for request in asked if request and request.tools]) == 2
        assert len(asked) <= (3 if name.startswith("opencode") else 2)


@pytest.mark.parametrize("vendor", ["openai-responses", "anthropic"])
async def test_codex_over_sockets(vendor: str, tmp_path: Path) -> None:
    """They pass to a vendor that has them; before another it is refused, and goes on over HTTP."""
    async with gateway_before(vendor, agents_script) as (url, simulator):
        async with program("codex sockets", tmp_path, url) as process, asyncio.timeout(120):
            output, _ = await process.communicate()
        assert process.returncode == 0, output.decode()
        assert "through-42" in output.decode()
        methods = {received.http.method for received in simulator.requests if received.request}
        assert methods == {"WEBSOCKET" if vendor == "openai-responses" else "POST"}
