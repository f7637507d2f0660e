"""`Chats`: the backend of a page with `useChat`, as four calls.

The server has the conversations. A run is produced into an event log, independently of its readers: closing
or reloading the page does not stop it, and the page reads it again from its beginning, in any process.
"""

from __future__ import annotations

import asyncio
import json
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, Unpack

import msgspec

from llmstream.agent.config import RunOptions
from llmstream.chats.content import outcome_mark
from llmstream.chats.message import Role
from llmstream.errors import InvalidRequest, LogError, LogLost, RunExists, RunNotFound
from llmstream.events import Event, Finish, ResponseMetadata, RetryNotice, StreamStart, ToolApprovalRequest
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.events import ToolResult as ToolResultEvent
from llmstream.log import Live, Logs, RunStatus, open_logs
from llmstream.serve.body import Body
from llmstream.tools.outcome import CANCELLED
from llmstream.ui.page_run import PageRun
from llmstream.ui.vercel.conversations import Conversation, Conversations, Decided, open_conversations
from llmstream.ui.vercel.history import dump, message_events, messages_of, without_placeholders
from llmstream.ui.vercel.reading import Limits, read
from llmstream.ui.vercel.turns import (
    Turn,
    answer_place,
    index_of,
    requested_turn,
    shown_calls,
    with_answer,
)
from llmstream.ui.vercel.writer import Version, Writer
from llmstream.warming import try_to_warm_up

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent
    from llmstream.agent.run import AgentRun

__all__ = ["Chats"]

_log: Final = logging.getLogger("llmstream")

MakeWriter: TypeAlias = Callable[[Version, str | None], Writer]

# How long after its end a response is replayed: longer than a page takes from loading to its request.
_RECENT_S: Final = 30.0

# How long another request may take from storing a conversation to starting its run. A slower one cannot start
# it any more: its run is claimed, or its version of the conversation replaced.
_START_S: Final = 1.0
_LOOK_S: Final = 0.02

# How long a stopped run may take to clean up its tools and write its end.
_STOP_S: Final = 10.0

# The error text for the page.
_BUSY: Final = "A response is in progress. Wait for its end, or stop it."
_STALE: Final = "This page is out of date. Reload it."
_UNFIT: Final = "The call cannot continue: the decision does not fit it, or came too late."


