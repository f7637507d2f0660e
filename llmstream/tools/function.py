"""`@tool`: a typed function becomes a tool; and the forms in which tools are given."""

from __future__ import annotations

import functools
import inspect
import logging
import re
from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias, overload

from llmstream.errors import InvalidRequest
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.docstring import describe
from llmstream.tools.live import LiveTools
from llmstream.tools.outcome import MAX_RESULT_BYTES, MAX_RESULT_CHARS
from llmstream.tools.signature import Signature
from llmstream.tools.tool import NeedsApproval, Tool

__all__ = ["AnyTool", "as_tools", "tool", "tool_from_function", "tool_specs", "wrapped"]

AnyTool: TypeAlias = Tool | ToolSpec | ProviderTool | LiveTools | Callable[..., Any]
"""A tool that runs here, as a Tool or a plain function; one that is only declared; or a list that changes."""

_log = logging.getLogger("llmstream")

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""What all vendors take (the strictest: Gemini starts with a letter or _, OpenAI has 64 characters)."""


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...


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
) -> Callable[[Callable[..., Any]], Tool]: ...


def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Makes a function a Tool, as `@tool` or `@tool(timeout_s=10)`.

    The schema comes from the signature (msgspec's types; `Annotated[int, Meta(ge=1)]` too), the
    descriptions from the docstring or from `Meta(description=...)`. See `Tool` for the options.

    On a method in a class, what `obj.method` then gives is the tool.

    raises: InvalidRequest where the function cannot be a tool, and for an option that there is not
    """
    unknown = sorted(options.keys() - _OPTIONS)
    if unknown:
        raise InvalidRequest(
            f"unknown option {unknown[0]!r} of a tool. Options: {', '.join(sorted(_OPTIONS))}."
        )

    def made(function: Callable[..., Any]) -> Tool | MethodTool:
        return (
            MethodTool(function, options) if _is_method(function) else tool_from_function(function, **options)
        )

    return made if function is None else made(function)


def tool_from_function(
    function: Callable[..., Any],
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
) -> Tool:
    """The Tool of a function, a bound method, a partial or a callable object; see `tool`."""
    if isinstance(function, Tool):
        raise InvalidRequest(f"{function.name} is a tool already")
    named = function.func if isinstance(function, functools.partial) else function
    name = name or str(getattr(named, "__name__", type(named).__name__))
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is no name for a tool. Pass name= with letters, digits, _ and -.")
    if inspect.isgeneratorfunction(function):
        raise InvalidRequest(f"tool {name}: generators have to be async ones (async def with yield)")
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
    """Logs once for each name: plain functions are wrapped anew for each request."""
    _log.info(
        "the tool %s has no description: the model goes by its name and parameters alone. "
        "Write a docstring, or pass description=.",
        name,
    )


_OPTIONS: Final = inspect.signature(tool_from_function).parameters.keys() - {"function"}


class MethodTool:
    """What `@tool` makes of a method in a class: looked up on an object, it is that object's tool."""

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
        """The method itself, given its object."""
        return self._function(*args, **kwargs)


def _is_method(function: Callable[..., Any]) -> bool:
    """Whether it is defined in a class, to be called with an object."""
    if not inspect.isfunction(function) or "." not in function.__qualname__.rpartition("<locals>.")[2]:
        return False
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return first is not None and first.name == "self" and first.annotation is first.empty


def as_tools(tools: Iterable[AnyTool]) -> tuple[Tool | ToolSpec | ProviderTool, ...]:
    """The tools with plain functions wrapped, and of each live list those that are in it now.

    raises: InvalidRequest where one is no tool, or two have the same name
    """
    found: list[Tool | ToolSpec | ProviderTool] = []
    names: set[str] = set()
    for given in wrapped(tools):
        for each in given if isinstance(given, LiveTools) else (given,):
            name = each.name or each.type if isinstance(each, ProviderTool) else each.name
            if name in names:
                raise InvalidRequest(f"two tools are called {name!r}. Pass name= to one of them.")
            names.add(name)
            found.append(each)
    return tuple(found)


def wrapped(tools: Iterable[AnyTool]) -> tuple[Tool | ToolSpec | ProviderTool | LiveTools, ...]:
    """The tools with plain functions wrapped; live lists stay.

    raises: InvalidRequest where one is no tool
    """
    if isinstance(tools, LiveTools):
        return (tools,)
    if not isinstance(tools, Iterable):
        raise InvalidRequest(f"tools is a list of tools, got {tools!r}")
    found: list[Tool | ToolSpec | ProviderTool | LiveTools] = []
    for given in tools:
        if isinstance(given, Tool | ToolSpec | ProviderTool | LiveTools):
            found.append(given)
        elif isinstance(given, MethodTool):
            raise InvalidRequest(
                f"{given!r} is a method without its object. Give that of an object: obj.method."
            )
        elif callable(given):
            found.append(tool_from_function(given))
        else:
            raise InvalidRequest(f"{given!r} is no tool. {_remedy(given)}")
    return tuple(found)


def _remedy(given: object) -> str:
    if hasattr(given, "as_tool"):
        return "Give an agent as agent.as_tool()."
    if isinstance(given, dict):
        return "Write ToolSpec(name, description, input_schema), or ProviderTool for one of a vendor's own."
    return "Give a function, a Tool, a ToolSpec or a ProviderTool."


def tool_specs(tools: Iterable[AnyTool]) -> tuple[ToolSpec | ProviderTool, ...]:
    """What the tools are to the model, as `Request.tools` takes them."""
    return tuple([t.spec if isinstance(t, Tool) else t for t in as_tools(tools)])
