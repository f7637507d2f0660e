"""One session with an MCP server, and the task that opens and closes it.

The package's context managers contain cancel scopes, which the task that entered them must leave. So
a separate task enters and leaves them; callers of tools only send requests and wait.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import anyio

from llmstream.errors import ConnectionFailed, InvalidRequest, ToolError, ToolTimeout
from llmstream.exchange import shown_address

if TYPE_CHECKING:
    from mcp import Client
    from mcp.shared.dispatcher import ProgressFnT
    from mcp.types import CallToolResult, Tool

__all__ = ["Elicit", "Elicitation", "Session", "all_pages", "eliciting", "ended"]


# Waits for the end of a task, so that none remains.


async def ended(task: asyncio.Task[Any], *, at_once: bool = False, within_s: float | None = None) -> None:
    """Waits for the end of a task and its cleanup, even if the waiting task is cancelled.

    at_once:  cancels it now
    within_s: cancels it after this time
    """
    if at_once:
        task.cancel()
    interrupted: BaseException | None = None
    while not task.done():
        try:
            # A scope of anyio around the caller would interrupt each further await.
            with anyio.CancelScope(shield=True):
                await asyncio.wait({task}, timeout=within_s)
            if not task.done():
                within_s = None
                task.cancel()
        except asyncio.CancelledError as error:
            # On cancellation there is no time for an orderly end.
            interrupted = error
            task.cancel()
    if not task.cancelled():
        # Retrieved, so that asyncio does not log it as never retrieved.
        task.exception()
    if interrupted is not None:
        raise interrupted


_T = TypeVar("_T")

_log = logging.getLogger("llmstream.mcp")

_ADDRESS = re.compile(r"https?://[^\s'\"<>]+")

# Maximum number of pages of a list; more are a defect of the server.
_MAX_PAGES = 100

# How long a finished call waits for a new list of tools that it may have caused.
_REFRESH_S = 5.0

# Pause before subscribing to changes again.
_LISTEN_AGAIN_S = 1.0

# Maximum length of an error message of a server.
_MAX_CHARS = 4000

# Limit for closing the session; a process gets signals well before.
_CLOSE_S = 10.0


class Session:
    """A session from `open` to `close`; any task of the loop may make calls.

    name:     name of the server in errors
    client:   context manager of the connection
    changed:  set when the server reports a change of its tools
    on_tools: called with the new tools after a change
    failure:  returns what the server did wrong, for errors; "" for nothing
    """

    def __init__(
        self,
        name: str,
        client: AbstractAsyncContextManager[Client],
        changed: asyncio.Event,
        on_tools: Callable[[list[Tool]], None],
        failure: Callable[[], str] = lambda: "",
    ) -> None:
        self._name = name
        self._entering = client
        self._closing = False
        self._changed = changed
        self._on_tools = on_tools
        self._failure = failure
        self._listing: asyncio.Task[None] | None = None
        self._opened: asyncio.Future[Client] | None = None
        self._tools: list[Tool] = []
        self._owner: asyncio.Task[None] | None = None

    async def open(self, timeout_s: float | None) -> list[Tool]:
        """Connects and returns the server's tools.

        raises: ConnectionFailed if the connection fails or takes too long; nothing is left running
        """
        opened = self._opened = asyncio.get_running_loop().create_future()
        owner = self._owner = asyncio.create_task(self._own())
        try:
            await asyncio.wait({owner, opened}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        # Also when the caller is cancelled: nothing is left running.
        except BaseException:
            await ended(owner, at_once=True)
            raise
        if not opened.done():
            late = not owner.done()
            await ended(owner, at_once=True)
            reasons = (
                f"no answer in {timeout_s:g} s" if late else _message(_failure(owner)),
                self._failure(),
            )
            reason = "; ".join(filter(None, reasons))
            raise ConnectionFailed(f"cannot connect to the MCP server {self._name}: {reason}")
        return self._tools

    async def call(self, tool: str, arguments: dict[str, Any], progress: ProgressFnT) -> CallToolResult:
        """Calls a tool. A cancellation is passed on to the server.

        raises: ToolError if the server refuses the call, or is gone
        """
        result = await self.ask(
            tool, lambda client: client.call_tool(tool, arguments, progress_callback=progress)
        )
        await self._up_to_date()
        return result

    async def ask(
        self, what: str, request: Callable[[Client], Awaitable[_T]], *, timeout_s: float | None = None
    ) -> _T:
        """Sends any request and returns the result.

        what:   name of the request in errors
        raises: ToolError if the server refuses it, is gone, or takes too long
        """
        owner, opened = self._owner, self._opened
        if owner is None or opened is None or owner.done() or self._closing:
            raise ToolError(f"The MCP server {self._name} is no longer connected. {what} has not run.")
        sent = asyncio.ensure_future(request(opened.result()))
        try:
            await asyncio.sleep(0)
            # A request that fails at its first step was not written.
            unsent = sent.done() and _is_closed(sent)
            await asyncio.wait({owner, sent}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            late = not owner.done() and not sent.done()
        finally:
            await ended(sent, at_once=True)
        if late:
            raise ToolTimeout(f"The MCP server {self._name} did not answer {what} within {timeout_s:g} s.")
        error = None if sent.cancelled() else sent.exception()
        if error is None and not sent.cancelled():
            return sent.result()
        if unsent:
            raise ToolError(
                f"The MCP server {self._name} is no longer connected. {what} has not run."
            ) from error
        raise self._refusal(what, error) from error

    async def close(self) -> None:
        """Ends the session and waits until the server is closed, even if cancelled meanwhile."""
        self._closing = True
        # Wakes the owner, which waits for a change.
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
                        # A task, so that calls can wait for it with a limit (`_up_to_date`).
                        self._listing = asyncio.create_task(self._list_again(client))
                        await asyncio.wait({self._listing})
            finally:
                await ended(listening, at_once=True)
                if self._listing is not None:
                    await ended(self._listing, at_once=True)

    async def _list_again(self, client: Client) -> None:
        try:
            self._on_tools(await _listed(client))
        # The old tools remain; the server refuses calls of those that are gone.
        except Exception as error:
            _log.warning(
                "cannot list the changed tools of the MCP server %s: %s", self._name, _message(error)
            )

    async def _listen(self, client: Client) -> None:
        """Subscribes to changes at servers that need it; others send notifications by themselves."""
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
                # Changes in the meantime were not reported.
                self._changed.set()
            except (ListenNotSupportedError, MCPError, TimeoutError):
                return

    async def _up_to_date(self) -> None:
        """Waits briefly for a list of tools that is being fetched, so that the next step has it."""
        # Lets the owner start to list.
        await asyncio.sleep(0)
        if self._listing is not None and not self._listing.done():
            await asyncio.wait({self._listing}, timeout=_REFRESH_S)

    def _refusal(self, tool: str, error: BaseException | None) -> ToolError:
        from mcp import MCPError
        from mcp.types import CONNECTION_CLOSED

        if isinstance(error, MCPError) and error.code != CONNECTION_CLOSED:
            return ToolError(f"The MCP server {self._name} refused {tool}: {error.message[:_MAX_CHARS]}")
        if isinstance(error, (ValueError, RuntimeError)) and not self._has_ended():
            # What the package raises for a result that it cannot validate; the connection continues.
            return ToolError(
                f"The MCP server {self._name} returned a result of {tool} that is not valid "
                f"({_message(error)[:_MAX_CHARS]}). The call may have had effects."
            )
        cause = self._with_failure("" if error is None else _message(error))
        reason = f" ({cause})" if cause else ""
        return ToolError(
            f"The connection to the MCP server {self._name} was lost while {tool} ran{reason}. "
            "The call may have had effects."
        )

    def _has_ended(self) -> bool:
        return self._owner is None or self._owner.done()

    def _with_failure(self, cause: str) -> str:
        return "; ".join(filter(None, (cause, self._failure())))


def _is_closed(call: asyncio.Future[Any]) -> bool:
    """Whether a finished call failed because the connection is closed."""
    from mcp import MCPError
    from mcp.types import CONNECTION_CLOSED

    error = None if call.cancelled() else call.exception()
    return isinstance(error, MCPError) and error.code == CONNECTION_CLOSED


async def _listed(client: Client) -> list[Tool]:
    return await all_pages(client.list_tools, "tools")


async def all_pages(listing: Callable[..., Awaitable[Any]], name: str) -> list[Any]:
    """Fetches all pages of a list.

    listing: fetches the page at a cursor
    name:    name of the field with the items
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


