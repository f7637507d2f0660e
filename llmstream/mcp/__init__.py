"""Tools of MCP servers, through the official `mcp` package (extra `mcp`).

    async with mcp_tools(stdio=("uvx", ["mcp-server-time"]), prefix="time_") as tools:
        message = await ls.Agent(model, tools=tools).run("What time is it in Oslo?")

`session.py` has the task that owns the session, `transports.py` a server's process and what it may send, and
`server_tools.py` the tools, their results, resources and prompts.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from llmstream.errors import InvalidRequest, Unsupported
from llmstream.exchange import shown_address
from llmstream.mcp.server_tools import Prompt, PromptArgument, Resource, ServerTools, outcome_of, valid_names
from llmstream.mcp.session import Elicit, Elicitation, Session, eliciting, ended
from llmstream.mcp.transports import StdioServer, bounded, bounded_client
from llmstream.request import ToolSpec
from llmstream.tools import Tool, ToolContext, ToolOutcome
from llmstream.tools.outcome import MAX_RESULT_BYTES, MAX_RESULT_CHARS
from llmstream.tools.tool import JSONObject, NeedsApproval

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as ListedTool

__all__ = [
    "Elicitation",
    "Prompt",
    "PromptArgument",
    "Resource",
    "ServerTools",
    "mcp_tools",
]


Command: TypeAlias = (
    tuple[str] | tuple[str, Sequence[str]] | tuple[str, Sequence[str], Mapping[str, str] | None]
)
"""A program, its arguments, and additional environment variables."""

# Argument for the context; a schema would not use this name.
_CONTEXT = "llmstream/context"

# Queued progress notifications of one call.
_MAX_UNREAD = 256


@asynccontextmanager
async def mcp_tools(
    *,
    stdio: Command | None = None,
    url: str | None = None,
    headers: Mapping[str, str] | None = None,
    prefix: str = "",
    timeout_s: float | None = 60.0,
    connect_timeout_s: float | None = 30.0,
    needs_approval: NeedsApproval = False,
    elicit: Elicit | None = None,
    log: TextIO | None = None,
    max_result_chars: int = MAX_RESULT_CHARS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> AsyncGenerator[ServerTools]:
    """Connects to an MCP server; its tools work like others inside the block.

    The server provides the schemas and validates arguments. Errors of the server, and its exit, are
    error results for the model. Progress notifications are preliminary results. Leaving the block ends
    the session and the process; running and later calls get an error result.

    If the server changes its tools, the returned list changes too: an agent or a stream that got the
    list itself, as in `tools=[*mine, theirs]`, offers its current content at each step. A call that
    changes the tools waits briefly for the new list. A new tool under the name of another one is left out.

    The list also gives access to resources and prompts: `await theirs.resources()`,
    `read_resource(uri)`, `prompts()`, `prompt(name, arguments)`; see `ServerTools`. It omits tools that
    can only run as tasks (`execution.taskSupport: "required"`).

    stdio:     starts a process: `("uvx", ["mcp-server-time"])`, `("server", [], {"TOKEN": "..."})`.
               It gets PATH, HOME and similar variables, but no others of our environment
    url:       URL of a Streamable HTTP server, in place of stdio
    headers:   HTTP headers for url, such as Authorization
    prefix:    prefix of all names, for servers with tools of the same name
    timeout_s: limit for each call, after which the server is asked to cancel it
    connect_timeout_s: limit until the tools are listed
    elicit:    answers questions of the server to the user while a tool runs, given an `Elicitation`;
               without it, such questions are declined
    log:       a file for what a started process writes to its standard error; by default ours
    needs_approval, max_result_chars, max_result_bytes: as for `Tool`, for all tools

    raises: Unsupported if the mcp package is not installed; InvalidRequest unless exactly one of
            stdio and url is given; ConnectionFailed if the connection fails
    """
    changed = asyncio.Event()

    def update(listed: list[ListedTool]) -> None:
        listed = [tool for tool in listed if not _needs_task(tool)]
        names = valid_names([tool.name for tool in listed], prefix)
        # In place: agents and streams hold this very list, and read it at each step.
        tools[:] = [
            Tool(
                ToolSpec(name, tool.description or tool.title or "", tool.input_schema),
                _calling(session, tool.name),
                reader=JSONObject(name, _CONTEXT),
                timeout_s=timeout_s,
                needs_approval=needs_approval,
                max_result_chars=max_result_chars,
                max_result_bytes=max_result_bytes,
            )
            for name, tool in zip(names, listed, strict=True)
        ]

    connection, failure = _connection(stdio, url, headers, changed, elicit, log)
    session = Session(_name(stdio, url), connection, changed, update, failure)
    tools = ServerTools(session, timeout_s)
    try:
        # Inside the block: an invalid prefix is found here, and the session is open by then.
        update(await session.open(connect_timeout_s))
        yield tools
    finally:
        await session.close()


def _needs_task(tool: ListedTool) -> bool:
    """Whether a tool only runs as a task; the server refuses plain calls of it.

    source: MCP 2025-11-25, tasks, execution.taskSupport
    """
    return tool.execution is not None and tool.execution.task_support == "required"


def _calling(session: Session, name: str) -> Any:
    """Returns the function of a tool; its keywords are those of the server's schema."""

    async def call(**arguments: Any) -> ToolOutcome:
        context = arguments.pop(_CONTEXT, None) or ToolContext(tool_name=name)
        reports: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(_MAX_UNREAD)
        relay = asyncio.create_task(_relay(reports, context))

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            # A slow reader misses some reports.
            with suppress(asyncio.QueueFull):
                reports.put_nowait({"progress": progress, "total": total, "message": message})

        try:
            result = await session.call(name, arguments, on_progress)
            await reports.put(None)
            await relay
        finally:
            # Also if the call failed or was cancelled: the relay must end.
            await ended(relay, at_once=True)
        return outcome_of(result)

    return call


