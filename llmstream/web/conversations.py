"""Conversations with an agent: each turn is a run in an event log, which continues without a reader.

What the log of a run that has ended adds to a conversation is at the end.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import msgspec

from llmstream.accumulate import Accumulator
from llmstream.agent.suspension import Suspension
from llmstream.chats.message import Message, Role
from llmstream.chats.saved import dump_messages, load_messages
from llmstream.errors import InvalidRequest, LLMStreamError, LogError, ProducerLost, RunNotFound
from llmstream.events import (
    ErrorEvent,
    Event,
    Finish,
    Raw,
    ReasoningDelta,
    StepStart,
    TextDelta,
    ToolCall,
    ToolInputDelta,
    ToolResult,
    encode,
)
from llmstream.log import Live, Logs
from llmstream.serve import Body
from llmstream.serve.writers import safe_event
from llmstream.tools.approval import Approve, Deny
from llmstream.ui import sse
from llmstream.ui.page_run import PageRun, calls_below
from llmstream.ui.sse import no_run, refusal
from llmstream.web.store import Conversation, ConversationStore, Decision, Summary, Turn, TurnView, View

if TYPE_CHECKING:
    from llmstream.agent.agent import Agent
    from llmstream.agent.run import AgentRun

__all__ = ["Conversations", "compacted", "folded"]

_log: Final = logging.getLogger("llmstream")

# One line of the list.
_TITLE_CHARS: Final = 60

# How long a decision waits for the end of the run that requests it, in which other calls may still run.
_END_S: Final = 10.0

# How the ids of runs begin.
_RUN: Final = "web-"


class Conversations:
    """Conversations with one agent, for a web server. Use it inside the `async with` of its logs.

    agent:   answers. Its runs are produced in this process, and can be followed and stopped from any
    logs:    where the events of runs are; in a file, they are there after a restart
    store:   where conversations are
    details: True shows errors as they are, for an operator who is the visitor too; by default a page gets
             the code and the `public_message`

    Methods that take the id of a conversation raise InvalidRequest: `status` is 404 if there is none, 409 if
    a run is open or a call has been decided already, 400 for what cannot be accepted.
    """

    def __init__(self, agent: Agent, logs: Logs, store: ConversationStore, *, details: bool = False) -> None:
        self._agent, self._logs, self._store = agent, logs, store
        self.details = details
        self._closing: set[asyncio.Task[None]] = set()

    def summaries(self) -> list[Summary]:
        """All conversations, the one that changed last first."""
        return self._store.summaries()

    async def view(self, conversation_id: str) -> View:
        """A conversation with the events of all runs that have ended."""
        conversation = await self._settled(conversation_id)
        return View(
            id=conversation.id,
            version=conversation.version,
            title=conversation.title,
            updated_at_s=conversation.updated_at_s,
            open_run=conversation.open_run,
            waiting=bool(conversation.suspension),
            turns=[self._turn_view(turn) for turn in conversation.turns],
        )

    async def begin(self, prompt: str) -> View:
        """Begins a conversation with a prompt."""
        _check_prompt(prompt)
        title = " ".join(prompt.split())
        short = title if len(title) <= _TITLE_CHARS else title[: _TITLE_CHARS - 1] + "…"
        now = time.time()
        conversation = Conversation(id=secrets.token_hex(8), title=short, created_at_s=now, updated_at_s=now)
        self._store.add(conversation)
        try:
            return await self.send(conversation.id, prompt)
        except LLMStreamError:
            # A conversation without a turn would appear in the list.
            self._store.delete(conversation.id)
            raise

    async def send(self, conversation_id: str, prompt: str) -> View:
        """Sends a further prompt. Calls that wait for a decision are cancelled."""
        _check_prompt(prompt)
        conversation = await self._settled(conversation_id)
        return await self._ask(conversation, prompt, conversation.messages, keep=len(conversation.turns))

    async def retry(self, conversation_id: str) -> View:
        """Asks the last prompt again; what has been answered to it is deleted."""
        conversation = await self._settled(conversation_id)
        at = max((i for i, turn in enumerate(conversation.turns) if turn.prompt), default=None)
        if at is None:
            raise InvalidRequest("there is no prompt to send again", status=400)
        turn = conversation.turns[at]
        return await self._ask(conversation, turn.prompt, turn.before, keep=at)

    async def decide(self, conversation_id: str, decisions: Mapping[str, Decision]) -> View:
        """Continues a run that waits, with decisions by approval id; undecided calls continue to wait.

        A page may decide as soon as it sees a request for approval. The end of the run is waited for.
        """
        conversation = await self._settled(conversation_id)
        # Before any wait: a second click on a button is refused at once.
        decided = any(name in turn.decisions for turn in conversation.turns for name in decisions)
        if not decided:
            conversation = await self._after_its_run(conversation)
            _check_ended(conversation)
        if decided or not conversation.suspension:
            raise InvalidRequest("these calls have been decided already", status=409)
        made = {name: _decision(one) for name, one in decisions.items()}
        suspension = Suspension.from_json(conversation.suspension)
        try:
            run = PageRun(self._agent.resume(suspension, made), resumed=suspension)
        except InvalidRequest as error:
            # Such as arguments that do not fit: the page is at fault, and not the state of the conversation.
            error.status = 400
            raise
        turn = Turn(run=_new_run(), decisions=dict(decisions), waited=conversation.suspension)
        return await self._start(conversation, turn, run, keep=len(conversation.turns))

    async def stop(self, conversation_id: str) -> None:
        """Stops the open run, regardless of who started it; does nothing if none is open."""
        run = self._store.get(conversation_id).open_run
        if run is not None:
            await self._logs.stop(run)

    async def delete(self, conversation_id: str) -> None:
        """Deletes a conversation; an open run is stopped."""
        await self.stop(conversation_id)
        self._store.delete(conversation_id)

    async def body(self, run: str, after: str | int | None = None) -> Body:
        """The events of a run after a number, as Server-Sent Events; its statuses are those of `ui.sse.body`.

        Leaving it stops nothing. A failure of the run is an event of it.

        after: number of the last event that the page has, as it was sent
        """
        if not run.startswith(_RUN):  # other runs in the log are not for pages
            return Body.complete(await refusal(self._logs, run, no_run(run), details=self.details))
        return await sse.body(self._logs, run, after, details=self.details)

    async def follow(self, run: str, after: int = -1) -> AsyncGenerator[Event]:
        """Yields the events of a run after a number, those that are there and then those that come.

        raises: RunNotFound, LogError
        """
        async with aclosing(self._logs.follow(run, after, errors="events")) as events:
            async for _, event in events:
                yield event

    async def aclose(self) -> None:
        """Waits until the runs that have ended are recorded; call it after the logs were closed."""
        if self._closing:
            await asyncio.wait(self._closing)

    async def _ask(self, conversation: Conversation, prompt: str, before: str, *, keep: int) -> View:
        messages = [*load_messages(before), Message.user(prompt)] if before else [Message.user(prompt)]
        turn = Turn(run=_new_run(), prompt=prompt, before=before)
        return await self._start(conversation, turn, PageRun(self._agent.stream(messages)), keep=keep)

    async def _after_its_run(self, conversation: Conversation) -> Conversation:
        """The conversation after the end of its open run, or its current state if it does not end soon."""
        if conversation.open_run is None:
            return conversation
        with suppress(TimeoutError, RunNotFound):
            async with asyncio.timeout(_END_S):
                await self._logs.wait(conversation.open_run)
        return await self._settled(conversation.id)

    async def _start(self, conversation: Conversation, turn: Turn, run: PageRun, *, keep: int) -> View:
        """Begins a run and adds its turn, or neither.

        The log has the run first, so that no page sees a turn that it cannot follow.
        """
        _check_ended(conversation)
        seen = len(conversation.turns)
        added = asyncio.Event()
        live = await self._logs.start(turn.run, self._recorded(conversation.id, turn, run, added))

        def add(stored: Conversation) -> None:
            # Two pages may have started a run of the same state: the first one has the turn.
            same = len(stored.turns) == seen and stored.suspension == conversation.suspension
            if not same or stored.open_run is not None:
                raise InvalidRequest("the conversation was continued elsewhere. Reload it.", status=409)
            stored.turns = [*stored.turns[:keep], turn]
            if turn.prompt:
                # Only the last prompt can be repeated; a history for each would grow quadratically.
                for earlier in stored.turns[:keep]:
                    earlier.before = ""
            stored.suspension = ""
            stored.updated_at_s = time.time()

        try:
            self._store.update(conversation.id, add)
        except BaseException:
            # A run without a turn would wait for ever.
            live.stop()
            raise
        added.set()
        task = asyncio.create_task(self._settle_after(live, conversation.id))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return await self.view(conversation.id)

    async def _recorded(
        self, conversation_id: str, turn: Turn, run: PageRun, added: asyncio.Event
    ) -> AsyncGenerator[Event]:
        """The events of a run, which reports its messages when it ends or is stopped."""
        # The run must not begin before its turn is stored: a tool could act for a conversation that refuses
        # it.
        await added.wait()
        if turn.waited and not self._use(conversation_id, turn.run):
            return
        events: list[Event] = []
        try:
            async with aclosing(run), aclosing(aiter(run)) as page_events:
                async for event in page_events:
                    events.append(event)
                    yield event
        finally:
            self._record(conversation_id, turn.run, run.run, events)

    def _use(self, conversation_id: str, run_id: str) -> bool:
        """Notes that the run of a decision begins: after a crash its calls do not wait again.

        returns: False if another process has taken the turn for lost, so that the calls wait again
        """

        def change(stored: Conversation) -> None:
            last = stored.turns[-1] if stored.turns else None
            if last is None or last.run != run_id or last.events is not None:
                raise InvalidRequest("the decision was taken back")
            last.waited = ""

        try:
            self._store.update(conversation_id, change)
        except InvalidRequest:
            return False  # or the conversation was deleted
        return True

    def _record(self, conversation_id: str, run_id: str, run: AgentRun[Any], events: Sequence[Event]) -> None:
        def change(stored: Conversation) -> None:
            # The prompt was repeated meanwhile, and the messages belong to that run.
            if not stored.turns or stored.turns[-1].run != run_id:
                return
            stored.messages = dump_messages(run.messages()).decode()
            stored.suspension = "" if run.suspended is None else run.suspended.to_json().decode()
            last = stored.turns[-1]
            last.recorded = True
            last.cost = run.cost_estimate
            # In the same step as the suspension: of a process that is killed now, the log may lack the last
            # events, such as the request for an approval. The log itself ends a stopped run.
            if last.events is None and events and isinstance(events[-1], Finish):
                last.events = _encoded(events)

        self._update_if_there(conversation_id, change)

    async def _settle_after(self, live: Live, conversation_id: str) -> None:
        """Takes the events of a run over from the log, which deletes them some time after the end."""
        try:
            await live.wait()
            await self._settled(conversation_id)
        except LogError as error:
            # Such as a log that is closed by now: the next view takes the events over.
            _log.info("conversation %s: %s", conversation_id, error)
        except InvalidRequest:
            pass  # deleted while it ran

    async def _settled(self, conversation_id: str) -> Conversation:
        """The conversation, its last run open only if its events may still grow."""
        conversation = self._store.get(conversation_id)
        run = conversation.open_run
        if run is None:
            return conversation
        status = await self._logs.status(run)
        if status is not None and status.state == "open":
            return conversation
        events = await self._ended(run) if status is not None else _lost()

        def change(stored: Conversation) -> None:
            last = stored.turns[-1]
            # Another process, or a view at the same time, has taken them over.
            if last.run != run or last.events is not None:
                return
            if last.waited:
                # Its process died, or it was stopped, before it began: the calls wait again.
                stored.turns.pop()
                stored.suspension = last.waited
                return
            last.events = _encoded(events)
            if not last.recorded:
                # A turn of decisions continues what is stored; one of a prompt begins where it was asked.
                before = load_messages(stored.messages) if stored.messages and not last.prompt else []
                if last.prompt:
                    before = [*(load_messages(last.before) if last.before else []), Message.user(last.prompt)]
                stored.messages = dump_messages([*before, *folded(events)]).decode()

        return self._store.update(conversation_id, change)

    async def _ended(self, run: str) -> list[Event]:
        try:
            async with aclosing(self._logs.follow(run, errors="events")) as events:
                return [event async for _, event in events]
        except LogError:
            return _lost()

    def _update_if_there(self, conversation_id: str, change: Callable[[Conversation], None]) -> None:
        try:
            self._store.update(conversation_id, change)
        except InvalidRequest:
            pass  # deleted while it ran

    def _turn_view(self, turn: Turn) -> TurnView:
        events = turn.events
        if events is not None and not self.details:
            events = [msgspec.Raw(safe_event(bytes(event))) for event in events]
        return TurnView(
            run=turn.run, prompt=turn.prompt, decisions=turn.decisions, events=events, cost=turn.cost
        )


def _new_run() -> str:
    """An id that cannot be guessed: it permits following the run."""
    return _RUN + secrets.token_hex(16)


def _check_prompt(prompt: str) -> None:
    if not prompt.strip():
        raise InvalidRequest("the prompt is empty", status=400)


def _check_ended(conversation: Conversation) -> None:
    if conversation.open_run is not None:
        raise InvalidRequest("an answer is in progress. Wait for its end, or stop it.", status=409)


def _decision(given: Decision) -> Approve | Deny:
    return Approve(given.arguments, note=given.note) if given.approve else Deny(given.note)


def _lost() -> list[Event]:
    """The events of a run whose log is gone too."""
    error = ProducerLost("the run was lost, and its events have expired").info
    return [ErrorEvent(error), Finish("error")]


# What the log of a run that has ended adds to a conversation: its events, and its messages.
#
# A run reports its messages itself when it ends. If its process died, they are folded from its events here,
# so that the next prompt continues from what the person has seen.


_Delta: TypeAlias = TextDelta | ReasoningDelta | ToolInputDelta


def _encoded(events: Sequence[Event]) -> list[msgspec.Raw]:
    return [msgspec.Raw(encode(event)) for event in compacted(events)]


def compacted(events: Sequence[Event]) -> list[Event]:
    """The events with consecutive deltas of a block joined, and without progress that a result has replaced.

    A page that shows them shows the same; they are some fiftieth of the frames.
    """
    # Progress is shown until there is a result.
    done = {one.tool_call_id for one in events if isinstance(one, ToolResult) and not one.preliminary}
    out: list[Event] = []
    deltas: list[_Delta] = []
    for event in events:
        if isinstance(event, Raw) or (
            isinstance(event, ToolResult) and event.preliminary and event.tool_call_id in done
        ):
            continue
        if deltas and not _continues(event, deltas[0]):
            out.append(_joined(deltas))
            deltas = []
        if isinstance(event, _Delta):
            deltas.append(event)
        else:
            out.append(event)
    return [*out, _joined(deltas)] if deltas else out


def _continues(event: Event, first: _Delta) -> bool:
    return (
        isinstance(event, _Delta)
        and type(event) is type(first)
        and event.id == first.id
        # Its metadata belongs to this place, such as a signature in the middle of a text.
        and event.provider_metadata is None
    )


def _joined(deltas: list[_Delta]) -> Event:
    return msgspec.structs.replace(deltas[0], delta="".join([one.delta for one in deltas]))


def folded(events: Iterable[Event]) -> list[Message]:
    """The messages of a run: a response and the results of its calls for each step, as far as received.

    Calls without a result get a "cancelled" one when the conversation is sent; results of calls that an
    earlier run made come first, in a separate message.
    """
    steps = [Accumulator()]
    early: list[ToolResult] = []
    events = list(events)
    below = calls_below(events)
    for event in events:
        if isinstance(event, ToolCall | ToolResult) and event.tool_call_id in below:
            continue
        if isinstance(event, StepStart) and steps[-1].partial.parts:
            steps.append(Accumulator())
        # Of a call of the turn before, which this run has continued.
        if isinstance(event, ToolResult) and not steps[-1].tool_calls:
            early.append(event)
        else:
            steps[-1].feed(event)
    messages = [_early_results(early)] if early else []
    for step in steps:
        if step.partial.parts:
            messages.append(step.partial)
        if step.tool_message is not None:
            messages.append(step.tool_message)
    return messages


def _early_results(results: list[ToolResult]) -> Message:
    """Results without their calls, as the model can read them: the calls have "cancelled" results by now."""
    lines = [
        f"The call of {one.tool_name} has run: {msgspec.json.encode(one.result).decode()}" for one in results
    ]
    return Message("", Role.USER, Message.user("\n".join(lines)).parts)
