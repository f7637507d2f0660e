"""`@tool`: makes a tool of a typed function or method."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, Final, Self, overload

from llmstream.errors import InvalidRequest
from llmstream.request import ToolSpec
from llmstream.tools.outcome import MAX_RESULT_BYTES, MAX_RESULT_CHARS
from llmstream.tools.signature import Signature, describe
from llmstream.tools.tool import NeedsApproval, P, R, Tool

__all__ = ["MethodTool", "tool", "tool_from_function"]

_log = logging.getLogger("llmstream")

# Names that all vendors accept (the strictest: Gemini starts with a letter or _, OpenAI has 64 characters).
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


if TYPE_CHECKING:
    from typing_extensions import ParamSpec

    _Rest = ParamSpec("_Rest")

    class FunctionTool(Tool[P, R]):
        """A decorated function as type checkers see it: a Tool that is bound to an object like a method.

        At run time it is a `Tool`, or in a class a `MethodTool`. A Tool that is only an attribute of an
        object is not bound, so `Tool` itself has no `__get__`.
        """

        @overload
        def __get__(self, instance: None, owner: type) -> Self: ...

        @overload
        def __get__(
            self: FunctionTool[Concatenate[Any, _Rest], R], instance: object, owner: type | None = None
        ) -> Tool[_Rest, R]: ...

        def __get__(self, instance: object, owner: type | None = None) -> Any: ...


@overload
def tool(function: Callable[P, R], /) -> FunctionTool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout_s: float | None = None,
    eager: bool = False,
    idempotent: bool = False,
    sequential: bool = False,
    concurrency: int | None = None,
    needs_approval: NeedsApproval = False,
    max_result_chars: int = MAX_RESULT_CHARS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a Tool, as `@tool` or `@tool(timeout_s=10)`.

    The schema comes from the signature (msgspec's types; `Annotated[int, Meta(ge=1)]` too), the
    descriptions from the docstring or from `Meta(description=...)`. See `Tool` for the options.

    For a method in a class, `obj.method` is the tool.

    raises: InvalidRequest if the function cannot be a tool, and for an unknown option
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidRequest(
            f"unknown option {unknown[0]!r} of a tool. Options: {', '.join(sorted(_OPTIONS))}."
        )

    def made(function: Callable[..., Any]) -> Any:
        return (
            MethodTool(function, options) if _is_method(function) else tool_from_function(function, **options)
        )

    return made if function is None else made(function)


def tool_from_function(
    function: Callable[P, R],
    *,
    name: str | None = None,
    description: str | None = None,
    strict: bool | None = None,
    timeout_s: float | None = None,
    eager: bool = False,
    idempotent: bool = False,
    sequential: bool = False,
    concurrency: int | None = None,
    needs_approval: NeedsApproval = False,
    max_result_chars: int = MAX_RESULT_CHARS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> Tool[P, R]:
    """The Tool of a function, bound method, partial or callable object; see `tool`."""
    # Wrapping it again would lose its options, such as the need for approval.
    if isinstance(function, Tool):
        raise InvalidRequest(f"{function.name} is a tool already")
    # A partial has neither the name nor the docstring of its function.
    named = function.func if isinstance(function, functools.partial) else function
    name = name or str(getattr(named, "__name__", type(named).__name__))
    if not _NAME.fullmatch(name):
        raise InvalidRequest(
            f"{name!r} is not a valid name of a tool. Pass name= with letters, digits, _ and -."
        )
    # Calling it runs none of its body, and a thread could not await its progress reports.
    if inspect.isgeneratorfunction(function):
        raise InvalidRequest(f"tool {name}: a generator must be async (async def with yield)")
    described = describe(named)
    signature = Signature(function, name, described.arguments)
    description = described.description if description is None else description
    if not description:
        _note_undescribed(name)
    spec = ToolSpec(name, description, signature.schema, strict)
    return Tool(
        spec,
        function,
        reader=signature,
        timeout_s=timeout_s,
        eager=eager,
        idempotent=idempotent,
        sequential=sequential,
        concurrency=concurrency,
        needs_approval=needs_approval,
        max_result_chars=max_result_chars,
        max_result_bytes=max_result_bytes,
    )


@functools.lru_cache(maxsize=1024)
def _note_undescribed(name: str) -> None:
    """Logs once for each name, because each stream wraps a plain function again."""
    _log.info(
        "the tool %s has no description: the model goes by its name and parameters alone. "
        "Write a docstring, or pass description=.",
        name,
    )


_OPTIONS: Final = inspect.signature(tool_from_function).parameters.keys() - {"function"}


class MethodTool:
    """A method that `@tool` decorated: an attribute of an object is that object's tool."""

    def __init__(self, function: Callable[..., Any], options: dict[str, Any]) -> None:
        self._function = function
        self._options = options

    def __get__(self, instance: object, owner: type | None = None) -> Tool | MethodTool:
        if instance is None:
            return self
        return tool_from_function(self._function.__get__(instance, owner), **self._options)

    def __repr__(self) -> str:
        return f"MethodTool({self._function.__qualname__!r})"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the method; the first argument is its object."""
        return self._function(*args, **kwargs)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it is defined in a class and takes the object."""
    # A decorator runs before the class exists: only the qualified name shows the class.
    if not inspect.isfunction(function) or "." not in function.__qualname__.rpartition("<locals>.")[2]:
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    # An annotated `self` counts as a parameter that the model fills.
    return first is not None and first.name == "self" and first.annotation is first.empty
