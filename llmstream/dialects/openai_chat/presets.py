"""Quirks that many providers share, so that a new one says only what is its own."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.dialects.openai_chat.quirks import Quirks

__all__ = ["OPEN_MODEL_HOST", "hosted"]

OPEN_MODEL_HOST: Final = Quirks(
    system_role="system",
    reasoning_model_rules=False,
    open_model_rules=True,
    max_tokens_field="max_tokens",
    unsupported_settings=frozenset(),
    max_stops=None,
    files=False,
    audio_formats=frozenset(),
    reasoning_field="reasoning_content",
)
"""A host of open models: vLLM, SGLang or the like behind a gateway, which also take top_k.

They know the role `system` and the field `max_tokens` alone, have no list of stop sequences that is
full, and no parts of the types `file` and `input_audio` (seen 2026-11: the protocols of vLLM and
SGLang, litellm's `openai_like/providers.json`, of which nearly all map to `max_tokens`).
"""


def hosted(**changes: Any) -> Quirks:
    """The quirks of a host of open models, with what is different at this one."""
    return msgspec.structs.replace(OPEN_MODEL_HOST, **changes)
