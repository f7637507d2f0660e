"""Thinking blocks that Claude binds to the conversation they were made in, after that has changed.

From 5.1 and 5.5 on the API refuses such blocks once the system prompt, tools or earlier messages are
others; asked to, it drops them.
source: platform.claude.com "Thinking troubleshooting"; pydantic-ai-slim 2.68 `_thinking_binding.py` (2026-11)
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.errors import BadRequest, LLMStreamError
from llmstream.exchange import HttpRequest

__all__ = ["dropping_bound_thinking"]

_BOUND_ELSEWHERE: Final = "bound to a different conversation"
_BETA: Final = "thinking-binding-controls-2026-08-01"


def dropping_bound_thinking(
    http: HttpRequest, error: LLMStreamError, *, betas_in_body: bool
) -> HttpRequest | None:
    """The request that lets such blocks be dropped; None where they are not what the error is about."""
    if not isinstance(error, BadRequest) or _BOUND_ELSEWHERE not in error.message:
        return None
    body = http.json()
    thinking: dict[str, Any] = {"type": "adaptive", **(body.get("thinking") or {})}
    if thinking["type"] != "adaptive" or "block_binding" in thinking:
        return None
    body["thinking"] = {**thinking, "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    headers = dict(http.headers)
    if betas_in_body:
        body["anthropic_beta"] = [*body.get("anthropic_beta", ()), _BETA]
    else:
        headers["anthropic-beta"] = ",".join(filter(None, (headers.get("anthropic-beta"), _BETA)))
    return msgspec.structs.replace(http, body=msgspec.json.encode(body), headers=headers)
