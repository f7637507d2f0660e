"""What a model of Google's can do, told by its name."""

from __future__ import annotations

import pytest

from llmstream.dialects.google import thinking_level
from llmstream.model_rules.gemini import GEMINI
from llmstream.request import ReasoningOptions


@pytest.mark.parametrize(
    ("model", "thinking", "signs", "mixes"),
    [
        ("gemini-1.5-pro", "none", False, False),
        ("gemini-2.0-flash-001", "none", False, False),
        ("models/gemini-2.5-flash", "budget", False, False),
        ("gemini-2.5-flash-image", "none", False, False),
        ("gemini-3-pro-preview", "level", True, True),
        ("publishers/google/models/gemini-3.1-flash-lite", "level", True, True),
        ("gemini-flash-latest", "level", True, True),
        ("gemini-4-pro", "level", True, True),
        ("gemma-3-27b-it", "none", False, False),
        ("tunedModels/mine", "budget", False, None),
    ],
)
def test_models(model, thinking, signs, mixes):
    rules = GEMINI.find(model)
    assert (rules.thinking, rules.signs_calls, rules.mixes_tools) == (thinking, signs, mixes)


@pytest.mark.parametrize(
    ("model", "levels"),
    [
        ("gemini-3-flash", ["minimal", "minimal", "low", "medium", "high", "high"]),
        ("gemini-3.1-pro", ["low", "low", "low", "medium", "high", "high"]),
        ("gemini-3-pro", ["low", "low", "low", "high", "high", "high"]),
    ],
)
def test_levels(model, levels):
    efforts = ("none", "minimal", "low", "medium", "high", "max")
    assert [thinking_level(ReasoningOptions(effort=e), GEMINI.find(model), []) for e in efforts] == levels
