"""Tools of the commands: the demo's, functions of Python files, and MCP servers."""

from __future__ import annotations

import asyncio
import contextvars
import copy
import datetime
import functools
import importlib.util
import inspect
import os
import re
import shlex
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from contextlib import AsyncExitStack
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any, Final, Literal, ParamSpec, TextIO

from llmstream.cli.storage import state_file
from llmstream.cli.terminal import print_message
from llmstream.errors import ConnectionFailed, InvalidRequest
from llmstream.exchange import shown_address
from llmstream.tools import Tool, ToolSet, tool, tool_from_function

__all__ = [
    "DEMO_TOOLS",
    "ToolSources",
    "clock",
    "mcp_command",
    "tools_of_file",
    "weather",
]


P = ParamSpec("P")

_DEMO: Final = "demo"
# As in a shell, before the program.
_VARIABLE: Final = re.compile(r"[A-Za-z_]\w*=")


class ToolSources:
    """The tools that are offered to the model.

    Functions of files and tools of servers need an approval for each call: they can do whatever the
    user can. The demo's are harmless and need none.

    files:   "demo" or names of Python files
    servers: MCP servers: a URL, or a command that speaks MCP on its standard streams
    ask:     whether calls need an approval
    raises:  InvalidRequest for a file that cannot be loaded
    """

    def __init__(self, files: Sequence[str] = (), servers: Sequence[str] = (), *, ask: bool = True) -> None:
        self._ask = ask
        self._servers = list(servers)
        self._here: list[Tool] = []
        self._remote: list[Sequence[Tool]] = []
        self._stack = AsyncExitStack()
        self.use(files)

    def use(self, files: Sequence[str]) -> None:
        """Replaces the tools that do not come from servers.

        raises: InvalidRequest; nothing changes then
        """
        found = [tool for file in files for tool in self._tools_of(file)]
        _check_names([*found, *self._there])
        self._here = found

    def _tools_of(self, name: str) -> Sequence[Tool]:
        if name == _DEMO:
            return DEMO_TOOLS
        tools = map(_abandonable, tools_of_file(name))
        return [_asking(tool) if self._ask else tool for tool in tools]

    async def connect(self) -> None:
        """Connects to the servers; from then on their tools are offered.

        raises: ConnectionFailed; Unsupported without the mcp package; InvalidRequest if two tools have
                the same name
        """
        if not self._servers:
            return
        from llmstream.mcp import mcp_tools

        path = state_file("mcp.log") or Path(os.devnull)
        log = self._stack.enter_context(_log_file(path))
        # Connected servers are removed from the list, so that another call continues with the rest.
        while self._servers:
            place = _place(self._servers[0])
            if sys.stderr.isatty():
                print_message(f"connecting to {_name_of(place)}")
            connection = mcp_tools(**place, needs_approval=self._ask, log=log)
            try:
                self._remote.append(await self._stack.enter_async_context(connection))
            except ConnectionFailed as error:
                if path.stat().st_size:
                    error.message = f"{error.message}. Its messages are in {path}"
                    error.args = (error.message,)
                raise
            del self._servers[0]
        _check_names(self.tools)

    async def aclose(self) -> None:
        """Disconnects the servers."""
        await self._stack.aclose()

    @property
    def offered(self) -> list[Any]:
        """The tools for an `Agent`; a server's list may change while the agent runs."""
        return [*self._here, *self._remote]

    @property
    def tools(self) -> list[Tool]:
        """The current tools."""
        return [*self._here, *self._there]

    @property
    def _there(self) -> list[Tool]:
        return [tool for tools in self._remote for tool in tools]


def _place(server: str) -> dict[str, Any]:
    """The arguments of `mcp_tools` for a URL or a command."""
    if server.startswith(("http://", "https://")):
        return {"url": server}
    return {"stdio": mcp_command(server)}


def _name_of(place: dict[str, Any]) -> str:
    """The program or the address, without arguments, which may hold a secret."""
    return shown_address(place["url"]) if "url" in place else str(place["stdio"][0])


def _log_file(path: Path) -> TextIO:
    """Opens the file for the messages of servers, which would appear in the middle of an answer."""
    return os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8")


def _asking(tool: Tool) -> Tool:
    """The tool with an approval for each call; a predicate set by its author decides instead."""
    if tool.needs_approval is not False:
        return tool
    tool = copy.copy(tool)
    tool.needs_approval = True
    return tool


def _abandonable(tool: Tool) -> Tool:
    """The tool with a sync function in a daemon thread.

    A running function cannot be stopped with its turn. The program would wait for a non-daemon thread when
    the user quits.
    """
    function = tool.function
    if not isinstance(function, FunctionType) or _is_async(function):
        return tool
    tool = copy.copy(tool)
    tool.function = _in_daemon_thread(function)
    return tool


def _is_async(function: FunctionType) -> bool:
    return inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function)


