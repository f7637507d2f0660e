"""How long each part of a stream may take; all in seconds, all finite by default."""

from __future__ import annotations

import msgspec

from llmstream.errors import InvalidRequest

__all__ = ["Deadlines"]


class Deadlines(msgspec.Struct, frozen=True, kw_only=True):
    """Caps in seconds; None switches one off. The defaults leave room for reasoning models.

    connect_s:     name look-up, TCP and TLS
    first_event_s: from sending the request to the first content
    idle_s:        between two pieces of content; pings and empty deltas are no content
    step_s:        one response from request to finish
    total_s:       the whole stream: attempts, waits, every step, tools included
    raises:        InvalidRequest for what is no number of seconds
    """

    connect_s: float | None = 15.0
    first_event_s: float | None = 600.0
    idle_s: float | None = 180.0
    step_s: float | None = 1800.0
    total_s: float | None = 3600.0

    def __post_init__(self) -> None:
        for name in self.__struct_fields__:
            limit_s = getattr(self, name)
            if limit_s is not None and not (isinstance(limit_s, int | float) and limit_s > 0):
                raise InvalidRequest(
                    f"{name} is a positive number of seconds, or None for no limit; got {limit_s!r}"
                )