def _message(error: BaseException | None) -> str:
    """Returns the message of an error, taken out of exception groups."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if error is None:
        return "the connection ended"
    # An HTTP client puts the complete URL into its errors, and its path may be secret.
    return _ADDRESS.sub(lambda found: shown_address(found[0]).strip("'"), str(error)) or type(error).__name__


# Elicitation: passes questions of a server to the user, asked while a tool runs, to the application.


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A question to the user. The server asks it, not the model.

    message: text for the user
    schema:  JSON schema of the answer; empty if none is expected
    url:     a page for the user to visit instead; "" for none
    """

    message: str
    schema: Mapping[str, Any] = field(default_factory=dict)
    url: str = ""


Elicit: TypeAlias = Callable[
    [Elicitation], Mapping[str, Any] | bool | Awaitable[Mapping[str, Any] | bool | None] | None
]
"""Returns the answer as a dict; True to accept without one; None or False to decline. Sync or async."""


def eliciting(elicit: Elicit) -> Any:
    """Adapts the function to the callback of the mcp package.

    raises: when called, InvalidRequest for an invalid answer, which fails the tool call
    """
    from mcp.types import ElicitResult

    async def callback(context: Any, params: Any) -> ElicitResult:
        answer = elicit(
            Elicitation(
                params.message, getattr(params, "requested_schema", None) or {}, getattr(params, "url", "")
            )
        )
        found = await answer if inspect.isawaitable(answer) else answer
        if found is None or found is False:
            return ElicitResult(action="decline")
        if found is True:
            return ElicitResult(action="accept", content={})
        if not isinstance(found, Mapping):
            raise InvalidRequest(f"elicit returns a dict, True, False or None; got {found!r}")
        return ElicitResult(action="accept", content=dict(found))

    return callback
