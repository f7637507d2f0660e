"""Checks requests by the rules of Claude models, with the vendor's messages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llmstream.model_rules.claude import CLAUDE

__all__ = [
    "claude_refusal",
]


def claude_refusal(
    model: str, *, thinking: Mapping[str, Any], effort: object, forced: bool, sampling: Iterable[str]
) -> str | None:
    """Returns why the model would reject a request; None if it would not, or for an unknown model.

    thinking: the field of that name, {} if missing
    effort:   `output_config.effort`, or None
    forced:   the tool choice forces a call
    sampling: names of the sampling settings that are set
    """
    rules = CLAUDE.find(model)
    # Newer models come before their rules.
    if rules is CLAUDE.unknown:
        return None
    kind = thinking.get("type")
    taken = {rules.off, "enabled" if rules.thinking != "adaptive" else None}
    taken |= {"adaptive"} if rules.thinking in ("either", "adaptive") else set()
    if rules.thinking == "none":
        taken = {"disabled"}
    if kind is not None and kind not in taken:
        instead = f'Use "thinking.type.{"adaptive" if "adaptive" in taken else "enabled"}"'
        if rules.efforts:
            instead += ' and "output_config.effort" to control thinking behavior'
        return f'"thinking.type.{kind}" is not supported for this model. {instead}.'
    if effort is not None and effort not in rules.efforts:
        if not rules.efforts:
            return "This model does not support the effort parameter."
        known = ", ".join(f"'{name}'" for name in rules.efforts)
        return f"output_config.effort: Input should be {known} for this model."
    if forced and not rules.forced_tools:
        return "tool_choice: this model does not support forced tool use. Use 'auto' or 'none'."
    for name in sampling:
        if not rules.sampling:
            return f"`{name}` is deprecated for this model."
    return None
