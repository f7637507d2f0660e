"""A tool: its definition for the model, its options, and the execution of one call; `@tool` makes one.

Concurrent calls and their cancellation are in `runner.py`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import math
import re
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, Final, Generic, Protocol, Self, TypeAlias, overload

import anyio.to_thread
import msgspec

from llmstream.chats.content import ToolCall
from llmstream.errors import InvalidRequest, InvalidToolInput, ToolTimeout
from llmstream.request import ProviderTool, ToolSpec
from llmstream.tools.outcome import MAX_RESULT_BYTES, MAX_RESULT_CHARS, ToolOutcome
from llmstream.tools.signature import Signature, ToolContext, describe, object_text, takes

__all__ = [
    "AnyTool",
    "ArgumentReader",
    "ContextOf",
    "JSONObject",
    "LiveTools",
    "MethodTool",
    "NeedsApproval",
    "Tool",
    "Watched",
    "is_count",
    "tool",
    "tool_from_function",
]

if TYPE_CHECKING:  # a default (PEP 696) is what type checkers know, and Python from 3.13 on
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
else:
    from typing import ParamSpec, TypeVar

    P = ParamSpec("P")
    R = TypeVar("R")


T = TypeVar("T")

_log = logging.getLogger("llmstream")

# Blocking time from which on a warning is logged, because it blocks all other streams of the process. Far
# above a normal slice of work, even on a busy machine.
_BLOCKED_S: Final = 0.8

Progress: TypeAlias = Callable[[Any], object]
"""Called with progress; the tool awaits a returned awaitable."""

NeedsApproval: TypeAlias = (
    bool
    | Callable[[Mapping[str, Any]], bool | Awaitable[bool]]
    | Callable[[Mapping[str, Any], ToolContext], bool | Awaitable[bool]]
)
"""Whether a call needs approval; a predicate receives the parsed arguments by name.

