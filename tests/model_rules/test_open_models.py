"""Names of open models, as hosts write them, and the rules that are found."""

from __future__ import annotations

import pytest

from llmstream.model_rules.open_models import OPEN_MODELS, OpenModelRules

LOW_HIGH_MAX = ("low", "high", "max")


def rules(model: str) -> OpenModelRules:
    return OPEN_MODELS.find(model)


@pytest.mark.parametrize(
    ("model", "efforts"),
    [
        ("openai/gpt-oss-120b", ("low", "medium", "high")),
        ("accounts/fireworks/models/gpt-oss-20b", ("low", "medium", "high")),
        ("zai-org/GLM-5.3", LOW_HIGH_MAX),
        ("accounts/fireworks/models/glm-5p3", LOW_HIGH_MAX),
        ("zai-glm-5-3", LOW_HIGH_MAX),
        ("glm-5.3-flash", LOW_HIGH_MAX),
        ("glm-6", LOW_HIGH_MAX),
        ("moonshotai/Kimi-K3", LOW_HIGH_MAX),
        ("grok-4.5", ("low", "medium", "high")),
        ("x-ai/grok-4.7", ("low", "medium", "high", "xhigh")),
        ("grok-5", ("low", "medium", "high", "xhigh")),
        ("moonshotai/Kimi-K2-Thinking", ()),
        ("kimi-k2.7-code", ()),
        ("MiniMaxAI/MiniMax-M2.5", ()),
        ("deepseek-ai/DeepSeek-R1-Distill-Llama-70B", ()),
        ("Qwen/Qwen3-235B-A22B-Thinking-2507", ()),
        ("grok-4.20-reasoning", ()),
        ("grok-4-0709", ()),
    ],
)
def test_models_that_always_think(model: str, efforts: tuple[str, ...]) -> None:
    found = rules(model)
    assert (found.thinks, found.can_stop_thinking, found.efforts) == (True, False, efforts)


@pytest.mark.parametrize(
    ("model", "efforts", "switch"),
    [
        ("zai-org/GLM-4.6", (), "enable_thinking"),
        ("zai-glm-4.7", (), "enable_thinking"),
        ("glm-5", (), "enable_thinking"),
        ("glm-5-turbo", (), "enable_thinking"),
        ("glm-5p1", (), "enable_thinking"),
        ("zai-org/GLM-5.2", ("high", "max"), "enable_thinking"),
        ("deepseek-ai/DeepSeek-V3.1", (), "thinking"),
        ("deepseek-v3p2", (), "thinking"),
        ("deepseek-v4-pro", LOW_HIGH_MAX, "thinking"),
        ("deepseek-flash", LOW_HIGH_MAX, "thinking"),
        ("moonshotai/Kimi-K2.6", (), "thinking"),
        ("kimi-k2p5", (), "thinking"),
        ("MiniMax-M3", (), "thinking_mode"),
        ("Qwen/Qwen3-8B", (), "enable_thinking"),
        ("Qwen/Qwen3.6-27B", (), "enable_thinking"),
        ("qwen/qwen3.8-27b", ("low", "medium", "high"), "enable_thinking"),
        ("qwen-3.8-27b", ("low", "medium", "high"), "enable_thinking"),
        ("nvidia/nemotron-3-super", (), "enable_thinking"),
        ("ibm-granite/granite-3.2-8b-instruct", (), "thinking"),
        ("google/gemma-4-31b-it", (), "enable_thinking"),
    ],
)
def test_models_that_think_or_not(model: str, efforts: tuple[str, ...], switch: str) -> None:
    found = rules(model)
    assert (found.thinks, found.can_stop_thinking) == (True, True)
    assert (found.efforts, found.switch) == (efforts, switch)


@pytest.mark.parametrize(
    "model",
    [
        "deepseek-ai/DeepSeek-V3-0324",
        "kimi-k2-0905-preview",
        "moonshotai/Kimi-K2-Instruct",
        "moonshotai/kimi-k2",
        "glm-4-32b-0414",
        "Qwen/Qwen2.5-72B-Instruct",
        "Qwen/Qwen3-Coder-480B-A35B-Instruct",
        "meta-llama/Llama-3.3-70B-Instruct",
        "google/gemma-3-27b-it",
        "grok-4-1-fast-non-reasoning",
    ],
)
def test_models_that_only_answer(model: str) -> None:
    assert rules(model).thinks is False


def test_of_another_model_nothing_is_known() -> None:
    found = rules("some-model")
    assert (found.thinks, found.can_stop_thinking, found.efforts) == (True, True, None)


def test_every_row_has_a_date_and_a_source() -> None:
    assert all(row.seen and row.source for row in OPEN_MODELS.rows)
