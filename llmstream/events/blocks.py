"""Text and reasoning: blocks that open, take deltas and close under one id.

A delta is only the new fragment; fragments of one id, joined in order, are the block.
`incomplete` on an end says that the stream broke off inside the block.
"""

from __future__ import annotations

from llmstream.events.base import BaseEvent, Metadata

__all__ = ["ReasoningDelta", "ReasoningEnd", "ReasoningStart", "TextDelta", "TextEnd", "TextStart"]


class TextStart(BaseEvent, frozen=True, tag="text-start"):
    """A block of text opens."""

    id: str
    provider_metadata: Metadata | None = None


class TextDelta(BaseEvent, frozen=True, tag="text-delta", gc=False):
    """A fragment of text."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


class TextEnd(BaseEvent, frozen=True, tag="text-end"):
    """A block of text closes."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None


class ReasoningStart(BaseEvent, frozen=True, tag="reasoning-start"):
    """A block of reasoning opens."""

    id: str
    provider_metadata: Metadata | None = None


class ReasoningDelta(BaseEvent, frozen=True, tag="reasoning-delta", gc=False):
    """A fragment of reasoning."""

    delta: str
    id: str
    provider_metadata: Metadata | None = None


class ReasoningEnd(BaseEvent, frozen=True, tag="reasoning-end"):
    """A block of reasoning closes; its metadata holds the signature to echo, if there is one."""

    id: str
    incomplete: bool = False
    provider_metadata: Metadata | None = None
