"""Asks the user whether a tool call runs: yes, no, always, or with other arguments.

The agent waits in `approve`, while the reader of its events asks in `follow`. So a question never interrupts
an answer, and the questions about several calls follow each other.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from llmstream.chats.content import ToolCall
from llmstream.cli.errors import error_message
from llmstream.cli.line_editor import ctrl_c_for_editor, edited
from llmstream.cli.terminal import echo, print_message, wrapped
from llmstream.display.plain import Display
from llmstream.display.terminal_text import one_line
from llmstream.errors import LLMStreamError
from llmstream.events import Event, StepStart, ToolApprovalRequest
from llmstream.events import ToolCall as ToolCallEvent
from llmstream.tools import Approve, Deny, PendingCall, Tool, ToolSet

__all__ = ["Approvals"]

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
