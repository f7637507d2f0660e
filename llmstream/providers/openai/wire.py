"""Which of OpenAI's two wires a request needs, where its caller named none."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final
from urllib.parse import urlsplit

from llmstream.chats.content import Audio
from llmstream.dialects.base import Dialect
from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.model_rules.gpt import GPT
from llmstream.providers.base import Wire
from llmstream.request import Request, ToolSpec

__all__ = ["openai_wire", "other_wire", "responses"]

# Fields of Chat Completions that Responses refuses: an option with such a name asks for that wire.
_CHAT_ONLY: Final = frozenset(
    {
        "audio",
        "frequency_penalty",
        "function_call",
        "functions",
        "logit_bias",
        "logprobs",
        "max_completion_tokens",
        "max_tokens",
        "messages",
        "modalities",
        "n",
        "prediction",
        "presence_penalty",
        "reasoning_effort",
        "response_format",
        "seed",
        "stop",
        "stream_options",
        "verbosity",
        "web_search_options",
    }
)

_OTHER_SERVER: Final = OpenAIChat(Quirks(wire_rules=False))


def openai_wire(request: Request, address: Callable[[], str]) -> Wire | None:
    """Responses where OpenAI serves the request only there; other servers' rules are their own."""
    return other_wire(request, lambda: _is_openai(address()), provider="openai")


def other_wire(request: Request, official: Callable[[], bool], *, provider: str) -> Wire | None:
    """The wire of a request that Chat Completions would not take, or not with its effort.

    official: whether the vendor itself is asked, and serves Responses there
    """
    why = _why_responses(request)
    if why is None:
        return None
    # Another server may serve Chat Completions only, by rules of its own.
    if not official():
        return Wire(_OTHER_SERVER)
    options = request.provider_options
    asked = {*options.get("openai", {}), *options.get(provider, {})}
    # Responses has neither these fields nor audio, so the request stays where its caller meant it.
    if asked & _CHAT_ONLY or any(isinstance(p, Audio) for m in request.messages for p in m.parts):
        return None
    names = f'"{provider}-chat:{request.model}" or "{provider}-responses:{request.model}"'
    return Wire(responses(), f"sent to the Responses API: {why}. Name the wire to choose it: {names}")


def _is_openai(address: str) -> bool:
    """Also the regional hosts, such as eu.api.openai.com."""
    host = urlsplit(address).hostname or ""
    return host == "api.openai.com" or host.endswith(".api.openai.com")


def _why_responses(request: Request) -> str | None:
    """Why Chat Completions would refuse the request or its effort; None where it would not."""
    rules = GPT.find(request.model)
    if not rules.chat:
        return f"Chat Completions does not serve {request.model}"
    if rules.chat_tools == "always" or not any(isinstance(tool, ToolSpec) for tool in request.tools):
        return None
    effort = None if request.reasoning is None else request.reasoning.effort
    at_none = effort == "none" and rules.chat_tools != "never"
    if at_none or (rules.chat_tools == "without-effort" and effort is None):
        return None
    return f"Chat Completions takes no function tools of {request.model} while it reasons"


@functools.cache
def responses() -> Dialect:
    """The dialect of Responses, loaded with the first request that needs it."""
    from llmstream.dialects.openai_responses import OpenAIResponses

    return OpenAIResponses()
