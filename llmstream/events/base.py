"""What all events share: frozen, tagged on `type`, camelCase in JSON."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

__all__ = ["BaseEvent", "Metadata", "merge_metadata"]

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


def merge_metadata(old: Metadata | None, new: Metadata | None) -> Metadata | None:
    """Both, provider by provider; later keys win. Neither argument is changed."""
    if not new:
        return old
    if not old:
        return new
    merged = dict(old)
    for provider, values in new.items():
        merged[provider] = {**merged.get(provider, {}), **values}
    return merged
