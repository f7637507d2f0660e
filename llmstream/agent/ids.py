"""Ids of a run: those that two steps, or the run before its suspension, use both are kept apart."""

from __future__ import annotations

from typing import Any

import msgspec

from llmstream.agent.nested import OWN_KEY
from llmstream.events import Event, ResponseMetadata

__all__ = ["Ids"]


class Ids:
    """Prefixes an id with its step's number where an earlier step has used it."""

    def __init__(self) -> None:
        self._step_of: dict[str, int] = {}

    def unique(self, event: Event, step: int) -> Event:
        """The event, under an id that only its step uses."""
        for field in ("id", "tool_call_id"):
            block_id = getattr(event, field, None)
            if not isinstance(block_id, str) or isinstance(event, ResponseMetadata):
                continue
            if self._step_of.setdefault(block_id, step) != step:
                changes: dict[str, Any] = {field: f"{step}/{block_id}"}
                own = (getattr(event, "provider_metadata", None) or {}).get(OWN_KEY, {})
                if "parent_call" in own:
                    changes["provider_metadata"] = {OWN_KEY: {**own, "parent_call": changes[field]}}
                return msgspec.structs.replace(event, **changes)
        return event

    def shown(self, call_id: str, step: int) -> str:
        """What the events of the run call a call of a step."""
        return call_id if self._step_of.get(call_id, step) == step else f"{step}/{call_id}"

    def original(self, shown: str, step: int) -> str:
        """The id as the step has it, of one that `unique` may have prefixed."""
        bare = shown.removeprefix(f"{step}/")
        return bare if self._step_of.get(bare, step) != step else shown