def _in_daemon_thread(function: Callable[P, Any]) -> Callable[P, Coroutine[Any, Any, Any]]:
    @functools.wraps(function)
    async def run(*args: P.args, **kwargs: P.kwargs) -> Any:
        future: Future[Any] = Future()
        # From here on the future cannot be cancelled, so the thread may set its result at any time.
        future.set_running_or_notify_cancel()

        def work() -> None:
            try:
                future.set_result(function(*args, **kwargs))
            # asyncio's futures do not accept it in Python 3.11, and it would be lost.
            except StopIteration as error:
                future.set_exception(RuntimeError(f"StopIteration: {error}"))
            except BaseException as error:
                future.set_exception(error)

        context = contextvars.copy_context()
        threading.Thread(target=context.run, args=(work,), daemon=True).start()
        value = await asyncio.wrap_future(future)
        return await value if inspect.isawaitable(value) else value

    return run


def _check_names(tools: Sequence[Tool]) -> None:
    ToolSet.of(tools)


def tools_of_file(name: str) -> list[Tool]:
    """Runs a Python file and returns its tools: each `Tool`, and each public function it defines.

    `__all__` limits them, if the file has it.
    raises: InvalidRequest if it is missing, fails, or has no tools
    """
    path = Path(name).expanduser()
    if not path.is_file():
        raise InvalidRequest(
            f"cannot read the tools {name}: there is no such file. Name a Python file, or demo."
        )
    module = _executed(path)
    tools = []
    for public, value in _public(module):
        if isinstance(value, Tool):
            tools.append(value)
        # Not functions that the file imports.
        elif isinstance(value, FunctionType) and value.__module__ == module.__name__:
            try:
                tools.append(tool_from_function(value))
            except InvalidRequest as error:
                raise InvalidRequest(
                    f"{name}: {public} cannot be a tool: {error.message} "
                    "Begin its name with _ to leave it out."
                ) from None
    if not tools:
        raise InvalidRequest(f"{name} has no tools: it defines no public function and no @ls.tool.")
    return tools


def _public(module: ModuleType) -> Iterator[tuple[str, Any]]:
    names = getattr(module, "__all__", None)
    for name, value in vars(module).items():
        if (names is None and not name.startswith("_")) or (names is not None and name in names):
            yield name, value


def _executed(path: Path) -> ModuleType:
    """Runs the file as a module; it can import modules of its folder, as with `python FILE`."""
    name = f"llmstream_tools_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidRequest(f"{path} is not a Python file. Its name must end in .py.")
    module = importlib.util.module_from_spec(spec)
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    # Before it runs: dataclasses and type hints look their module up.
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    # Any exception of the user's file, including SystemExit, is an error of that file.
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise InvalidRequest(f"{path}{_line_of(error, path)}: {type(error).__name__}: {error}") from None
    return module


def _line_of(error: BaseException, path: Path) -> str:
    """The position of the failure in the file: ", line 3", or ""."""
    if isinstance(error, SyntaxError):
        return f", line {error.lineno}"
    frames = inspect.getinnerframes(error.__traceback__) if error.__traceback__ else []
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    return f", line {lines[-1]}" if lines else ""


def mcp_command(text: str) -> tuple[str, list[str], dict[str, str]]:
    """Splits a command into program, arguments and variables, as a shell does: "TOKEN=$TOKEN npx server".

    Variables are expanded in the values, so that a secret need not be written on the command line.
    raises: InvalidRequest for an empty command, or an open quote
    """
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise InvalidRequest(f"--mcp {text!r} is not a command: {error}") from None
    env = {}
    while words and _VARIABLE.match(words[0]):
        name, _, value = words.pop(0).partition("=")
        env[name] = os.path.expandvars(value)
    if not words:
        raise InvalidRequest("--mcp takes a command, such as 'uvx mcp-server-time', or a URL")
    return words[0], words[1:], env


# The demo's tools, without network access.

# City to degrees Celsius, sky and wind in m/s on an invented day.
_CLIMATE: Final = {
    "oslo": (-2, "light snow", 7),
    "lisbon": (16, "clear sky", 3),
    "nairobi": (22, "scattered clouds", 4),
    "tokyo": (13, "drizzle", 5),
    "paris": (9, "overcast", 4),
    "lima": (19, "mist", 2),
}


@tool
def weather(city: str, unit: Literal["celsius", "fahrenheit"] = "celsius") -> dict[str, str]:
    """Returns the weather in a city from a small table of invented values.

    Args:
        city: One of Oslo, Lisbon, Nairobi, Tokyo, Paris, Lima.
        unit: Unit of the temperature.
    """
    found = _CLIMATE.get(city.strip().lower())
    if found is None:
        known = ", ".join(name.title() for name in _CLIMATE)
        raise ValueError(f"unknown city {city!r}; the table has {known}")
    degrees, sky, wind = found
    shown = f"{degrees} °C" if unit == "celsius" else f"{degrees * 9 / 5 + 32:.0f} °F"
    return {"city": city.strip().title(), "temperature": shown, "sky": sky, "wind": f"{wind} m/s"}


@tool
def clock(utc_offset_hours: float = 0) -> str:
    """Returns the current date and time at an offset from UTC.

    Args:
        utc_offset_hours: Such as 1 for Oslo in winter, -5 for Lima, 5.75 for Kathmandu.
    """
    if not -24 < utc_offset_hours < 24:
        raise ValueError(f"an offset from UTC is between -24 and 24 hours, not {utc_offset_hours:g}")
    zone = datetime.timezone(datetime.timedelta(hours=utc_offset_hours))
    return datetime.datetime.now(zone).isoformat(timespec="seconds")


DEMO_TOOLS: Final = (weather, clock)
