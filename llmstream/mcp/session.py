"""One session with an MCP server, and the one task that opens, holds and closes it.

The package's contexts contain cancel scopes, which must be left by the task that entered them.
So a task of their own enters and leaves them; whoever calls a tool only asks and waits.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, TypeVar

from llmstream.errors import ConnectionFailed, ToolError, ToolTimeout
from llmstream.mcp.tasks import ended
from llmstream.shown_address import shown_address

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, Tool

__all__ = ["Session", "all_pages"]

_T = TypeVar("_T")

_log = logging.getLogger("llmstream.mcp")

_ADDRESS = re.compile(r"https?://[^\s'\"<>]+")

_MAX_PAGES = 100
"""Pages of a list; a server that has more has gone wrong."""

_REFRESH_S = 5.0
"""How long a call that is done waits for a list of tools that it may have changed."""

_LISTEN_AGAIN_S = 1.0
"""Between two attempts to hear of changes."""

_MAX_CHARS = 4000
"""Of what a server says of an error."""

_CLOSE_S = 10.0
"""How long a server may take to say good-bye; a process gets signals well before."""


class Session:
    """A session that `open` begins and `close` ends; calls may come from any task of the loop.

    name:     the server's, for errors
    client:   enters the connection and leaves it
    changed:  set when the server says that its tools have changed
    on_tools: is given the tools anew after that
    """

    def __init__(
        self,
        name: str,
        client: AbstractAsyncContextManager[Client],
        changed: asyncio.Event,
        on_tools: Callable[[list[Tool]], None],
    ) -> None:
        self._name = name
        self._entering = client
        self._closing = False
        self._changed = changed
        self._on_tools = on_tools
        self._listing: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Client] | None = None
        self._tools: list[Tool] = []
        self._owner: asyncio.Task[None] | None = None

    async def open(self, timeout_s: float | None) -> list[Tool]:
        """Connects, and gives the server's tools.

        raises: ConnectionFailed where no session came about in time; nothing is left running
        """
        opened = self._opened = asyncio.get_running_loop().create_future()
        owner = self._owner = asyncio.create_task(self._own())
        try:
            await asyncio.wait({owner, opened}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        except BaseException:
            await ended(owner, at_once=True)
            raise
        if not opened.done():
            late = not owner.done()
            await ended(owner, at_once=True)
            reason = f"no answer in {timeout_s:g} s" if late else _words(_failure(owner))
            raise ConnectionFailed(f"the MCP server {self._name} could not be reached: {reason}")
        return self._tools

    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> CallToolResult:
        """The server's answer to a call. Cancelling it tells the server so.

        raises: ToolError where the server refused the call, or is gone
        """
        result = await self.ask(
            tool, lambda client: client.call_tool(tool, arguments, progress_callback=progress)
        )
        await self._up_to_date()
        return result

    async def ask(
        self, what: str, request: Callable[[Client], Awaitable[_T]], *, timeout_s: float | None = None
    ) -> _T:
        """The server's answer to any request.

        what:   names it in errors
        raises: ToolError where the server refused it, is gone, or takes longer than it may
        """
        owner, opened = self._owner, self._opened
        if owner is None or opened is None or owner.done() or self._closing:
            raise ToolError(f"The MCP server {self._name} is no longer connected. {what} has not run.")
        asked = asyncio.ensure_future(request(opened.result()))
        try:
            await asyncio.sleep(0)
            unsent = asked.done() and _is_closed(asked)  # what fails at its first step is not written
            await asyncio.wait({owner, asked}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            late = not owner.done() and not asked.done()
        finally:
            await ended(asked, at_once=True)
        if late:
            raise ToolTimeout(f"The MCP server {self._name} gave no answer in {timeout_s:g} s: {what}.")
        error = None if asked.cancelled() else asked.exception()
        if error is None and not asked.cancelled():
            return asked.result()
        if unsent:
            raise ToolError(
                f"The MCP server {self._name} is no longer connected. {what} has not run."
            ) from error
        raise self._refusal(what, error) from error

    async def close(self) -> None:
        """Ends the session and waits until the server is let go, also while it is cancelled."""
        self._closing = True
        self._changed.set()
        if self._owner is not None:
            await ended(self._owner, within_s=_CLOSE_S)

    async def _own(self) -> None:
        async with self._entering as client:
            self._tools = await _listed(client)
            if self._opened is not None and not self._opened.done():
                self._opened.set_result(client)
            listening = asyncio.create_task(self._listen(client))
            try:
                while not self._closing:
                    await self._changed.wait()
                    self._changed.clear()
                    if not self._closing:
                        self._listing = asyncio.create_task(self._list_again(client))
                        await asyncio.wait({self._listing})
            finally:
                await ended(listening, at_once=True)
                if self._listing is not None:
                    await ended(self._listing, at_once=True)

    async def _list_again(self, client: Client) -> None:
        try:
            self._on_tools(await _listed(client))
        except Exception as error:  # the tools stay as they were; a call of one that is gone is refused
            _log.warning(
                "the tools of the MCP server %s could not be listed again: %s", self._name, _words(error)
            )

    async def _listen(self, client: Client) -> None:
        """Hears of changes from servers that have to be asked for them; others tell by themselves."""
        from mcp import MCPError
        from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost

        while True:
            try:
                async with client.listen(tools_list_changed=True) as news:
                    async for _ in news:
                        self._changed.set()
                return
            except SubscriptionLost:
                await asyncio.sleep(_LISTEN_AGAIN_S)
                self._changed.set()  # what happened meanwhile is not told again
            except (ListenNotSupportedError, MCPError, TimeoutError):
                return

    async def _up_to_date(self) -> None:
        """Waits a while for a list of tools that is on its way, so that the next step has it."""
        await asyncio.sleep(0)  # the owner begins to list
        if self._listing is not None and not self._listing.done():
            await asyncio.wait({self._listing}, timeout=_REFRESH_S)

    def _refusal(self, tool: str, error: BaseException | None) -> ToolError:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            return ToolError(f"The MCP server {self._name} refused {tool}: {error.message[:_MAX_CHARS]}")
        said = "" if error is None else f" ({_words(error)})"
        return ToolError(
            f"The MCP server {self._name} was lost while {tool} ran{said}. The call may have had effects."
        )


def _is_closed(call: asyncio.Future[Any]) -> bool:
    """Whether a call that is over failed because the connection is closed."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    error = None if call.cancelled() else call.exception()
    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


async def _listed(client: Client) -> list[Tool]:
    return await all_pages(client.list_tools, "tools")


async def all_pages(listing: Callable[..., Awaitable[Any]], name: str) -> list[Any]:
    """Everything that a server lists, page by page.

    listing: gives the page at a cursor
    name:    of the page's items
    """
    found: list[Any] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):
        page = await listing(cursor=cursor)
        found += getattr(page, name)
        cursor = page.next_cursor
        if not cursor:
            break
    return found


def _failure(task: asyncio.Task[Any]) -> BaseException | None:
    return None if task.cancelled() else task.exception()


def _words(error: BaseException | None) -> str:
    """What failed, taken out of the groups that it was wrapped in."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "the connection ended"
    # An HTTP client tells the whole address, whose path may be a secret.
    return _ADDRESS.sub(lambda found: shown_address(found[0]).strip("'"), str(error)) or type(error).__name__
