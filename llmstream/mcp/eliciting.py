"""Elicitation: passes questions of a server to the user, asked while a tool runs, to the application."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llmstream.errors import InvalidRequest

__all__ = ["Elicit", "Elicitation", "eliciting"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question to the user. The server asks it, not the model.

    message: text for the user
    schema:  JSON schema of the answer; empty if none is expected
    url:     a page for the user to visit instead; "" for none
    """

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""


Elicit: TypeAlias = Callable[
    [Elicitation], Mapping[str, Any] | bool | Awaitable[Mapping[str, Any] | bool | None] | None
]
"""Returns the answer as a dict; True to accept without one; None or False to decline. Sync or async."""


def eliciting(elicit: Elicit) -> Any:
    """Adapts the function to the callback of the mcp package.

    raises: when called, InvalidRequest for an invalid answer, which fails the tool call
    """
    from mcp.types import ElicitResult

    async def callback(context: Any, params: Any) -> ElicitResult:
        answer = elicit(
            Elicitation(
                params.message, getattr(params, "requested_schema", None) or {}, getattr(params, "url", "")
            )
        )
        found = await answer if inspect.isawaitable(answer) else answer
        if found is None or found is False:
            return ElicitResult(action="decline")
        if found is True:
            return ElicitResult(action="accept", content={})
        if not isinstance(found, Mapping):
            raise InvalidRequest(f"elicit returns a dict, True, False or None; got {found!r}")
        return ElicitResult(action="accept", content=dict(found))

    return callback
