"""Questions that a server asks the user while a tool of it runs, put to a function of the application."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from llmstream.errors import InvalidRequest

__all__ = ["Elicit", "Elicitation", "eliciting"]


@dataclass(frozen=True, slots=True)
class Elicitation:
    """What a server wants to know of the user. It is the server that asks, not the model.

    message: for the user to read
    schema:  JSON schema of the answer; empty where it wants none
    url:     a page that the user is to visit instead; "" where there is none
    """

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""


Elicit: TypeAlias = Callable[
    [Elicitation], Mapping[str, Any] | bool | Awaitable[Mapping[str, Any] | bool | None] | None
]
"""Gives the answer by name; True to agree without one; None or False to decline. Sync or async."""


def eliciting(elicit: Elicit) -> Any:
    """The package's form of the callback.

    raises: when called, InvalidRequest for an answer that is none; the call of the tool fails then
    """
    from mcp.types import ElicitResult

    async def asked(context: Any, params: Any) -> ElicitResult:
        said = elicit(
            Elicitation(
                params.message, getattr(params, "requested_schema", None) or {}, getattr(params, "url", "")
            )
        )
        found = await said if inspect.isawaitable(said) else said
        if found is None or found is False:
            return ElicitResult(action="decline")
        if found is True:
            return ElicitResult(action="accept", content={})
        if not isinstance(found, Mapping):
            raise InvalidRequest(f"elicit gives a dict, True, False or None; got {found!r}")
        return ElicitResult(action="accept", content=dict(found))

    return asked