A predicate with a second parameter also receives the `ToolContext` of the call.
"""


class ArgumentReader(Protocol):
    """Parses the raw arguments of a call into arguments of the function."""

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        """Positional and keyword arguments; raises InvalidToolInput."""
        ...


class Tool(Generic[P, R]):
    """A function the model may call; calling the Tool itself calls the function.

    `Tool[P, R]` has the parameters and the result of the function; `Tool` alone is any tool.

    function:         sync (runs in a worker thread), async, or an async generator whose last
                      value is the result
    reader:           checks the arguments; without one, a call's JSON object is passed as
                      keywords unchecked, for tools whose schema comes from elsewhere
    timeout_s:        after this time the call gets an error result; a thread cannot be stopped, so a sync
                      function continues to run without effect on the result
    eager:            safe to repeat: an agent starts it as soon as the call is complete, before the
                      response is; if the response fails, the result is discarded
    idempotent:       safe to repeat: a call that a crash interrupted may be made again; see `Journal`
    sequential:       its calls run one after the other, in call order; the same as concurrency=1
    concurrency:      maximum number of its concurrent calls; None for no separate limit
    needs_approval:   True, or a predicate of the parsed arguments, and of the `ToolContext` if it takes
                      two. Invalid arguments need no approval, because the call does not run
    max_result_chars: longer text is cut, and ends with a note about it
    max_result_bytes: of its images and files together; more are left out, with a note

    raises: InvalidRequest for an invalid option
    """

    def __init__(
        self,
        spec: ToolSpec,
        function: Callable[P, R],
        *,
        reader: ArgumentReader | None = None,
        timeout_s: float | None = None,
        eager: bool = False,
        idempotent: bool = False,
        sequential: bool = False,
        concurrency: int | None = None,
        needs_approval: NeedsApproval = False,
        max_result_chars: int = MAX_RESULT_CHARS,
        max_result_bytes: int = MAX_RESULT_BYTES,
    ) -> None:
        _check_options(
            spec.name,
            timeout_s=timeout_s,
            flags={"eager": eager, "idempotent": idempotent, "sequential": sequential},
            concurrency=concurrency,
            needs_approval=needs_approval,
            limits={"max_result_chars": max_result_chars, "max_result_bytes": max_result_bytes},
        )
        self.spec = spec
        self.function = function
        self.timeout_s = timeout_s
        self.eager = eager
        # An eager call may already be repeated, when its response fails.
        self.idempotent = idempotent or eager
        self.sequential = sequential
        self.concurrency = 1 if sequential else concurrency
        self.needs_approval = needs_approval
        self.max_result_chars = max_result_chars
        self.max_result_bytes = max_result_bytes
        self._reader = reader or JSONObject(spec.name)
        # A Signature has this attribute; other readers may not.
        self._context_key: str | None = getattr(self._reader, "context_key", None)

    @property
    def name(self) -> str:
        """The name that the model uses."""
        return self.spec.name

    @property
    def takes_context(self) -> bool:
        """Whether a parameter of the function takes the `ToolContext`."""
        return self._context_key is not None

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        """Calls the function itself."""
        return self.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    def named_arguments(self, arguments: str) -> dict[str, Any]:
        """The parsed arguments of a call by name, defaults included.

        raises: InvalidToolInput if they do not fit
        """
        args, kwargs = self._reader.read(arguments)
        # Needed only for positional-only parameters.
        names = inspect.signature(self.function).parameters if args else ()
        return {**dict(zip(names, args, strict=False)), **kwargs}

    async def approval_needed(self, arguments: str, context: ToolContext | None = None) -> bool:
        """Whether this call needs approval. With invalid arguments it does not, because it cannot run.

        context: for a predicate that takes it
        raises:  what the predicate raises
        """
        if self.needs_approval is False:
            return False
        try:
            # Parsed even if the option is True: a call that cannot run needs no decision.
            named = self.named_arguments(arguments)
        except InvalidToolInput:
            return False
        if self.needs_approval is True:
            return True
        asked: Callable[..., bool | Awaitable[bool]] = self.needs_approval
        further = (context or ToolContext(tool_name=self.name),) if takes(asked, 2) else ()
        needed = asked(named, *further)
        return bool(await needed if inspect.isawaitable(needed) else needed)

    async def run(
        self,
        arguments: str,
        *,
        on_progress: Progress | None = None,
        context: ToolContext | None = None,
        timeout_s: float | None = None,
    ) -> ToolOutcome:
        """Runs one call. Every failure is an outcome; only cancellation and other BaseExceptions propagate.

        arguments:   JSON text of an object; "" if the model sent none
        on_progress: called with each value that an async generator yields, and with the reports of the
                     context; the last value of a generator is also the result
        context:     for the parameter that takes it
        timeout_s:   for a tool without its own timeout
        """
        limit_s = timeout_s if self.timeout_s is None else self.timeout_s
        try:
            args, kwargs = self._reader.read(arguments)
        except InvalidToolInput as error:
            return ToolOutcome.raised(error)
        if self._context_key is not None:
            kwargs[self._context_key] = _with_reporter(context or ToolContext("", self.name), on_progress)
        try:
            async with asyncio.timeout(limit_s) as timeout:  # cancels once, so that cleanup may await
                value = await self._call(args, kwargs, on_progress)
        except Exception as error:
            if timeout.expired():
                # A TimeoutError of the function itself is a failure of the tool; only the timer's own ends
                # here.
                text = f"The tool {self.name} was stopped after {limit_s:g} s."
                return ToolOutcome.raised(ToolTimeout(text))
            return ToolOutcome.raised(error).fitted(self.max_result_chars, self.max_result_bytes)
        outcome = ToolOutcome.of(value)
        if outcome.exception is not None and not isinstance(value, ToolOutcome):
            kind = type(value).__name__
            _log.warning(
                "the tool %s returned a value of type %s that cannot be sent: %s",
                self.name,
                kind,
                outcome.exception,
            )
        return outcome.fitted(self.max_result_chars, self.max_result_bytes)

    async def _call(self, args: list[Any], kwargs: dict[str, Any], on_progress: Progress | None) -> Any:
        call: Callable[[], Any] = functools.partial(self.function, *args, **kwargs)
        code = _code_of(self.function)
        generator = inspect.isasyncgenfunction(code)
        if generator or inspect.iscoroutinefunction(code):
            coroutine = _last(call(), on_progress) if generator else call()
            # Functions of llmstream, for sub-agents and MCP tools, do not block.
            ours = str(getattr(code, "__module__", "")).startswith("llmstream.")
            return await (coroutine if ours else Watched(coroutine, self.name))
        # A blocking function must not stop the loop. Python cannot stop a thread, so on cancellation it is
        # abandoned.
        value = await anyio.to_thread.run_sync(call, abandon_on_cancel=True)
        # A partial or a wrapper may hide that the function is async.
        return await value if inspect.isawaitable(value) else value


class LiveTools(list[Tool]):
    """A list of tools that its owner may change, such as the tools of a server.

    `tools=[*mine, live]` or `tools=live` offers its content at the time of each request;
    `tools=[*mine, *live]` copies its current content. A tool that is added later under the name of
    another one is left out, so that a server can neither replace a tool nor end a run.
    """


AnyTool: TypeAlias = Tool | ToolSpec | ProviderTool | LiveTools | Callable[..., Any]
"""A local tool, as a Tool or a plain function; a declared tool; or a list that may change."""


ContextOf: TypeAlias = Callable[[ToolCall], ToolContext]
"""Returns the context of a call; called only for tools and predicates that take one."""


def _code_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The callable that determines the kind of function: for an object, its `__call__`."""
    if isinstance(function, functools.partial) or inspect.isroutine(function):
        return function
    method: Callable[..., Any] = type(function).__call__
    return method


