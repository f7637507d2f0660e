"""`mcp_tools`: the tools of an MCP server, for as long as a block lasts."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeAlias

from llmstream.errors import InvalidRequest, Unsupported
from llmstream.mcp.bounded_http import bounded_client
from llmstream.mcp.bounded_stream import bounded
from llmstream.mcp.eliciting import Elicit, eliciting
from llmstream.mcp.names import valid_names
from llmstream.mcp.results import outcome_of
from llmstream.mcp.server_tools import ServerTools
from llmstream.mcp.session import Session
from llmstream.mcp.tasks import ended
from llmstream.request import ToolSpec
from llmstream.shown_address import shown_address
from llmstream.tools import Tool, ToolContext, ToolOutcome
from llmstream.tools.outcome import MAX_RESULT_BYTES, MAX_RESULT_CHARS
from llmstream.tools.tool import JSONObject, NeedsApproval

if TYPE_CHECKING:
    from mcp import Client
    from mcp.types import Tool as ListedTool

__all__ = ["Command", "mcp_tools"]

Command: TypeAlias = (
    tuple[str] | tuple[str, Sequence[str]] | tuple[str, Sequence[str], Mapping[str, str] | None]
)
"""A program, its arguments, and what is added to its environment."""

_CONTEXT = "llmstream/context"
"""No name that a schema would give an argument."""

_MAX_UNREAD = 256
"""Progress notifications of one call that wait to be told."""


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
    max_result_chars: int = MAX_RESULT_CHARS,
    max_result_bytes: int = MAX_RESULT_BYTES,
) -> AsyncGenerator[ServerTools]:
    """Connects to an MCP server; its tools are like others until the block is left.

    The schemas are the server's, and it is the server that checks arguments against them. What it
    refuses, and its death, are error results that the model reads. Its progress notifications are
    preliminary results. Leaving the block ends the session and the process; a call that still runs
    then has an error result, and so has each later one.

    Where the server says that its tools have changed, the list that is given here changes too: an
    agent or a stream that was given it whole, as `tools=[*mine, theirs]`, offers what is in it at
    each step. A call waits a while for a list that it has changed itself.

    The list has the server's resources and prompts as well: `await theirs.resources()`,
    `read_resource(uri)`, `prompts()`, `prompt(name, arguments)`; see `ServerTools`. Tools that run as
    tasks only (`execution.taskSupport: "required"`) are left out.

    stdio:     starts a process: `("uvx", ["mcp-server-time"])`, `("server", [], {"TOKEN": "..."})`.
               It sees PATH, HOME and the like, and of the rest of our environment nothing
    url:       of a Streamable HTTP server instead
    headers:   for the server at url, such as Authorization
    prefix:    put before each name, so that two servers can have tools of the same name
    timeout_s: for each call; the server is told to stop
    connect_timeout_s: until the tools are known
    elicit:    asked what the server wants to know of the user while a tool runs, with an `Elicitation`;
               without, the server is refused
    needs_approval, max_result_chars, max_result_bytes: as for `Tool`, for all of them

    raises: Unsupported where the mcp package is not installed; InvalidRequest where it is not
            just one of stdio and url; ConnectionFailed where no session came about
    """
    changed = asyncio.Event()

    def update(listed: list[ListedTool]) -> None:
        listed = [tool for tool in listed if not _needs_task(tool)]
        names = valid_names([tool.name for tool in listed], prefix)
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

    connection = _connection(stdio, url, headers, changed, elicit)
    session = Session(_name(stdio, url), connection, changed, update)
    tools = ServerTools(session, timeout_s)
    try:
        update(await session.open(connect_timeout_s))
        yield tools
    finally:
        await session.close()


def _needs_task(tool: ListedTool) -> bool:
    """Whether a tool can be called as a task only; a plain call of it is refused each time.

    source: MCP 2025-11-25, tasks, execution.taskSupport
    """
    return tool.execution is not None and tool.execution.task_support == "required"


def _calling(session: Session, name: str) -> Any:
    """The function of a tool: keywords are what the server's schema calls them."""

    async def call(**arguments: Any) -> ToolOutcome:
        context = arguments.pop(_CONTEXT, None) or ToolContext(tool_name=name)
        news: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(_MAX_UNREAD)
        relay = asyncio.create_task(_relayed(news, context))

        async def told(progress: float, total: float | None, message: str | None) -> None:
            with suppress(asyncio.QueueFull):  # a reader so slow misses some of it
                news.put_nowait({"progress": progress, "total": total, "message": message})

        try:
            result = await session.call(name, arguments, told)
            await news.put(None)
            await relay
        finally:
            await ended(relay, at_once=True)
        return outcome_of(result)

    return call


async def _relayed(news: asyncio.Queue[dict[str, Any] | None], context: ToolContext) -> None:
    """Reports progress from a task of the call, so that none is told after its result."""
    while (value := await news.get()) is not None:
        await context.report(value)


def _name(stdio: Command | None, url: str | None) -> str:
    """What errors call the server; nothing of an address that may be secret, such as a path."""
    return stdio[0] if stdio is not None else shown_address(url or "").strip("'")


def _connection(
    stdio: Command | None,
    url: str | None,
    headers: Mapping[str, str] | None,
    changed: asyncio.Event,
    elicit: Elicit | None,
) -> Any:
    if (stdio is None) == (url is None):
        raise InvalidRequest("mcp_tools takes just one of stdio= and url=")
    if stdio is not None and (isinstance(stdio, str) or not 1 <= len(stdio) <= 3):
        raise InvalidRequest(f'stdio is a program and its arguments, ("uvx", ["server"]); got {stdio!r}')
    if not isinstance(url, str | None):
        raise InvalidRequest(f"url is a str, got {url!r}")
    if stdio is not None and headers:
        raise InvalidRequest("headers are for a server at a url; give a process its secrets in env")
    try:
        import mcp
    except ImportError:
        raise Unsupported("MCP needs the mcp package: pip install 'llmstream-sdk[mcp]'") from None

    async def heard(message: object) -> None:
        if isinstance(message, mcp.types.ToolListChangedNotification):
            changed.set()

    options: dict[str, Any] = {"message_handler": heard}
    if elicit is not None:
        # Servers that speak both protocols ask in the middle of a call only under the older one, which
        # has a way back to the client (mcp 2.3: "no back-channel" under the newer, seen 2026-11).
        options |= {"elicitation_callback": eliciting(elicit), "mode": "legacy"}
    if stdio is None:
        return _over_http(url or "", dict(headers or {}), options)
    arguments = list(stdio[1]) if len(stdio) > 1 else []
    env = dict(stdio[2] or {}) if len(stdio) > 2 else None
    process = mcp.StdioServerParameters(command=stdio[0], args=arguments, env=env)
    return mcp.Client(bounded(mcp.stdio_client(process)), **options)


@asynccontextmanager
async def _over_http(url: str, headers: dict[str, str], options: dict[str, Any]) -> AsyncGenerator[Client]:
    import httpx2
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    # A server may say nothing for long while a tool works; each call has a timeout of its own.
    timeout = httpx2.Timeout(30.0, read=None)
    async with (
        bounded_client(headers, timeout) as http,
        Client(bounded(streamable_http_client(url, http_client=http)), **options) as client,
    ):
        yield client
