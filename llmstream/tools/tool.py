"""A tool: what the model is told about it, and what happens when it is called."""

from __future__ import annotations

import functools
import inspect
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from math import inf
from typing import Any, Protocol, TypeAlias

import anyio
import anyio.to_thread
import msgspec

from llmstream.errors import InvalidToolInput, ToolTimeout
from llmstream.request import ToolSpec
from llmstream.tools.outcome import ToolOutcome
from llmstream.tools.signature import object_text

__all__ = ["MAX_RESULT_CHARS", "ArgumentReader", "Tool"]

MAX_RESULT_CHARS = 200_000
"""Some 50 000 tokens: more than a result is ever worth, less than most context windows."""

Progress: TypeAlias = Callable[[Any], object]


class ArgumentReader(Protocol):
    """Turns the raw arguments of a call into those of the function."""

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments; raises InvalidToolInput."""
        ...


class Tool:
    """A function the model may call; calling the Tool itself calls the function.

    function:         sync (runs in a worker thread), async, or an async generator whose last
                      value is the result
    reader:           checks the arguments; without one, a call's JSON object is passed as
                      keywords unchecked, for tools whose schema comes from elsewhere
    timeout_s:        after which the call is abandoned with an error result; a thread cannot be
                      stopped, so what a sync function still does then is unseen
    eager:            safe to repeat: may start as soon as the call is complete, before the response is
    sequential:       its calls run one after the other, in call order
    max_result_chars: longer text is cut, with a note that says so
    """

    def __init__(
        self,
        spec: ToolSpec,
        function: Callable[..., Any],
        *,
        reader: ArgumentReader | None = None,
        timeout_s: float | None = None,
        eager: bool = False,
        sequential: bool = False,
        max_result_chars: int = MAX_RESULT_CHARS,
    ) -> None:
        self.spec = spec
        self.function = function
        self.timeout_s = timeout_s
        self.eager = eager
        self.sequential = sequential
        self.max_result_chars = max_result_chars
        self._reader = reader or _JSONObject(spec.name)

    @property
    def name(self) -> str:
        """What the model calls it."""
        return self.spec.name

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    async def run(self, arguments: str, *, on_progress: Progress | None = None) -> ToolOutcome:
        """Runs one call. Whatever goes wrong is an outcome; only cancellation and the like pass.

        arguments:   JSON text of an object; "" where the model sent none
        on_progress: is given each value that an async generator yields, as it is yielded; the
                     last of them is the result too
        """
        try:
            args, kwargs = self._reader.read(arguments)
        except InvalidToolInput as error:
            return ToolOutcome.raised(error)
        try:
            with anyio.move_on_after(inf if self.timeout_s is None else self.timeout_s) as scope:
                value = await self._call(args, kwargs, on_progress)
        except Exception as error:
            return ToolOutcome.raised(error).fitted(self.max_result_chars)
        if scope.cancelled_caught:
            return ToolOutcome.raised(
                ToolTimeout(f"The tool {self.name} was stopped after {self.timeout_s:g} s.")
            )
        return ToolOutcome.of(value).fitted(self.max_result_chars)

    async def _call(self, args: list[Any], kwargs: dict[str, Any], on_progress: Progress | None) -> Any:
        call = functools.partial(self.function, *args, **kwargs)
        if inspect.isasyncgenfunction(_code_of(self.function)):
            return await _last(call(), on_progress)
        if inspect.iscoroutinefunction(_code_of(self.function)):
            return await call()
        value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        return await value if inspect.isawaitable(value) else value


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """What to ask about its kind: of an object with `__call__`, that method."""
    if isinstance(function, functools.partial) or inspect.isroutine(function):
        return function
    method: Callable[..., Any] = type(function).__call__
    return method


async def _last(values: AsyncGenerator[Any, None], on_progress: Progress | None) -> Any:
    value = None
    async with aclosing(values):
        async for value in values:
            if on_progress is not None:
                on_progress(value)
    return value


class _JSONObject:
    """Arguments of a tool whose schema we did not make: any JSON object."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        try:
            return [], msgspec.json.decode(object_text(arguments), type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidToolInput(f"Invalid arguments for {self._name}: no JSON object ({error})") from None
