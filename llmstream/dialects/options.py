"""Fields of the vendor's own that a caller adds to a request."""

from __future__ import annotations

from typing import Any

from llmstream.request import Request

__all__ = ["merged", "options_of"]


def options_of(request: Request, key: str, provider: str) -> dict[str, Any]:
    """`provider_options` for a dialect's key, with those for the provider by its own name on top."""
    ours = dict(request.provider_options.get(key, {}))
    return ours if provider == key else merged(ours, request.provider_options.get(provider, {}))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Both, objects field by field; what is in `over` wins."""
    out = dict(base)
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out
