"""The tables of model rules: what they say of names old, new and unknown; each row can be checked."""

from __future__ import annotations

import re

import pytest

from llmstream.model_rules import ORDER, Row, Table, nearest_effort
from llmstream.model_rules.claude import CLAUDE
from llmstream.model_rules.gemini import GEMINI
from llmstream.model_rules.gpt import GPT
from llmstream.model_rules.mistral import MISTRAL
from llmstream.model_rules.open_models import OPEN_MODELS

TABLES = {"claude": CLAUDE, "gemini": GEMINI, "gpt": GPT, "mistral": MISTRAL, "open": OPEN_MODELS}
ROWS = [pytest.param(row, id=f"{name}-{row.models}") for name, table in TABLES.items() for row in table.rows]


@pytest.mark.parametrize("row", ROWS)
def test_each_row_is_dated_and_has_a_source(row):
    assert re.fullmatch(r"20\d\d-(0[1-9]|1[0-2])", row.seen)
    assert len(row.source) > 5
    efforts = getattr(row.rules, "efforts", None) or getattr(row.rules, "levels", ())
    assert list(efforts) == sorted(efforts, key=ORDER.index)


@pytest.mark.parametrize(
    ("model", "thinking", "off", "forced", "sampling"),
    [
        ("claude-fable-5", "adaptive", "never", True, False),
        ("claude-fable-5-1", "adaptive", "never", False, False),
        ("claude-mythos-5-2", "adaptive", "never", False, False),
        ("claude-mythos-preview", "adaptive", "never", True, False),
        ("claude-opus-5-5", "adaptive", "never", False, False),
        ("us.anthropic.claude-opus-5-5-v1:0", "adaptive", "never", False, False),
        ("claude-sonnet-5-5", "adaptive", "between_tools", False, False),
        ("claude-haiku-5-5", "adaptive", "disabled", True, False),
        ("claude-opus-5", "adaptive", "disabled", True, False),
        ("claude-opus-5-20260701", "adaptive", "disabled", True, False),
        ("claude-sonnet-5", "adaptive", "disabled", True, False),
        ("claude-opus-4-7", "adaptive", "disabled", True, False),
        ("claude-sonnet-4-6", "either", "disabled", True, True),
        ("anthropic/claude-sonnet-4.6", "either", "disabled", True, True),
        ("claude-haiku-4-5-20251001", "budget", "disabled", True, True),
        ("claude-sonnet-4@20250514", "budget", "disabled", True, True),
        ("claude-3.7-sonnet", "budget", "disabled", True, True),
        ("claude-3-5-sonnet-20241022", "none", "disabled", True, True),
        ("anthropic.claude-v2:1", "none", "disabled", True, True),
        ("claude-opus-7", "adaptive", "never", False, False),
        ("claude-sonnet-6", "adaptive", "between_tools", False, False),
        ("claude-zephyr-1", "adaptive", "never", False, False),
        ("a-gateways-alias", "budget", "disabled", True, True),
    ],
)
def test_claude(model, thinking, off, forced, sampling):
    rules = CLAUDE.find(model)
    assert (rules.thinking, rules.off, rules.forced_tools, rules.sampling) == (
        thinking,
        off,
        forced,
        sampling,
    )


@pytest.mark.parametrize(
    ("model", "schemas", "prefix"),
    [
        ("claude-3-7-sonnet", False, True),
        ("claude-opus-4-20250514", False, True),
        ("claude-opus-4-1", True, True),
        ("claude-sonnet-4-5", True, True),
        ("claude-sonnet-4-6", True, False),
        ("claude-opus-5-5", True, False),
        ("an-alias", True, False),
    ],
)
def test_claude_schemas_and_prefixes(model, schemas, prefix):
    assert (CLAUDE.find(model).schemas, CLAUDE.find(model).prefix) == (schemas, prefix)


NO_MAX = "none low medium high xhigh"


