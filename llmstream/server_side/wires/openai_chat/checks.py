"""What OpenAI's models refuse in Chat Completions, with the vendor's messages."""

from __future__ import annotations

from typing import Any, Final

from llmstream.dialects.openai_chat.quirks import Quirks
from llmstream.errors import NotFound
from llmstream.model_rules.gpt import GPT, GPTRules
from llmstream.server_side.wires.errors import check_effort
from llmstream.server_side.wires.errors import openai_refusal as refused

__all__ = ["check_model"]


_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def check_model(body: dict[str, Any], model: str, quirks: Quirks) -> None:
    """Efforts, settings and tools that the model does not take here.

    body:   without model and messages, as the client sent it
    raises: BadRequest; NotFound for a model that is not served here
    """
    rules = GPT.find(model)
    if quirks.wire_rules and not rules.chat:
        raise NotFound(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Use "
            "v1/responses instead.",
            status=404,
        )
    effort = body.get("reasoning_effort")
    if isinstance(effort, str):
        check_effort("reasoning_effort", effort, rules.chat_efforts)
    if rules.reasons and body.get("max_tokens") is not None:
        raise refused(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "unsupported_parameter",
            "max_tokens",
        )
    _check_settings(body, rules, effort)
    tools = body.get("tools")
    functions = isinstance(tools, list) and any(isinstance(t, dict) and "function" in t for t in tools)
    if quirks.wire_rules and functions and not _takes_tools(rules, effort):
        raise refused(
            f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To "
            "use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            None,
            "reasoning_effort",
        )


def _check_settings(body: dict[str, Any], rules: GPTRules, effort: object) -> None:
    samples = rules.sampling == "always" or (rules.sampling == "at-none" and effort == "none")
    barred = [] if samples else [name for name in _SAMPLING if body.get(name) is not None]
    if not rules.stop and body.get("stop") is not None:
        barred.append("stop")
    for name in barred:
        raise refused(
            f"Unsupported parameter: '{name}' is not supported with this model.",
            "unsupported_parameter",
            name,
        )


def _takes_tools(rules: GPTRules, effort: object) -> bool:
    if rules.chat_tools == "without-effort":
        return effort in (None, "none")
    return rules.chat_tools == "always" or (rules.chat_tools == "at-none" and effort == "none")
