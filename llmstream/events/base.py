"""What all events share: frozen, tagged on `type`, camelCase in JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

__all__ = ["BaseEvent", "Metadata"]

Metadata: TypeAlias = dict[str, dict[str, Any]]
"""What a vendor said beyond the union or wants back verbatim, keyed by provider."""


class BaseEvent(
    msgspec.Struct,
    frozen=True,
    tag_field="type",
    rename="camel",
    omit_defaults=True,
    repr_omit_defaults=True,
):
    """Base of the union. Events hold values only: `decode(encode(event)) == event`."""