@pytest.mark.parametrize(
    ("model", "efforts", "sampling", "chat_tools"),
    [
        ("gpt-6-astra", "low medium high xhigh max", "never", "never"),
        ("gpt-6.1-sol", "low medium high xhigh max", "never", "never"),
        ("gpt-6.2-astra-law", "low medium high xhigh max", "never", "never"),
        ("gpt-6-sol", f"{NO_MAX} max", "at-none", "at-none"),
        ("gpt-6.1-terra", f"{NO_MAX} max", "at-none", "at-none"),
        ("gpt-5.6-luna", f"{NO_MAX} max", "at-none", "at-none"),
        ("gpt-5.5", NO_MAX, "at-none", "at-none"),
        ("gpt-5.4-mini", NO_MAX, "at-none", "without-effort"),
        ("gpt-5.2", NO_MAX, "at-none", "always"),
        ("gpt-5.4-pro", "medium high xhigh", "never", "never"),
        ("gpt-5.1", "none low medium high", "at-none", "always"),
        ("gpt-5.3-chat-latest", "medium", "never", "always"),
        ("gpt-5-chat-latest", "", "always", "always"),
        ("openai/gpt-5-mini-2025-08-07", "minimal low medium high", "never", "always"),
        ("gpt-5-pro", "high", "never", "always"),
        ("gpt-5.10", f"{NO_MAX} max", "at-none", "at-none"),
        ("gpt-9-word", "low medium high xhigh max", "never", "never"),
        ("o4-mini-2025-04-16", "low medium high", "never", "always"),
        ("ft:gpt-4.1-2025-04-14:acme", "", "always", "always"),
        ("gpt-4o-search-preview", "", "never", "always"),
        ("gpt-oss-120b", None, "always", "always"),
        ("llama-o3", None, "always", "always"),
    ],
)
def test_gpt(model, efforts, sampling, chat_tools):
    rules = GPT.find(model)
    assert rules.efforts == (None if efforts is None else tuple(efforts.split()))
    assert (rules.sampling, rules.chat_tools) == (sampling, chat_tools)
    assert "max" not in (rules.chat_efforts or ())


@pytest.mark.parametrize("model", ["gpt-5-pro", "gpt-5-codex", "gpt-5.3-codex", "o1-pro", "o3-deep-research"])
def test_models_outside_chat_completions(model):
    assert not GPT.find(model).chat


@pytest.mark.parametrize(
    ("model", "levels", "sampling"),
    [
        ("gemini-3-pro-preview", "low high", True),
        ("gemini-3.1-pro-preview", "low medium high", True),
        ("gemini-3.1-flash-lite-image", "minimal high", True),
        ("gemini-3.5-flash", "minimal low medium high", True),
        ("gemini-3.6-flash", "minimal low medium high", False),
        ("gemini-3.7-flash", "low medium high", False),
        ("models/gemini-3.8-flash", "low medium high", False),
        ("gemini-flash-latest", "low medium high", False),
        ("gemini-flash-lite-latest", "minimal low medium high", False),
        ("gemini-4-argon", "low medium high", False),
        ("gemini-4-hydrogen", "low medium high xhigh", False),
        ("gemini-omni-1.2-flash", "low medium high", False),
        ("gemini-nano-banana-2.1", "low medium high", False),
    ],
)
def test_gemini(model, levels, sampling):
    rules = GEMINI.find(model)
    assert (rules.thinking, rules.levels, rules.sampling) == ("level", tuple(levels.split()), sampling)


@pytest.mark.parametrize(
    ("effort", "known", "nearest"),
    [
        ("none", "low high", "low"),
        ("medium", "low high", "high"),
        ("max", "low high", "high"),
        ("low", "low", "low"),
    ],
)
def test_effort_becomes_the_next_known_one(effort, known, nearest):
    assert nearest_effort(effort, tuple(known.split())) == nearest


def test_first_match_wins_cache_is_bounded():
    table = Table(Row("a-1", 1, "2026-11", "x"), Row("a", 2, "2026-11", "x"), unknown=0)
    assert [table.find(name) for name in ("A-1", "a-2", "b")] == [1, 2, 0]
    for number in range(3000):
        assert table.find(f"a-2-{number}") == 2
    assert len(table._found) <= 1024
