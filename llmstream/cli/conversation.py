"""A conversation on a terminal: lines in, answers out, until one leaves."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Final

from llmstream.agent import Agent
from llmstream.chats import Chat, Message
from llmstream.cli.asking import ask
from llmstream.cli.exits import FINE, INTERRUPTED
from llmstream.cli.show import Show
from llmstream.cli.terminal import complain, one_line, typed
from llmstream.errors import LLMStreamError

__all__ = ["Conversation"]

_HELP: Final = """\
/save FILE  write the conversation to a file
/new        begin anew; the system prompt stays
/quit       leave; so do Ctrl-D and, where no answer is coming, Ctrl-C
A line that ends in a backslash goes on in the next one. Ctrl-C stops an answer and keeps what came."""


class Conversation:
    """Turns of one chat, in one event loop, so that connections are used again.

    save_to: a file that is written after each turn
    """

    def __init__(
        self, agent: Agent, chat: Chat, show: Callable[[], Show], *, save_to: str | None = None
    ) -> None:
        self._agent = agent
        self._chat = chat
        self._show = show
        self._save_to = save_to

    def run(self) -> int:
        """Talks until the user leaves; gives the exit status."""
        try:
            import readline  # noqa: F401  # line editing and history for input()
        except ImportError:
            pass
        model = self._agent.model
        print(f"{one_line(f'{model.provider.name}:{model.name}')}. /help for help, /quit or Ctrl-D to leave.")
        with asyncio.Runner() as runner:
            while True:
                try:
                    line = _read()
                except EOFError:
                    print()
                    return FINE
                except KeyboardInterrupt:
                    print()
                    return INTERRUPTED
                if line.startswith("/"):
                    if self._obey(line):
                        return FINE
                elif line:
                    self._turn(runner, line)

    def _obey(self, line: str) -> bool:
        """Does what a line of the form /word says; True to leave."""
        word, _, rest = line.partition(" ")
        match word, rest.strip():
            case "/quit" | "/exit", _:
                return True
            case "/save", "":
                complain("/save needs the name of a file")
            case "/save", path:
                self._save(path)
            case "/new", _:
                system = self._chat.system_prompt()
                self._chat.replace(*([Message.system(system)] if system else []))
                print("The conversation begins anew.")
            case "/help", _:
                print(_HELP)
            case _:
                complain(f"there is no {word}; /help lists what there is")
        return False

    def _turn(self, runner: asyncio.Runner, line: str) -> None:
        before = self._chat.messages()
        outcome = runner.run(ask(self._agent, [*before, Message.user(line)], self._show))
        if outcome.stopped:
            complain("stopped; what came is kept")
        if outcome.error is not None:
            complain(str(outcome.error))
        if len(outcome.messages) > len(before) + 1:
            self._chat.replace(*outcome.messages)
        else:
            complain("nothing came, so your line is not part of the conversation; say it again")
        if self._save_to:
            self._save(self._save_to)

    def _save(self, path: str) -> None:
        try:
            self._chat.save(path)
        except OSError as error:
            complain(f"cannot write {path}: {error.strerror or error}")
        except LLMStreamError as error:
            complain(str(error))


def _read() -> str:
    """One prompt, of one line or of several."""
    line = input("> ")
    while line.endswith("\\"):
        line = f"{line[:-1]}\n{input('… ')}"
    return typed(line.strip())