async def _last(values: AsyncGenerator[Any, None], on_progress: Progress | None) -> Any:
    value = None
    # Closed here on cancellation: otherwise the garbage collector would run its cleanup later, in another
    # task.
    async with aclosing(values):
        async for value in values:
            if on_progress is not None:
                await _report(on_progress, value)
    return value


async def _report(on_progress: Progress, value: Any) -> None:
    returned = on_progress(value)
    if inspect.isawaitable(returned):
        await returned


def _with_reporter(context: ToolContext, on_progress: Progress | None) -> ToolContext:
    return (
        context if on_progress is None else replace(context, reporter=functools.partial(_report, on_progress))
    )


class JSONObject:
    """Arguments of a tool whose schema comes from elsewhere: any JSON object.

    context_key: the keyword for the `ToolContext`; None if the function takes none
    """

    def __init__(self, name: str, context_key: str | None = None) -> None:
        self.context_key = context_key
        self._name = name

    def read(self, arguments: str) -> tuple[list[Any], dict[str, Any]]:
        """The members of the object as keywords; raises InvalidToolInput."""
        try:
            return [], msgspec.json.decode(object_text(arguments), type=dict[str, Any])
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            # UnicodeEncodeError, a ValueError, comes with a lone surrogate; RecursionError with deep nesting.
            raise InvalidToolInput(
                f"Invalid arguments for {self._name}: not a JSON object ({error})"
            ) from None


class Watched(Generic[T]):
    """Awaits a coroutine; logs each of its steps between two awaits that blocks the event loop.

    name: of the tool
    """

    def __init__(
        self, coroutine: Coroutine[Any, Any, T], name: str, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._coroutine = coroutine
        self._name = name
        self._clock = clock

    def __await__(self) -> Generator[Any, Any, T]:
        value: Any = None
        thrown: BaseException | None = None
        while True:
            began = self._clock()
            try:
                waits_for = self._coroutine.send(value) if thrown is None else self._coroutine.throw(thrown)
            except StopIteration as over:
                return over.value  # type: ignore[no-any-return]  # of a Coroutine[Any, Any, T]
            finally:
                # In a finally block: a step that raises may have blocked too.
                self._note(self._clock() - began)
            value = thrown = None
            try:
                value = yield waits_for
            except BaseException as error:  # a cancellation is the coroutine's to handle
                thrown = error

    def _note(self, blocked_s: float) -> None:
        if blocked_s >= _BLOCKED_S:
            _log.warning(
                "the tool %s blocked the event loop for %.1f s. Write it as a plain `def`, which runs in a "
                "thread, or await asyncio.to_thread(...).",
                self._name,
                blocked_s,
            )


def _check_options(
    name: str,
    *,
    timeout_s: object,
    flags: Mapping[str, object],
    concurrency: object,
    needs_approval: object,
    limits: Mapping[str, object],
) -> None:
    """Checks the options of a `Tool`.

    raises: InvalidRequest
    """
    where = f"tool {name}"
    if timeout_s is not None and not _is_time(timeout_s):
        raise InvalidRequest(f"{where}: timeout_s must be a number of seconds above 0, got {timeout_s!r}")
    for option, flag in flags.items():
        if not isinstance(flag, bool):
            raise InvalidRequest(f"{where}: {option} must be True or False, got {flag!r}")
    if concurrency is not None and not is_count(concurrency, 1):
        raise InvalidRequest(f"{where}: concurrency must be an integer of at least 1, got {concurrency!r}")
    if flags.get("sequential") and concurrency not in (None, 1):
        raise InvalidRequest(f"{where}: sequential calls run one by one; leave out concurrency={concurrency}")
    if not isinstance(needs_approval, bool) and not callable(needs_approval):
        raise InvalidRequest(
            f"{where}: needs_approval must be True, False or a function of the arguments; "
            f"got {needs_approval!r}"
        )
    for option, limit in limits.items():
        if not is_count(limit, 0):
            raise InvalidRequest(f"{where}: {option} must be an integer of at least 0, got {limit!r}")


def is_count(value: object, least: int = 1) -> bool:
    """Whether the value is an integer of at least `least`; a bool is not."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _is_time(value: Any) -> bool:
    return (
        isinstance(value, int | float) and not isinstance(value, bool) and not math.isnan(value) and value > 0
    )


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