async def _relay(reports: asyncio.Queue[dict[str, Any] | None], context: ToolContext) -> None:
    """Reports progress from a task of the call, so that no report follows the result."""
    while (value := await reports.get()) is not None:
        await context.report(value)


def _name(stdio: Command | None, url: str | None) -> str:
    """Returns the server's name for errors, without parts of the URL that may be secret, such as the path."""
    return stdio[0] if stdio is not None else shown_address(url or "").strip("'")


def _connection(
    stdio: Command | None,
    url: str | None,
    headers: Mapping[str, str] | None,
    changed: asyncio.Event,
    elicit: Elicit | None,
    log: TextIO | None,
) -> tuple[AbstractAsyncContextManager[Client], Callable[[], str]]:
    """Returns the connection, and a function that returns what the server did wrong."""
    if (stdio is None) == (url is None):
        raise InvalidRequest("mcp_tools needs exactly one of stdio= and url=.")
    # A str is a sequence too: "uv" would be taken for a program and its arguments.
    if stdio is not None and (isinstance(stdio, str) or not 1 <= len(stdio) <= 3):
        raise InvalidRequest(f'stdio is a program and its arguments, ("uvx", ["server"]); got {stdio!r}')
    if not isinstance(url, str | None):
        raise InvalidRequest(f"url is a str, got {url!r}")
    if stdio is not None and headers:
        raise InvalidRequest("headers= needs url=. Pass secrets of a process in its environment instead.")
    try:
        import mcp
    except ImportError:
        raise Unsupported("MCP needs the mcp package. Install it: pip install 'llmstream-sdk[mcp]'") from None

    async def on_message(message: object) -> None:
        if isinstance(message, mcp.types.ToolListChangedNotification):
            changed.set()

    options: dict[str, Any] = {"message_handler": on_message}
    if elicit is not None:
        # Servers with both protocols can ask during a call only under the older one, which has a
        # channel back to the client (mcp 2.3: "no back-channel" under the newer, seen 2026-11).
        options |= {"elicitation_callback": eliciting(elicit), "mode": "legacy"}
    if stdio is None:
        return _over_http(url or "", dict(headers or {}), options), lambda: ""
    return _over_stdio(stdio, options, log)


def _over_stdio(
    stdio: Command, options: dict[str, Any], log: TextIO | None
) -> tuple[AbstractAsyncContextManager[Client], Callable[[], str]]:
    from mcp import Client, StdioServerParameters, stdio_client
    from mcp.client.stdio import get_default_environment

    arguments = list(stdio[1]) if len(stdio) > 1 else []
    env = dict(stdio[2] or {}) if len(stdio) > 2 else {}
    if sys.platform == "win32":
        # The package ends a tree of processes there, for which asyncio has no means; its lines have no cap.
        process = StdioServerParameters(command=stdio[0], args=arguments, env=env)
        return Client(bounded(stdio_client(process, log or sys.stderr)), **options), lambda: ""
    server = StdioServer(stdio[0], arguments, get_default_environment() | env, log=log)
    return Client(bounded(server.streams()), **options), lambda: server.failure


@asynccontextmanager
async def _over_http(url: str, headers: dict[str, str], options: dict[str, Any]) -> AsyncGenerator[Client]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    # A server may be silent while a tool runs; each call has its own timeout.
    timeout = httpx2.Timeout(30.0, read=None)
    async with (
        bounded_client(headers, timeout) as http,
        Client(bounded(streamable_http_client(url, http_client=http)), **options) as client,
    ):
        yield client
