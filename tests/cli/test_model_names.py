"""What is meant by a model that is not written provider:model."""

from __future__ import annotations

import pytest

from llmstream.cli.model_names import checked_model, likely_models
from llmstream.errors import InvalidRequest


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("gpt-5", ["openai:gpt-5"]),
        ("o3", ["openai:o3"]),
        ("openai/gpt-5", ["openai:gpt-5"]),
        ("claude-sonnet-4-5", ["anthropic:claude-sonnet-4-5"]),
        ("anthropic/claude-sonnet-4-5", ["anthropic:claude-sonnet-4-5"]),
        ("gemini-2.5-pro", ["google:gemini-2.5-pro"]),
        ("models/gemini-2.5-pro", ["google:gemini-2.5-pro"]),
        ("mistral-large-latest", ["mistral:mistral-large-latest"]),
        ("grok-4", ["xai:grok-4"]),
        ("llama3.2", ["ollama:llama3.2"]),
        ("llama3.2:1b", ["ollama:llama3.2:1b"]),
        ("qwen3:8b", ["ollama:qwen3:8b"]),
        ("gpt-oss:20b", ["ollama:gpt-oss:20b"]),
        ("meta-llama/llama-4", ["openrouter:meta-llama/llama-4"]),
        ("opnai:m", ["openai:m"]),
        ("antropic:m", ["anthropic:m"]),
        ("openai", ["openai:MODEL"]),
        ("xyzzy", []),
        ("xyzzy:m", []),
        ("", []),
    ],
)
def test_a_model_is_guessed_from_its_family(written, meant):
    assert likely_models(written) == meant
    with pytest.raises(InvalidRequest) as raised:
        checked_model(written)
    assert all(f"Did you mean {model}?" in str(raised.value) for model in meant)
    assert bool(meant) == ("Did you mean" in str(raised.value))


@pytest.mark.parametrize("spec", ["openai:gpt-5", "gemini:gemini-2.5-pro", "ollama:llama3.2:1b", "sim:demo"])
def test_a_provider_and_a_model_are_fine(spec):
    assert checked_model(spec) == spec
