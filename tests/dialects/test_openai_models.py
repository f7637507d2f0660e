"""Names of OpenAI's models."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_models import is_reasoning_model, samples_without_reasoning


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
