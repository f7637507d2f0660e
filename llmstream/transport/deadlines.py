"""How long each part of a stream may take; all in seconds, all finite by default."""

from __future__ import annotations

import msgspec

__all__ = ["Deadlines"]


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Caps in seconds; None switches one off. The defaults leave room for reasoning models.

    connect_s:     name look-up, TCP and TLS
    first_event_s: from sending the request to the first content
    idle_s:        between two pieces of content; pings and empty deltas are no content
    step_s:        one response from request to finish
    total_s:       the whole stream: attempts, waits, every step, tools included
    """

    connect_s: float | None = 15.0
    first_event_s: float | None = 600.0
    idle_s: float | None = 180.0
    step_s: float | None = 1800.0
    total_s: float | None = 3600.0