class Chats:
    """Conversations of pages with one agent.

        chats = vercel.Chats("sqlite:chats.db", agent)
        respond(await chats.answer(await request.body(), user=user))

    `answer` is for the page's POST requests, `resume` for its GET requests of `{api}/{id}/stream`; `stop`
    and `load` are for routes of the application.

    A conversation belongs to one user: pages choose its id, so an id alone is no permission. Bodies are for
    `respond` of `llmstream.serve`. A request that cannot be answered is a body too, with a status and a text.

    `async with chats` connects to the vendor in advance, and closes the chats at the end.

    store:     "sqlite:PATH", "memory:", or an object with the methods of `Conversations`
    agent:     responds; its journal and hooks work as anywhere else
    logs:      where runs are produced and read; by default beside the conversations, or in memory with a
               store of the application
    stop_when_left_s: a response that no page has read for so long is stopped; by default it goes on
    version:   of npm ai in the pages, where a call does not name it
    limits:    sizes of a request
    allow_url: whether files may be fetched from an address; by default pages send them as data
    writer:    returns the writer of a response, from its version and message id
    """

    def __init__(
        self,
        store: str | Conversations,
        agent: Agent[Any, Any],
        *,
        logs: Logs | None = None,
        stop_when_left_s: float | None = None,
        version: Version = 6,
        limits: Limits = Limits(),
        allow_url: Callable[[str], bool] | None = None,
        writer: MakeWriter | None = None,
    ) -> None:
        self.agent = agent
        self._store = open_conversations(store) if isinstance(store, str) else store
        self._owns_logs = logs is None
        self._logs = logs or open_logs(store if isinstance(store, str) else "memory:")
        self._lives: set[Live] = set()
        self._warming: asyncio.Task[None] | None = None
        self._stop_when_left_s = stop_when_left_s
        self._version: Version = version
        self._limits = limits
        self._allow_url = allow_url
        self._writer = writer or _writer

    async def __aenter__(self) -> Self:
        # In the background: a server starts without its vendor too.
        self._warming = asyncio.create_task(try_to_warm_up(self.agent.model))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    async def answer(
        self,
        body: bytes,
        *,
        user: str,
        version: Version | None = None,
        deps: Any = None,
        **options: Unpack[RunOptions],
    ) -> Body:
        """Starts the run that a page requests: for a new or edited message, another response, or decisions.

        A new message stops the response in progress, whose text stays.

        body:    of the request
        user:    whose conversation it is, as the application has authenticated it
        version: of npm ai in this page
        deps, options: of the run, as for `Agent.stream`; one that continues keeps its instructions
        raises:  InvalidRequest for options of the run; LogError if the log cannot be written
        """
        try:
            request = read(body, limits=self._limits, allow_url=self._allow_url)
        except InvalidRequest as error:
            return Body.plain(400, str(error))
        key = _key(user, request.id)
        old, status = await self._started(key)
        if status is not None and _is_open(status):
            if request.messages or request.trigger == "regenerate-message":
                await self._stop(status)
            elif old.suspension is not None:
                await self._ended(status)  # it waits for decisions, and only its end is not written yet
            # Stopped and ended runs are stored by now.
            old, status = await self._found(key)
        if _is_open(status) or _is_starting(old, status):
            return Body.plain(409, _BUSY)
        turn = requested_turn(old, request)
        if turn is None:
            return Body.plain(409, _STALE)
        try:
            run = self._run(turn, deps, options)
        except InvalidRequest as error:
            if turn.resumed is None:
                raise  # options of the application
            _log.warning("a decision of a page was refused: %s", error)
            return Body.plain(400, _UNFIT)
        begun = await self._begin(key, old, turn, run, complete=deps is None and not options)
        if begun is None:
            return Body.plain(409, _BUSY)
        return self._body(begun, version, self._events_for_page(begun))

    async def resume(self, chat_id: str, *, user: str, version: Version | None = None) -> Body:
        """Replays the response in progress, and continues with new events; 204 if there is none.

        Also one that has just ended: a page that loaded before the end but sends its request after it could
        not get the answer otherwise. One that was stopped before its first content has no message in the
        conversation, and is 204 too. Decisions whose process died before their run began are continued here
        and in `load`; with deps or options of the run, which are not stored, the page asks for them again.
        """
        found, status = await self._continued(_key(user, chat_id))
        if status is None or not _is_recent(status):
            return Body.plain(204)
        if status.state == "stopped" and found.stored and _answer_at(found) is None:
            return Body.plain(204)  # a replayed `start` would add an empty message to the page
        # The process may have died between storing the response and writing its end into the log.
        if found.finish is not None and status.state != "closed":
            return self._body(found, version, _stored_events(found, found.finish))
        return self._body(found, version, self._replayed(found))

    async def stop(self, chat_id: str, *, user: str) -> bool:
        """Stops the response in progress, and returns when it has ended; False if there is none.

        Its content so far is in the conversation. The page's own `stop()` only disconnects. A tool
        that does not end is waited for only some seconds; until its end a new message is refused with 409.
        """
        key = _key(user, chat_id)
        found, status = await self._started(key)
        if found.decided is not None:
            # Of a process that has died: the calls wait again, so that no page continues them.
            await self._store.save(key, msgspec.structs.replace(found, decided=None, stored=True))
        return await self._stop(status)

    async def load(
        self, chat_id: str, *, user: str, resume: bool = False, version: Version | None = None
    ) -> list[dict[str, Any]]:
        """Returns the conversation as UI messages, for `useChat({messages})`; [] for a new one.

        resume:  the page asks for `resume` next, as with `useChat({resume: true})`: the message that it reads
                 then is left out. Older releases of npm ai would show it twice
        version: of npm ai in this page
        """
        found, status = await self._continued(_key(user, chat_id))
        messages, suspension = found.messages, found.suspension
        if resume and _is_recent(status):
            # `resume` gives the page this message again, from its beginning.
            messages = messages[: _answer_at(found)]
            suspension = None
        shown = [message for message in messages if message.role != Role.SYSTEM]
        return dump(shown, suspension, version=version or self._version)

    async def delete(self, chat_id: str, *, user: str) -> None:
        """Stops the response in progress and deletes the conversation."""
        await self.stop(chat_id, user=user)
        await self._store.delete(_key(user, chat_id))

    async def aclose(self) -> None:
        """Stops the runs of this process, stores their content, and closes the store."""
        if self._warming is not None:
            self._warming.cancel()
            await asyncio.wait([self._warming])
        lives = [live for live in self._lives if not live.task.done()]
        for live in lives:
            live.stop("closing")
        if lives:
            await asyncio.wait([live.task for live in lives], timeout=_STOP_S)
        # Before the store is closed: runs that end here store their content.
        if self._owns_logs:
            await self._logs.aclose()
        await self._store.aclose()

    async def _found(self, key: str) -> tuple[Conversation, RunStatus | None]:
        """The conversation, and the status of its last run.

        If its process died, the events in the log, which pages have seen, are stored now.
        """
        found = await self._store.load(key) or Conversation()
        if found.run is None or found.decided is not None:
            return found, None  # nothing has run since its suspension
        status = await self._logs.status(found.run)
        if found.stored or _is_open(status) or _is_starting(found, status):
            return found, status
        if status is None and not await self._claimed(found.run):
            return await self._found(key)
        events: list[Event] = []
        with suppress(RunNotFound, LogLost):  # the log has already deleted the run
            events = [event async for event in self._events(found.run)]
        messages = messages_of(found.messages, events)
        at = None if found.continued else answer_place(messages, len(found.messages))
        if at is not None:
            messages[at] = messages[at].with_meta("id", found.message_id)
        saved = msgspec.structs.replace(found, messages=tuple(messages), stored=True)
        # If it was not saved, another process saved it first.
        await self._store.save(key, saved)
        return await self._store.load(key) or Conversation(), status

    async def _started(self, key: str) -> tuple[Conversation, RunStatus | None]:
        """`_found`, once the run that another request is starting has begun, or is not going to begin."""
        found, status = await self._found(key)
        looks = round(_START_S / _LOOK_S) + 1
        while _is_starting(found, status) and looks > 0:
            await asyncio.sleep(_LOOK_S)
            found, status = await self._found(key)
            looks -= 1
        return found, status

    async def _continued(self, key: str) -> tuple[Conversation, RunStatus | None]:
        """`_started`, and begins the run of decisions whose process died before it did."""
        found, status = await self._started(key)
        decided = found.decided
        if decided is None or not decided.complete:
            return found, status
        turn = Turn(
            found.messages, str(found.message_id), found.suspension, decided.decisions, decided.results
        )
        try:
            run = self._run(turn, None, {})
        except InvalidRequest as error:
            _log.warning("a stored decision cannot continue its run: %s", error)
            return found, status
        await self._begin(key, found, turn, run, complete=True)
        return await self._found(key)

    async def _claimed(self, run: str) -> bool:
        """Claims a run that is not in the log, so that a slow process cannot begin it any more.

        returns: False if it has just begun
        """
        try:
            live = await self._logs.start(run, _no_events())
        except RunExists:
            return False
        await live.wait()
        return True

    async def _stop(self, status: RunStatus | None) -> bool:
        """Stops a run, and waits until its log is complete."""
        if status is None or not await self._logs.stop(status.run):
            return False
        if not await self._ended(status):
            _log.warning("a stopped response has not ended; its tools may not")
        return True

    async def _ended(self, status: RunStatus) -> bool:
        """Waits until the log of a run is complete; False if that takes too long."""
        # The run of a process that has died is not closed before its lease has expired.
        wait_s = _STOP_S + max(0.0, status.lost_at - status.now)
        try:
            async with asyncio.timeout(wait_s):
                await self._logs.wait(status.run)
        except TimeoutError:
            return False
        return True

    def _run(self, turn: Turn, deps: Any, options: RunOptions) -> AgentRun[Any]:
        if turn.resumed is None:
            return self.agent.stream(list(turn.messages), deps=deps, **options)
        given = {name: value for name, value in options.items() if name in _RESUMABLE}
        return self.agent.resume(
            turn.resumed,
            turn.decisions,
            results=turn.results,
            deps=deps,
            **given,  # type: ignore[arg-type]
        )

    async def _begin(
        self, key: str, old: Conversation, turn: Turn, run: AgentRun[Any], *, complete: bool
    ) -> Conversation | None:
        """Stores the turn and starts its run.

        complete: whether the run needs nothing but what is stored
        returns:  the conversation; None if another request was first
        raises:   LogError if the log cannot be written; then waiting calls continue to wait
        """
        begun = Conversation(
            messages=turn.messages,
            suspension=turn.resumed,
            run=secrets.token_hex(16),
            message_id=turn.message_id,
            continued=0 if turn.resumed is None else len(turn.messages),
            waited=shown_calls(turn.resumed),
            begun=time.time(),
            version=old.version,
        )
        if turn.resumed is not None:
            decided = Decided(decisions=turn.decisions, results=tuple(turn.results), complete=complete)
            begun = msgspec.structs.replace(begun, decided=decided)
        # Checked by version: of two concurrent requests only one starts a run.
        if not await self._store.save(key, begun):
            return None
        try:
            started = await self._start(
                key, run, turn, msgspec.structs.replace(begun, version=old.version + 1)
            )
        except RunExists:
            return None  # it took too long, and another request has claimed the run
        except LogError:
            await self._store.save(key, msgspec.structs.replace(old, version=old.version + 1))
            raise
        return begun if started else None

    async def _start(self, key: str, run: AgentRun[Any], turn: Turn, begun: Conversation) -> bool:
        async def store(finish: Finish | None) -> None:
            if finish is not None:
                failed = finish.finish_reason == "error"
                usage = msgspec.structs.replace(finish.usage, raw=None)
                finish = None if failed else msgspec.structs.replace(finish, usage=usage)
            ended = msgspec.structs.replace(
                begun,
                messages=with_answer(run, turn, source.cards),
                suspension=run.suspended,
                stored=True,
                finish=finish,
            )
            current: Conversation | None = ended
            # Another process may have stored the log's content, if this one took long to end.
            while current is not None and current.run == ended.run:
                if await self._store.save(key, msgspec.structs.replace(ended, version=current.version)):
                    return
                current = await self._store.load(key)
            _log.warning("a conversation was changed or deleted during a run; its response is not stored")

        allowed = asyncio.Event()
        source = PageRun(
            run,
            resumed=turn.resumed,
            decisions=turn.decisions,
            results=turn.results,
            before_finish=store,
            allowed=allowed,
        )
        live = await self._logs.start(str(begun.run), source, stop_when_left_s=self._stop_when_left_s)
        self._lives.add(live)
        live.task.add_done_callback(lambda task: self._lives.discard(live))
        try:
            if begun.decided is not None:
                # Before this is stored no tool runs, and after it no other process continues the decisions.
                begun = msgspec.structs.replace(begun, suspension=None, decided=None)
                if not await self._store.save(key, begun):
                    return False
                begun = msgspec.structs.replace(begun, version=begun.version + 1)
            allowed.set()
        finally:
            if not allowed.is_set():
                live.stop()
        return True

    def _body(
        self, conversation: Conversation, version: Version | None, events: AsyncGenerator[Event]
    ) -> Body:
        return Body(events, self._writer(version or self._version, conversation.message_id))

    async def _events_for_page(self, conversation: Conversation) -> AsyncGenerator[Event]:
        """The events of the last run; one that failed or was stopped has a result for each of its calls."""
        open_calls = {call.call_id: call.name for call in conversation.waited}
        async with aclosing(self._events(str(conversation.run))) as events:
            async for event in events:
                match event:
                    case ToolCallEvent(invalid=False):
                        open_calls[event.tool_call_id] = event.tool_name
                    case ToolResultEvent(preliminary=False) | ToolApprovalRequest():
                        open_calls.pop(event.tool_call_id, None)
                    case RetryNotice():
                        open_calls.clear()
                    case Finish(finish_reason="error"):
                        # Otherwise the page would show them as running for ever.
                        mark = outcome_mark("cancelled")
                        for call_id, name in open_calls.items():
                            yield ToolResultEvent(
                                CANCELLED, call_id, name, is_error=True, provider_metadata=mark
                            )
                yield event

    async def _replayed(self, conversation: Conversation) -> AsyncGenerator[Event]:
        """The events of the last run, after those of the message that it continues."""
        earlier = conversation.messages[: conversation.continued]
        start = index_of(earlier, Role.ASSISTANT, conversation.message_id)
        async with aclosing(self._events_for_page(conversation)) as events:
            async for event in events:
                yield event
                if isinstance(event, StreamStart) and start is not None:
                    for added in message_events(earlier[start:], conversation.waited):
                        yield added

    async def _events(self, run: str) -> AsyncGenerator[Event]:
        async with aclosing(self._logs.follow(run, errors="events")) as events:
            async for _, event in events:
                yield event


