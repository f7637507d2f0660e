"""How many arguments an application's function takes, where a further one may be asked for."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from llmstream.errors import InvalidRequest

__all__ = ["check_arguments", "takes"]

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


def check_arguments(what: str, function: Callable[..., Any], *names: str) -> None:
    """Refuses a function that cannot be called with these arguments, before a run is in the middle.

    what:   the option, for the message
    names:  of the arguments that it will be given, for the message
    raises: InvalidRequest; nothing where Python knows no signature
    """
    try:
        inspect.signature(function).bind(*names)
    except ValueError:
        return
    except TypeError as error:
        raise InvalidRequest(
            f"{what} is called with ({', '.join(names)}); {function!r} is not: {error}"
        ) from None
