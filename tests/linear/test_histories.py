"""What is done with a long conversation costs as much for its last message as for its first."""

from __future__ import annotations

import msgspec
import pytest
from stepcount.histories import HISTORIES
from stepcount.steps import GROWTH, assert_linear, steps_of

from llmstream.agent.history import open_calls, settled
from llmstream.chats.message import copy_messages
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.providers.registry import find_provider
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.streams.history import Repairs, repaired

N = 100
PROVIDERS = {
    "openai": "m",
    "openrouter": "m",
    "openai-responses": "m",
    "anthropic": "claude-sonnet-4-5",
    "bedrock": "anthropic.claude-sonnet-4-5-v1:0",
    "google": "gemini-2.5-pro",
    "google-interactions": "gemini-2.5-pro",
    "mistral": "m",
    "cohere": "m",
    "ollama": "m",
}


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("provider", PROVIDERS)
def test_an_encoder_of_a_long_history(provider, name):
    dialect = find_provider(provider).dialect

    def encoding(n):
        request = Request(model=PROVIDERS[provider], messages=tuple(repaired(HISTORIES[name](n))[0]))

        def work():
            try:
                dialect.encode(request, provider=provider)
            except LLMStreamError as error:  # of a part that the vendor takes nowhere
                msgspec.json.encode(str(error))

        return work

    assert_linear(encoding, N)


@pytest.mark.parametrize("name", ["steps", "calls at once", "results one by one", "parts", "signed steps"])
@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_reader_of_a_long_request(provider, name):
    dialect = find_provider(provider).dialect

    def reading(n):
        request = Request(model=PROVIDERS[provider], messages=tuple(repaired(HISTORIES[name](n))[0]))
        http = dialect.encode(request, provider=provider).http
        return lambda: server_side(dialect).decode_request(http)

    assert_linear(reading, N)


GEMINI_CONTENTS = {
    "an answer in chunks": lambda i: [{"role": "model", "parts": [{"text": "x"}]}],
    "calls in chunks": lambda i: [{"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}]}],
    "answers of the vendor's tools": lambda i: [
        {"role": "model", "parts": [{"executableCode": {"code": "1"}}]},
        {"role": "model", "parts": [{"codeExecutionResult": {"outcome": "OUTCOME_OK"}}]},
    ],
    "questions": lambda i: [{"role": "user", "parts": [{"text": "x"}]}],
}


@pytest.mark.parametrize("name", GEMINI_CONTENTS)
def test_a_reader_of_many_gemini_contents(name):
    """Clients send an answer back chunk by chunk, each as a content of its own."""
    dialect = find_provider("google").dialect

    def reading(n):
        said = [content for i in range(n) for content in GEMINI_CONTENTS[name](i)]
        results = [{"functionResponse": {"name": "f", "response": {}}}] * n if "calls" in name else []
        last = {"role": "user", "parts": [*results, {"text": "And?"}]}
        body = msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "?"}]}, *said, last]})
        http = HttpRequest("/v1beta/models/gemini-2.0-flash:streamGenerateContent", body)
        return lambda: server_side(dialect).decode_request(http)

    assert_linear(reading, 4 * N)


def test_a_reader_of_many_gemini_functions():
    dialect = find_provider("google").dialect

    def reading(n):
        tools = [{"functionDeclarations": [{"name": f"f{i}"} for i in range(n)]}]
        body = msgspec.json.encode({"contents": [{"role": "user", "parts": [{"text": "?"}]}], "tools": tools})
        http = HttpRequest("/v1beta/models/gemini-2.0-flash:streamGenerateContent", body)
        return lambda: server_side(dialect).decode_request(http)

    assert_linear(reading, N)


@pytest.mark.parametrize("name", HISTORIES)
@pytest.mark.parametrize("use", [repaired, settled, open_calls, copy_messages])
def test_a_use_of_a_long_history(use, name):
    assert_linear(lambda n: (lambda messages: lambda: use(messages))(HISTORIES[name](n)), N)


@pytest.mark.parametrize("name", ["steps", "steps of one id", "turns", "signed steps"])
def test_repair_each_turn_of_growing_history(name):
    """Messages of before are compared in C, and not looked at."""

    def growing(n):
        messages = HISTORIES[name](n)

        def work():
            repairs = Repairs()
            for turn in range(1, len(messages), 2):
                repairs.repair(messages[: turn + 2])

        return work

    early, late = (steps_of(growing(n)).lines for n in (N, 2 * N))
    assert late <= GROWTH * early
