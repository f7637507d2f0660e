from __future__ import annotations

import pytest

from llmstream.errors import AuthenticationError
from llmstream.providers.base import Provider
from llmstream.providers.ollama import OLLAMA
from llmstream.providers.ollama.host import ollama_address
from llmstream.providers.ollama_openai import OLLAMA_OPENAI


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("http://0.0.0.0:8080", "http://127.0.0.1:8080"),
        ("127.0.0.1", "http://127.0.0.1:11434"),
        ("host:1234", "http://host:1234"),
        ("host", "http://host:11434"),
        (":11434", "http://127.0.0.1:11434"),
        (":56789", "http://127.0.0.1:56789"),
        ("host:", "http://host:11434"),
        ("host/", "http://host:11434"),
        (" host:1 ", "http://host:1"),
        ("http://host", "http://host"),
        ("https://host", "https://host"),
        ("https://host:1", "https://host:1"),
        ("https://host/ollama/", "https://host/ollama"),
        ("http://localhost:11434/api", "http://localhost:11434"),
        ("https://host/ollama/api", "https://host/ollama"),
        ("[::]", "http://[::1]:11434"),
        ("[::1]:1234", "http://[::1]:1234"),
        ("::1", "http://[::1]:11434"),
        ("ollama.com", "https://ollama.com"),
        ("https://ollama.com", "https://ollama.com"),
    ],
)
def test_host_is_read_as_the_daemon_reads_it(written: str, address: str) -> None:
    assert ollama_address(written) == address
    assert OLLAMA.address(None, {"OLLAMA_HOST": written}) == address
    assert OLLAMA.address(written, {"OLLAMA_HOST": "other"}) == address


def test_chat_completions_address_accepted() -> None:
    assert OLLAMA.address("http://localhost:11434/v1/") == "http://localhost:11434"


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("host:1234", "http://host:1234/v1"),
        ("http://host:1234/v1", "http://host:1234/v1"),
        ("http://host:1234/v1/", "http://host:1234/v1"),
        ("https://ollama.com", "https://ollama.com/v1"),
    ],
)
def test_chat_completions_are_below_v1(written: str, address: str) -> None:
    assert OLLAMA_OPENAI.address(None, {"OLLAMA_HOST": written}) == address


@pytest.mark.parametrize("provider", [OLLAMA, OLLAMA_OPENAI], ids=lambda p: p.name)
def test_the_clouds_refusal_names_the_key(provider: Provider) -> None:
    error = provider.decode_error(401, {}, b'{"error": "unauthorized"}')
    assert isinstance(error, AuthenticationError)
    assert "Check OLLAMA_API_KEY" in str(error)
