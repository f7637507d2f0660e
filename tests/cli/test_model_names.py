"""What is meant by a model that is not written provider:model."""

from __future__ import annotations

import pytest

from llmstream.cli.config import checked_model
from llmstream.errors import InvalidRequest
from llmstream.providers.likely_models import likely_models
from llmstream.streams import Model


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


@pytest.mark.parametrize(
    "written", ["gpt-5", "openai/gpt-5", "gemini/gemini-2.5-pro", "llama3.2:1b", "opnai:m"]
)
def test_library_suggests_the_same_models(written):
    (meant,) = likely_models(written)
    with pytest.raises(InvalidRequest, match=f"Did you mean '?{meant}"):
        Model(written)


@pytest.mark.parametrize("written", ["You are a helpful assistant.", "x" * 500, "", 5])
def test_no_model_is_guessed_from_a_prompt(written):
    with pytest.raises(InvalidRequest, match='a model has the form "provider:model"') as raised:
        Model(written)
    assert "Did you mean" not in str(raised.value)


@pytest.mark.parametrize("name", ["model", "model_name"])
def test_model_by_a_keyword_is_refused(name):
    with pytest.raises(InvalidRequest, match=rf'write ls.Model\("provider:model"\), without {name}='):
        Model(**{name: "openai:gpt-5"})


@pytest.mark.parametrize("spec", ["openai:gpt-5", "gemini:gemini-2.5-pro", "ollama:llama3.2:1b", "sim:demo"])
def test_a_provider_and_a_model_are_fine(spec):
    assert checked_model(spec) == spec
