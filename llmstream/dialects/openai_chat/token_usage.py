"""Token counts of a Chat Completions answer, in every place and under every name they have.

`prompt_tokens` includes cached tokens and `completion_tokens` includes reasoning, except where
the counts themselves say otherwise: xAI's total is the sum of prompt, completion and reasoning.
"""

from __future__ import annotations

from typing import Any

from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.usage import Usage

__all__ = ["read_usage", "write_usage"]


def read_usage(raw: dict[str, Any], quirks: Quirks) -> Usage:
    """Counts from a usage object; what it does not say is None."""
    given, made = _details(raw, "prompt"), _details(raw, "completion")
    prompt = _count(raw, "prompt_tokens", "input_tokens")
    completion = _count(raw, "completion_tokens", "output_tokens")
    total = _count(raw, "total_tokens")
    reasoning = _first(_count(made, "reasoning_tokens"), _count(raw, "reasoning_tokens"))
    cached = _first(
        _count(given, "cached_tokens"),
        _count(raw, "cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"),
    )
    written = _first(
        _count(given, "cache_write_tokens", "cache_creation_tokens", "cache_creation_input_tokens"),
        _count(raw, "cache_creation_input_tokens"),
    )
    if completion is not None and reasoning:
        beside = quirks.output_may_exclude_reasoning and reasoning > completion
        if beside or quirks.output_excludes_reasoning or _leaves_out(prompt, completion, reasoning, total):
            completion += reasoning
        if beside and total is not None:
            total += reasoning
    if quirks.input_may_exclude_cached and prompt is not None and cached and cached > prompt:
        prompt += cached
    if total is None and prompt is not None and completion is not None:
        total = prompt + completion
    return Usage(prompt, completion, total, reasoning, cached, written, raw)


def write_usage(usage: Usage, quirks: Quirks) -> dict[str, Any]:
    """The usage object that says these counts; 0 where the wire wants a number."""
    prompt, completion = usage.input_tokens or 0, usage.output_tokens or 0
    total = usage.total_tokens if usage.total_tokens is not None else prompt + completion
    if quirks.output_excludes_reasoning:
        completion = max(0, completion - (usage.reasoning_tokens or 0))
    raw: dict[str, Any] = {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": total}
    given: dict[str, int] = {}
    if usage.cached_input_tokens is not None:
        given["cached_tokens"] = usage.cached_input_tokens
    if usage.cache_write_tokens is not None:
        given["cache_write_tokens"] = usage.cache_write_tokens
    if given:
        raw["prompt_tokens_details"] = given
    if usage.reasoning_tokens is not None:
        raw["completion_tokens_details"] = {"reasoning_tokens": usage.reasoning_tokens}
    return raw


def _leaves_out(prompt: int | None, completion: int, reasoning: int, total: int | None) -> bool:
    return total is not None and prompt is not None and total == prompt + completion + reasoning


def _details(raw: dict[str, Any], side: str) -> dict[str, Any]:
    for name in (f"{side}_tokens_details", f"{side}_token_details"):
        if isinstance(raw.get(name), dict):
            details: dict[str, Any] = raw[name]
            return details
    return {}


def _count(raw: dict[str, Any], *names: str) -> int | None:
    for name in names:
        value = raw.get(name)
        if type(value) is int:
            return value
        if isinstance(value, float) and value == value // 1:
            return int(value)
    return None


def _first(a: int | None, b: int | None) -> int | None:
    return b if a is None else a
