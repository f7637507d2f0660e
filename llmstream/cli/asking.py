"""One turn of a conversation with a model: the run of the agent, the user's approvals, the outcome.

The agent waits in `Approvals.approve`, while the reader of its events asks in `Approvals.follow`. So a
question never interrupts an answer, and the questions about several calls follow each other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

import msgspec

from llmstream import Agent, AgentRun, Model
from llmstream.agent.state import Price
from llmstream.chats.chat import Chat
from llmstream.chats.content import ToolCall
from llmstream.chats.message import Message
from llmstream.cli.errors import error_message
from llmstream.cli.keys import api_key_for
from llmstream.cli.line_editor import ctrl_c_for_editor, edited
from llmstream.cli.terminal import echo, print_message, wrapped
from llmstream.cli.tool_sources import ToolSources
from llmstream.display.plain import Display, Wait, warning_line
from llmstream.display.terminal_text import one_line
from llmstream.errors import LLMStreamError
from llmstream.events import Event, StepStart, StreamStart, ToolApprovalRequest
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.providers.registry import find_provider
from llmstream.streams.observations import AttemptFailed, AttemptStarted, Observation
from llmstream.tools import Approve, Deny, PendingCall, Tool, ToolSet
from llmstream.usage import Usage

__all__ = [
    "Approvals",
    "Asker",
    "Outcome",
    "Setup",
    "Spent",
]


@dataclass(frozen=True)
class Outcome:
    """How a turn ended.

    messages: the complete conversation; a stopped or failed turn adds its partial answer
    stopped:  whether Ctrl-C stopped it
    error:    why it failed, or None
    """

    messages: list[Message]
    stopped: bool = False
    error: LLMStreamError | None = None


@dataclass
class Spent:
    """Tokens and cost of all turns, by "provider:model"; a model without a known price has no cost."""

    usage: dict[str, Usage] = field(default_factory=dict)
    usd: dict[str, float] = field(default_factory=dict)

    def add(self, run: AgentRun, price: Price | None) -> float | None:
        """Adds a run; returns its cost in US dollars, None if unknown."""
        total = None
        for model, usage, _ in run.state.spent:
            self.usage[model] = self.usage.get(model, Usage()) + usage
            cost = price(model, usage) if price is not None else None
            if cost is not None:
                self.usd[model] = self.usd.get(model, 0.0) + cost
                total = (total or 0.0) + cost
        return total


class Asker:
    """Runs turns and shows the answers; each warning appears once.

    show:      creates the display of one turn; called inside a running event loop
    approvals: decides about tool calls
    price:     returns the cost of tokens; None to show no cost
    warnings:  whether to show warnings
    """

    def __init__(
        self,
        show: Callable[[], Display],
        approvals: Approvals | None = None,
        *,
        price: Price | None = None,
        warnings: bool = True,
    ) -> None:
        self._make_show = show
        self._price = price
        self.approvals = approvals
        self.spent = Spent()
        self._warnings = warnings
        self._shown_warnings: set[str] = set()
        self._show: Display | None = None
        self._run: AgentRun | None = None
        self.max_retries = 0

    def observe(self, observation: Observation) -> None:
        """Observes the model, to show why a turn waits for its next attempt."""
        if self._show is None:
            return
        if isinstance(observation, AttemptFailed) and observation.wait_s is not None:
            self._show.wait(
                Wait(
                    why=f"{observation.status or ''} {observation.error_code.replace('-', ' ')}".strip(),
                    seconds=observation.wait_s,
                    attempt=observation.attempt + 1,
                    of=self.max_retries + 1,
                )
            )
        elif isinstance(observation, AttemptStarted) and observation.attempt > 1:
            self._show.wait(None)

    async def ask(self, agent: Agent, messages: Sequence[Message], chat: Chat | None = None) -> Outcome:
        """Runs one turn and shows it. A chat becomes the messages, and receives the answer as it comes.

        A cancellation stops it and closes the socket; the outcome has the partial answer.
        """
        self.max_retries = agent.model.retry.max_retries
        if chat is None:
            run = self._run = agent.stream(messages)
        else:
            chat.replace(*messages)
            run = self._run = agent.stream([], chat=chat)
        if self.approvals is not None:
            self.approvals.begin()
        shown = self._show = self._make_show()
        stopped, error = False, None
        try:
            async with run, aclosing(aiter(run)) as events:
                async for event in events:
                    shown.feed(self._once(event))
                    if self.approvals is not None:
                        await self.approvals.follow(event, shown)
        except asyncio.CancelledError:
            stopped = True
            task = asyncio.current_task()
            if task is not None:
                # Ctrl-C has stopped the turn, and ends nothing else.
                task.uncancel()
        except LLMStreamError as failure:
            error = failure
        finally:
            self._show = None
            shown.close(stopped=stopped, usd=self.spent.add(run, self._price))
        return Outcome(run.messages(), stopped, error)

    def interrupted(self) -> Outcome:
        """Returns the outcome of the last turn after a second Ctrl-C cut its shutdown short."""
        return Outcome(self._run.messages() if self._run is not None else [], stopped=True)

    def _once(self, event: Event) -> Event:
        """Removes warnings that were shown before."""
        if not isinstance(event, StreamStart | StepStart) or not event.warnings:
            return event
        new = []
        for warning in event.warnings:
            line = warning_line(warning)
            if self._warnings and line not in self._shown_warnings:
                self._shown_warnings.add(line)
                new.append(warning)
        return msgspec.structs.replace(event, warnings=new)


@dataclass(frozen=True)
class Setup:
    """The model to ask and the options of the requests.

    options: passed to `Agent`
    """

    model: str
    base_url: str | None = None
    tools: ToolSources = field(default_factory=ToolSources)
    options: Mapping[str, Any] = field(default_factory=dict)

    def agent(self, asker: Asker | None = None) -> Agent:
        """Creates the agent, whose attempts and approvals the asker shows.

        raises: InvalidRequest for options that do not fit
        """
        observe = asker.observe if asker is not None else None
        approvals = asker.approvals if asker is not None else None
        approve = approvals.approve if approvals is not None else None
        model = Model(self.model, base_url=self.base_url, api_key=api_key_for(self.model), observe=observe)
        return Agent(model, tools=self.tools.offered, approve=approve, **self.options)

    def check_key(self) -> None:
        """Reports a missing key before anything is sent.

        raises: MissingKey
        """
        find_provider(self.model.partition(":")[0]).key(api_key_for(self.model))

    @property
    def stored_model(self) -> str:
        """Model to store in a saved conversation; "" with a base URL.

        Continuing a conversation with a private server must not send it to the vendor.
        """
        return "" if self.base_url else self.model

    def with_model(self, model: str) -> Self:
        """Returns the setup with another model; the base URL stays if the provider does."""
        same = model.partition(":")[0] == self.model.partition(":")[0]
        return replace(self, model=model, base_url=self.base_url if same else None)


# Approvals of tool calls: yes, no, always, or with other arguments.

# Longer arguments are shown as indented JSON.
_SHORT_CHARS: Final = 100
_HELP: Final = "y runs it, n does not (n REASON tells the model why), a runs every call of {}, e edits it"
_NO_TERMINAL: Final = "There is no terminal to ask the user on"


class Approvals:
    """Decides about the calls of one conversation.

    tools:    returns the current tools, to check edited arguments
    everyone: run every call
    """

    def __init__(self, tools: Callable[[], Sequence[Tool]], *, everyone: bool = False) -> None:
        self._tools = tools
        self._everyone = everyone
        self._always: set[str] = set()
        self._asked: dict[str, asyncio.Future[PendingCall | None]] = {}
        self._decided: dict[str, asyncio.Future[Approve | Deny]] = {}
        self._calls = 0

    def begin(self) -> None:
        """Forgets the questions of an earlier turn, which may have been stopped."""
        self._asked.clear()
        self._decided.clear()
        self._calls = 0

    async def approve(self, pending: PendingCall) -> Approve | Deny:
        """Decides about a call; used as `approve` of an `Agent`."""
        slot = self._slot(pending.approval_id)
        if self._is_allowed(pending.name):
            slot.set_result(None)
            return Approve()
        decided: asyncio.Future[Approve | Deny] = asyncio.get_running_loop().create_future()
        self._decided[pending.approval_id] = decided
        slot.set_result(pending)
        return await decided

    async def follow(self, event: Event, shown: Display) -> None:
        """Asks the user when an event of the run requests an approval; the reader of the run waits.

        shown: has shown the event
        """
        if isinstance(event, StepStart):
            self._calls = 0
        elif isinstance(event, ToolCallEvent):
            self._calls += 1
        elif isinstance(event, ToolApprovalRequest):
            shown.settle()
            await self._answer(event.approval_id)
            shown.wait(None)

    async def _answer(self, approval_id: str) -> None:
        """Asks about a call, unless it needs no question."""
        pending = await self._slot(approval_id)
        if pending is None:
            return
        decision: Approve | Deny = Approve()
        # An earlier answer may have allowed all calls of this tool.
        if not self._is_allowed(pending.name):
            # A single short call is already shown above the question.
            is_seen = self._calls == 1 and len(pending.arguments) <= _SHORT_CHARS
            with echo(True):
                decision = await self._ask(pending, show=not is_seen)
        self._decided[approval_id].set_result(decision)

    def _is_allowed(self, name: str) -> bool:
        return self._everyone or name in self._always

    def _slot(self, approval_id: str) -> asyncio.Future[PendingCall | None]:
        """The call with an id, once the agent requests a decision; either one may arrive first."""
        if approval_id not in self._asked:
            self._asked[approval_id] = asyncio.get_running_loop().create_future()
        return self._asked[approval_id]

    async def _ask(self, pending: PendingCall, *, show: bool) -> Approve | Deny:
        name = one_line(pending.name)
        if not _is_interactive():
            print_message(f"{name} was not run: there is no terminal to ask on. To run all calls: --yes")
            return Deny(_NO_TERMINAL)
        if show:
            print(_shown(pending))
        while True:
            reply = await _line("Run it? [y]es, [n]o, [a]lways, [e]dit: ")
            # The end of the input (Ctrl-D) runs nothing.
            letter, _, rest = (reply or "n").strip().partition(" ")
            match letter.lower():
                case "y" | "yes":
                    return Approve()
                case "n" | "no":
                    return Deny(rest.strip().rstrip(".") or "the user refused it")
                case "a" | "always":
                    self._always.add(pending.name)
                    return Approve()
                case "e" | "edit":
                    decision = await self._edited(pending)
                    if decision is not None:
                        return decision
                case _:
                    print(wrapped(_HELP.format(name)))

    async def _edited(self, pending: PendingCall) -> Approve | None:
        """Lets the user edit the arguments; None, with a message, if that changes nothing or they do not fit.

        Closing the editor without saving does not approve the call.
        """
        before = _indented(pending.arguments)
        try:
            # Here, on the main thread: `edited` runs in another thread, which cannot set handlers.
            with ctrl_c_for_editor():
                text = await asyncio.to_thread(edited, before, suffix=".json")
        except LLMStreamError as error:
            print_message(error_message(error))
            return None
        if text.strip() == before.strip():
            print("The arguments are unchanged.")
            return None
        # An emptied file: no arguments.
        text = text.strip() or "{}"
        call = ToolCall(pending.call_id, pending.name, text)
        refusal = ToolSet.of(self._tools()).error_of(call)
        if refusal is not None:
            print_message(error_message(refusal))
            return None
        arguments: dict[str, Any] = msgspec.json.decode(text)
        print(_shown(msgspec.structs.replace(pending, arguments=_compact(text))))
        return Approve(arguments)


def _is_interactive() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _shown(pending: PendingCall) -> str:
    """The call with all its arguments, because the decision covers all of them."""
    if len(pending.arguments) <= _SHORT_CHARS:
        return str(pending)
    rows = [one_line(row) for row in _indented(pending.arguments).splitlines()]
    return "\n".join([f"{one_line(pending.name)}(", *(f"  {row}" for row in rows), ")"])


def _compact(arguments: str) -> str:
    return msgspec.json.format(arguments.encode(), indent=-1).decode()


def _indented(arguments: str) -> str:
    try:
        return msgspec.json.format(arguments.encode(), indent=2).decode()
    # It may be invalid JSON; then the call fails later, with an error for the model.
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return arguments


async def _line(prompt: str) -> str | None:
    """Reads one line from the terminal while the loop runs; None at its end (Ctrl-D).

    Input typed before the question is dropped.
    """
    # Windows: its event loops cannot wait for a console.
    if sys.platform == "win32":
        with suppress(EOFError):
            return await asyncio.to_thread(input, prompt)
        return None
    import termios

    loop, terminal = asyncio.get_running_loop(), sys.stdin.fileno()
    termios.tcflush(terminal, termios.TCIFLUSH)
    print(prompt, end="", flush=True)
    readable = asyncio.Event()
    # Not `input` in a thread, which a Ctrl-C could not end.
    loop.add_reader(terminal, readable.set)
    try:
        await readable.wait()
    except asyncio.CancelledError:
        print()
        raise
    finally:
        loop.remove_reader(terminal)
    data = os.read(terminal, 4096)
    if not data:
        print()
    return data.decode("utf-8", "replace") if data else None
