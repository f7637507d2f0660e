"""Events of the application for a page that speaks AG-UI: its state, activities, and events of its own.

They are `Custom` events, so they pass through generators, event logs and middleware. `Writer` writes them as
the corresponding events; other writers ignore them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from llmstream.events import Custom

__all__ = ["KEY", "activity", "custom", "state", "state_delta"]

KEY: Final = "ag-ui"
"""The key of the fields in `provider_metadata`, and what the kinds begin with."""


def state(snapshot: Any) -> Custom:
    """Returns an event that replaces the state which the page and the agent share.

    snapshot: any JSON value
    """
    return _event("STATE_SNAPSHOT", snapshot=snapshot)


def state_delta(patch: Sequence[Mapping[str, Any]]) -> Custom:
    """Returns an event that changes the shared state.

    patch: operations of JSON Patch (RFC 6902), such as {"op": "replace", "path": "/city", "value": "Oslo"}
    """
    return _event("STATE_DELTA", delta=[dict(operation) for operation in patch])


def custom(name: str, value: Any) -> Custom:
    """Returns a `CUSTOM` event: `onCustomEvent` of the page receives it."""
    return _event("CUSTOM", name=name, value=value)


def activity(message_id: str, activity_type: str, content: Mapping[str, Any]) -> Custom:
    """Returns an event that shows or replaces an activity: a message of the page that no model sees.

    message_id: the same one replaces the activity
    """
    fields = {"messageId": message_id, "activityType": activity_type, "content": dict(content)}
    return _event("ACTIVITY_SNAPSHOT", **fields)


def _event(kind: str, **fields: Any) -> Custom:
    return Custom(f"{KEY}.{kind}", {KEY: fields})
