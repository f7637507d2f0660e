"""The events of an interaction as typed values, generous in all that may vary.

An interaction is a list of steps: thoughts, outputs, calls and results. The stream opens each
step, grows it by deltas and closes it; the SSE event name says the same as `event_type`.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["ALIASES", "WireEvent", "decode_event"]

ALIASES: Final = {
    "interaction.start": "interaction.created",
    "interaction.complete": "interaction.completed",
    "content.start": "step.start",
    "content.delta": "step.delta",
    "content.stop": "step.stop",
}
"""Names that events had before May 2026, when steps were called contents."""


class WireEvent(msgspec.Struct, gc=False, omit_defaults=True):
    """Any event of the stream.

    step, content: what opens, by its present and by its former name
    metadata:      may hold the usage so far
    usage:         so far, where it stands in the event itself
    step_usage:    of the step that ends
    """

    event_type: str | None = None
    index: int | str | None = None
    step: dict[str, Any] | None = None
    content: dict[str, Any] | None = None
    delta: dict[str, Any] | None = None
    interaction: dict[str, Any] | None = None
    interaction_id: Any = None
    status: str | None = None
    error: Any = None
    metadata: Any = None
    continuation_token: Any = None
    usage: Any = None
    step_usage: Any = None


decode_event = msgspec.json.Decoder(WireEvent)
