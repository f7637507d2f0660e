"""JSON schemas without references, for models that read only what stands in place.

GLM-5.3 writes a nested argument as a string where its schema is a `$ref` into `$defs`
(pydantic/pydantic-ai#10243, seen 2026-11, at Z.ai and at Mistral).
"""

from __future__ import annotations

from typing import Any, Final

__all__ = ["inlined"]

_MOST_NODES: Final = 20_000
"""Definitions that use each other twice double with each level; a schema past this stays as it is."""

_NAMED: Final = ("$defs", "definitions")


def inlined(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with each local reference replaced by what it names.

    A schema that refers to itself, or would grow too large, is given back as it is.
    """
    if not any(name in schema for name in _NAMED):
        return schema
    copier = _Copier(schema)
    try:
        out = copier.copy({key: value for key, value in schema.items() if key not in _NAMED}, ())
    except _NotPossible:
        return schema
    assert isinstance(out, dict)
    return out


class _NotPossible(Exception):
    """The schema is recursive, or too large without its references."""


class _Copier:
    def __init__(self, root: dict[str, Any]) -> None:
        self._root = root
        self._nodes = 0

    def copy(self, value: Any, within: tuple[str, ...]) -> Any:
        """The value without references. `within`: those that led here."""
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise _NotPossible
        if isinstance(value, list):
            return [self.copy(item, within) for item in value]
        if not isinstance(value, dict):
            return value
        ref = value.get("$ref")
        if not isinstance(ref, str):
            return {key: self.copy(inner, within) for key, inner in value.items()}
        found = self._named(ref)
        if ref in within or found is None:
            raise _NotPossible
        beside = {key: inner for key, inner in value.items() if key != "$ref"}
        out = self.copy({**found, **beside}, (*within, ref))
        assert isinstance(out, dict)
        return out

    def _named(self, ref: str) -> dict[str, Any] | None:
        found: Any = self._root
        for step in ref.removeprefix("#/").split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            found = found.get(name) if isinstance(found, dict) else None
        return found if isinstance(found, dict) else None
