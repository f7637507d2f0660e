"""Names of OpenAI's models."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_models import (
    is_reasoning_model,
    known_efforts,
    nearest_effort,
    samples_without_reasoning,
)


@pytest.mark.parametrize(
    ("model", "reasons", "samples"),
    [
        ("gpt-4.1", False, False),
        ("gpt-4o-mini", False, False),
        ("o3", True, False),
        ("o4-mini-2025-04-16", True, False),
        ("gpt-5", True, False),
        ("gpt-5-chat-latest", False, False),
        ("gpt-5.4-mini", True, True),
        ("openai/gpt-5.1", True, True),
        ("gpt-10", True, True),
        ("grok-4", False, False),
        ("llama-o3", False, False),
    ],
)
def test_names_say_what_a_model_takes(model, reasons, samples):
    assert (is_reasoning_model(model), samples_without_reasoning(model)) == (reasons, samples)


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("gpt-4.1", ""),
        ("gpt-4o-mini", ""),
        ("gpt-5-chat-latest", ""),
        ("gpt-5.1-chat-latest", ""),
        ("o4-mini", "low medium high"),
        ("openai/o3", "low medium high"),
        ("gpt-5", "minimal low medium high"),
        ("gpt-5-mini-2025-08-07", "minimal low medium high"),
        ("gpt-5-pro", "high"),
        ("gpt-5.1", "none low medium high"),
        ("gpt-5.1-codex-max", "none medium high xhigh"),
        ("gpt-5.2", "none low medium high xhigh"),
        ("gpt-oss-120b", None),
        ("llama-3", None),
    ],
)
def test_the_efforts_of_a_model(model, efforts):
    assert known_efforts(model) == (None if efforts is None else tuple(efforts.split()))


@pytest.mark.parametrize(
    ("effort", "known", "nearest"),
    [
        ("none", "low high", "low"),
        ("medium", "low high", "high"),
        ("max", "low high", "high"),
        ("low", "low", "low"),
    ],
)
def test_an_effort_becomes_the_next_that_is_known(effort, known, nearest):
    assert nearest_effort(effort, tuple(known.split())) == nearest
