"""Quirks that many providers share, so that a new one has only what is its own."""

from __future__ import annotations

from typing import Final

from llmstream.dialects.openai_chat.quirks import (
    AnyQuirks,
    MediaQuirks,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
)
from llmstream.dialects.quirks import Change, ModelQuirks, change, changed

__all__ = ["OPEN_MODEL_HOST", "hosted"]

OPEN_MODEL_HOST: Final = Quirks(
    system_role="system",
    reasoning_model_rules=False,
    open_model_rules=True,
    settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
    media=MediaQuirks(files=False, audio_formats=frozenset()),
    reasoning=ReasoningQuirks(field="reasoning_content"),
)
"""A host of open models: vLLM, SGLang or the like behind a gateway, which also take top_k.

They know the role `system` and the field `max_tokens` alone, have no list of stop sequences that is
full, and no parts of the types `file` and `input_audio` (seen 2026-11: the protocols of vLLM and
SGLang, litellm's `openai_like/providers.json`, of which nearly all map to `max_tokens`).
"""


def hosted(*changes: Change[AnyQuirks], by_model: tuple[ModelQuirks[AnyQuirks], ...] = ()) -> Quirks:
    """The quirks of a host of open models, with what is different at this one."""
    return changed(OPEN_MODEL_HOST, [*changes, change(Quirks, by_model=by_model)])
