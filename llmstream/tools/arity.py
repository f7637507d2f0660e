"""How many arguments an application's function takes, where a further one may be asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

__all__ = ["takes"]

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def takes(function: Callable[..., Any], count: int) -> bool:
    """Whether a function requires at least so many positional arguments.

    Only parameters without a default count: a default is a setting of the function's own, which
    no caller fills by accident. Names do not matter. False where Python knows no signature.
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [p for p in parameters if p.kind in _POSITIONAL and p.default is p.empty]
    return len(required) >= count
