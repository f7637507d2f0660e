"""Suggests the intended option for an unknown one: a typing error, or another SDK's name."""

from __future__ import annotations

import difflib
from collections.abc import Collection
from typing import Final

__all__ = ["agent_hint", "hint_for", "listed"]

_OF_THE_MODEL: Final = (
    "Model(..., {}=...) takes it: an address, a key or a session belongs to the model, not to one call."
)
_OF_ONE_VENDOR: Final = "Only some vendors know it: provider_options={{'PROVIDER': {{'{}': ...}}}}."

# Our options by their names in other SDKs: OpenAI, Anthropic, google-genai, Ollama, LangChain, LiteLLM,
# pydantic-ai, instructor and Vercel's SDK, read 2026-11.
_FOREIGN: Final = {
    "max_output_tokens=": (
        *("max_tokens", "max_completion_tokens", "max_new_tokens", "max_tokens_to_sample"),
        *("num_predict", "maxOutputTokens", "maxTokens"),
    ),
    "deadlines=ls.Deadlines(total_s=...)": (
        *("timeout", "timeout_s", "request_timeout", "total_timeout", "stream_timeout"),
    ),
    "retry=ls.Retry(max_retries=...)": ("max_retries", "retries", "num_retries", "maxRetries"),
    "stop=": ("stop_sequences", "stop_sequence", "stopSequences"),
    "instructions=": ("system", "system_prompt", "system_message", "system_instruction", "developer"),
    "output=": (
        *(
            "response_format",
            "response_model",
            "response_schema",
            "result_type",
            "output_type",
            "output_format",
        ),
        *("text_format", "json_schema", "schema", "format", "output_schema"),
    ),
    "reasoning=": (
        *("reasoning_effort", "effort", "thinking", "thinking_budget", "thinking_config", "think"),
        *("reasoning_tokens", "budget_tokens"),
    ),
    "tools=": ("functions", "toolsets", "tool_functions"),
    "tool_choice=": ("function_call", "tool_config", "toolChoice"),
    "headers=": ("extra_headers", "default_headers"),
    "provider_options={'PROVIDER': {...}}": ("extra_body", "extra_query", "body", "model_kwargs", "extra"),
    "settings=": ("model_settings", "generation_config", "sampling", "config"),
    "parallel_tool_calls=": ("disable_parallel_tool_use", "parallelToolCalls"),
    "background=True": ("resume",),
    "observe=": ("callbacks", "callback", "hooks", "on_event"),
    "errors=": ("raise_errors", "raise_on_error"),
}

# The same for options that only an agent has: pydantic-ai, openai-agents, LangGraph, smolagents and Vercel's
# SDK.
_AGENT_ONLY: Final = {
    "max_steps=": ("max_turns", "max_iterations", "max_iter", "max_loops", "recursion_limit", "maxSteps"),
    "instructions=": (
        "system",
        "system_prompt",
        "system_message",
        "system_instruction",
        "developer",
        "prompt",
    ),
    "deps=": ("context", "dependencies", "deps_type", "state", "app", "run_context"),
    "tool_timeout_s=": ("tool_timeout", "tool_timeout_seconds"),
    "context_effects=": ("history_processors", "memory", "compaction", "trim_messages"),
    "stop_when=": ("stop_condition", "termination_condition", "usage_limits", "stopWhen"),
    "prepare_step=": ("prepareStep", "pre_model_hook"),
    "approve=": ("human_in_the_loop", "on_approval", "interrupt_before"),
    "empty_retries=": ("output_retries", "result_retries"),
    "hooks=": ("guardrails", "input_guardrails", "output_guardrails", "middleware", "callbacks"),
}

_BY_NAME: Final = {name: ours for ours, names in _FOREIGN.items() for name in names}

_MODELS_OWN: Final = frozenset(
    {"api_key", "base_url", "session", "provider", "limits", "downloads", "limiter", "http_client"}
)
_VENDORS_OWN: Final = frozenset(
    {
        *(
            "n",
            "logprobs",
            "top_logprobs",
            "logit_bias",
            "user",
            "metadata",
            "store",
            "service_tier",
            "min_p",
        ),
        *(
            "safety_settings",
            "safety_identifier",
            "prompt_cache_key",
            "cache_control",
            "verbosity",
            "keep_alive",
        ),
        *("repetition_penalty", "truncation", "previous_response_id", "include", "modalities", "audio"),
    }
)
_CONVERSATION: Final = frozenset({"messages", "prompt", "input", "contents", "question", "query"})


def hint_for(name: str, known: Collection[str]) -> str:
    """A hint for an unknown option: its name here, or a similar one; "" without any."""
    if name in _BY_NAME:
        return f"Did you mean {_BY_NAME[name]}?"
    if name in _MODELS_OWN:
        return _OF_THE_MODEL.format("session" if name == "http_client" else name)
    if name in _VENDORS_OWN:
        return _OF_ONE_VENDOR.format(name)
    if name in _CONVERSATION:
        return "The conversation is the prompt, without a name: stream(model, messages)."
    if name in ("stream", "stream_options", "streaming"):
        return (
            "Leave it out: every answer is a stream; `await stream.collect()` returns the complete message."
        )
    close = difflib.get_close_matches(name, known, n=1)
    return f"Did you mean {close[0]}=?" if close else ""


def listed(known: Collection[str]) -> str:
    """All options, listed for a name without a hint."""
    return (
        f"Options: {', '.join(sorted(known))}. Pass options of a single vendor in provider_options, as "
        "provider_options={'PROVIDER': {...}}."
    )


def agent_hint(name: str, known: Collection[str]) -> str:
    """A hint for an unknown option of an agent, which has more options than a stream."""
    ours = next((ours for ours, names in _AGENT_ONLY.items() if name in names), None)
    return f"Did you mean {ours}?" if ours else hint_for(name, known)
