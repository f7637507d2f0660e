"""What an answer repeats of its request: OpenAI's response object holds the settings it was made with.

Clients read them: langchain-openai parses an answer only where the response says that a schema was
asked for, and openai-node compares the tools.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.message import Message
from llmstream.chats.role import Role
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import encode_request
from llmstream.errors import CallerError
from llmstream.request import Request

__all__ = ["repeated_settings"]

_SETTINGS: Final = (
    "instructions",
    "max_output_tokens",
    "max_tool_calls",
    "metadata",
    "parallel_tool_calls",
    "previous_response_id",
    "prompt_cache_key",
    "safety_identifier",
    "store",
    "temperature",
    "tool_choice",
    "tools",
    "top_logprobs",
    "top_p",
    "truncation",
    "user",
)
_INSIDE: Final = ("reasoning", "text")
"""Fields whose parts are filled up with what the vendor sets by itself."""

_PROMPT: Final = Message.user("Answer as json.")
"""In place of the conversation, which no answer repeats; JSON mode wants the word."""


def repeated_settings(request: Request, quirks: Quirks, *, provider: str) -> dict[str, Any]:
    """The fields of the response object that say how it was asked for.

    provider: under which fields of the vendor's own are found in the request
    """
    leading = []
    for message in request.messages:
        if message.role != Role.SYSTEM:
            break
        leading.append(message)
    try:
        short = msgspec.structs.replace(request, messages=(*leading, _PROMPT))
        body = encode_request(short, quirks, provider=provider).http.json()
    except CallerError:  # a request that did not come over this wire
        return {}
    out = {name: body[name] for name in _SETTINGS if body.get(name) is not None}
    out |= {name: body[name] for name in _INSIDE if isinstance(body.get(name), dict)}
    if "tools" in out:
        out["tools"] = [{"strict": True, **t} if t.get("type") == "function" else t for t in out["tools"]]
    return out
