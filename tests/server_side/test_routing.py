"""Which server side a request belongs to, and whether it is for a stream."""

from __future__ import annotations

import pytest

from llmstream.dialects.anthropic import BEDROCK_INVOKE, Anthropic
from llmstream.dialects.ollama import Ollama
from llmstream.exchange import HttpRequest
from llmstream.server_side.routing import Router, as_streamed, default_dialects, is_complete_requested
from llmstream.server_side.wires import server_side

ROUTER = Router([server_side(dialect) for dialect in default_dialects()])


@pytest.mark.parametrize(
    ("url", "name"),
    [
        ("/v1/chat/completions", "openai-chat"),
        ("/mistral/v1/chat/completions", "mistral"),
        ("/v1/responses", "openai-responses"),
        ("/v1/messages", "anthropic"),
        ("/v1beta/models/m:streamGenerateContent?alt=sse", "gemini"),
        ("/v1beta/models/m:generateContent", "gemini"),
        ("/v1beta/interactions", "gemini-interactions"),
        ("/model/m/converse-stream", "bedrock-converse"),
        ("/model/m/converse", "bedrock-converse"),
        ("/model/m/invoke", "anthropic"),
        ("/v2/chat", "cohere"),
        ("/api/chat", "ollama"),
    ],
)
def test_path_names_the_dialect(url: str, name: str) -> None:
    side = ROUTER.find(HttpRequest(url, b"{}"))
    assert side is not None
    assert side.name == name


def test_unknown_path_has_no_side() -> None:
    assert ROUTER.find(HttpRequest("/v1/nothing", b"{}")) is None


@pytest.mark.parametrize(
    ("url", "headers", "name"),
    [
        ("/v1/nothing", {}, "openai-chat"),
        ("/v1/nothing", {"anthropic-version": "2023-06-01"}, "anthropic"),
        ("/v1/nothing", {"x-goog-api-key": "k"}, "gemini"),
        ("/v1beta/nothing", {}, "gemini"),
        ("/api/nothing", {}, "ollama"),
        ("/model/m/nothing", {}, "bedrock-converse"),
        ("/nothing/m:rawPredict", {}, "anthropic"),
    ],
)
def test_errors_have_the_likely_form(url: str, headers: dict[str, str], name: str) -> None:
    assert ROUTER.guess(HttpRequest(url, b"{}", headers)).name == name


def test_guess_without_the_likely_side() -> None:
    only = server_side(Ollama())
    assert Router([only]).guess(HttpRequest("/v1/nothing", b"{}")) is only


def test_defaults_are_the_vendors() -> None:
    claude, ollama = server_side(Anthropic()), server_side(Ollama())
    assert is_complete_requested(claude, HttpRequest("/v1/messages", b"{}"))
    assert not is_complete_requested(claude, HttpRequest("/v1/messages", b'{"stream":true}'))
    assert not is_complete_requested(ollama, HttpRequest("/api/chat", b"{}"))
    assert is_complete_requested(ollama, HttpRequest("/api/chat", b'{"stream":false}'))


def test_bad_json_is_no_complete_request() -> None:
    assert not is_complete_requested(server_side(Anthropic()), HttpRequest("/v1/messages", b"{"))


def test_cloud_path_asks_for_a_stream() -> None:
    streamed = HttpRequest("/model/m/invoke-with-response-stream", b"{}")
    assert not is_complete_requested(server_side(BEDROCK_INVOKE), streamed)
    assert as_streamed(streamed) is None
    assert as_streamed(HttpRequest("/model/m/invoke?a=1", b"{}")) == HttpRequest(streamed.url + "?a=1", b"{}")