# Of RunOptions, those that `Agent.resume` does not take.
_RESUMABLE: Final = RunOptions.__annotations__.keys() - {"instructions", "extra_instructions"}


def _writer(version: Version, message_id: str | None) -> Writer:
    return Writer(version=version, message_id=message_id)


def _is_open(status: RunStatus | None) -> bool:
    return status is not None and status.state == "open"


def _answer_at(conversation: Conversation) -> int | None:
    """Where the message of the last run begins; None if the conversation has none."""
    return index_of(conversation.messages, Role.ASSISTANT, conversation.message_id)


def _is_starting(conversation: Conversation, status: RunStatus | None) -> bool:
    """Whether the run may be about to begin: the conversation is stored first."""
    # The clock may have been set back since.
    return status is None and not conversation.stored and abs(time.time() - conversation.begun) < _START_S


async def _stored_events(conversation: Conversation, finish: Finish) -> AsyncGenerator[Event]:
    """The events of the message that the last run has written, as it is stored."""
    messages = without_placeholders(conversation.messages, conversation.suspension)
    start = index_of(messages, Role.ASSISTANT, conversation.message_id)
    answer = [] if start is None else messages[start:]
    yield StreamStart()
    for event in message_events(answer, shown_calls(conversation.suspension)):
        yield event
    if answer:
        yield ResponseMetadata((answer[0].metadata or {}).get("model"))
    yield finish


async def _no_events() -> AsyncGenerator[Event]:
    """The events of a run that did not begin."""
    return
    yield


def _is_recent(status: RunStatus | None) -> bool:
    """Whether a page may have to read the run: it is in progress, or has just ended."""
    return status is not None and (status.ended is None or status.now - status.ended <= _RECENT_S)


def _key(user: str, chat_id: str) -> str:
    """Joins user and chat id, so that no user can access another's conversation."""
    return json.dumps([user, chat_id])
