"""An interactive conversation on a terminal: reads prompts and commands, shows answers."""

from __future__ import annotations

import asyncio

from llmstream.chats import Message
from llmstream.cli.asking import Asker, Outcome
from llmstream.cli.errors import INTERRUPTED, SUCCESS, error_message
from llmstream.cli.line_editor import LineEditor
from llmstream.cli.slash_commands import QUIT, Ask, SlashCommands
from llmstream.cli.stored_chats import is_off, name_of
from llmstream.cli.talk import Talk
from llmstream.cli.terminal import echo, print_message, wrapped
from llmstream.display.terminal_text import one_line
from llmstream.errors import LLMStreamError

__all__ = ["Conversation"]


class Conversation:
    """Runs the turns of one chat in one event loop, so that connections are reused."""

    def __init__(self, talk: Talk, asker: Asker, editor: LineEditor) -> None:
        self._talk = talk
        self._asker = asker
        self._editor = editor
        self._commands = SlashCommands(talk, asker.spent, self._save, editor.keys)
        self._answered = False
        self._warned = False
        editor.complete_with(self._commands.complete)

    def run(self) -> int:
        """Reads prompts until the user quits; returns the exit status."""
        with asyncio.Runner() as runner:
            tools = self._talk.setup.tools
            try:
                runner.run(tools.connect())
                print(
                    wrapped(
                        f"{one_line(self._talk.setup.model)}. Type /help for help, /quit or Ctrl-D to quit."
                    )
                )
                return self._read(runner)
            finally:
                runner.run(tools.aclose())

    def _read(self, runner: asyncio.Runner) -> int:
        interrupted = False
        while True:
            try:
                text = self._editor.read()
                interrupted = False
                if self._handle(runner, text) and self._may_quit():
                    return self._quit(SUCCESS)
            except EOFError:
                if self._may_quit():
                    return self._quit(SUCCESS)
            # One Ctrl-C never quits: it may have been meant for an answer that just ended.
            except KeyboardInterrupt:
                typed = self._editor.unfinished
                if interrupted and not typed:
                    return self._quit(INTERRUPTED)
                interrupted = True
                if not typed:
                    print(wrapped(f"{self._unstored()}Press Ctrl-C again, or Ctrl-D, to quit."))

    def _handle(self, runner: asyncio.Runner, text: str) -> bool:
        """Runs a command or asks the model; returns True to quit."""
        line = text.strip()
        if not line:
            return False
        ask: Ask | None
        if not text.startswith("/") or "\n" in line:
            ask = Ask(self._talk.chat.messages(), self._talk.prompt(line))
        elif line in QUIT:
            return True
        else:
            try:
                ask = self._commands.run(line)
            except LLMStreamError as error:
                print_message(error_message(error))
                return False
        if ask is not None:
            self._warned = False
            self._turn(runner, ask)
        return False

    def _unstored(self) -> str:
        """How to keep a conversation that is stored nowhere; "" if there is nothing to lose."""
        if not self._answered or self._talk.is_stored:
            return ""
        return "This conversation is not stored; /save FILE keeps it. "

    def _may_quit(self) -> bool:
        """Whether to quit now; the first time, a conversation that would be lost is reported instead.

        Who disabled storing does not expect it.
        """
        warning = self._unstored()
        if not warning or self._warned or is_off():
            return True
        self._warned = True
        print(wrapped(f"{warning}Ctrl-D again quits without it."))
        return False

    def _quit(self, status: int) -> int:
        if self._answered and name_of(self._talk.chat) is not None:
            print(wrapped("To continue this conversation: llmstream chat -c"))
        return status

    def _turn(self, runner: asyncio.Runner, ask: Ask) -> None:
        before, prompt = ask
        earlier = self._talk.chat.messages()
        # Else the prompt of /retry, whose earlier answer stays until there is another.
        is_new = len(before) == len(earlier)
        outcome = self._outcome(runner, [*before, prompt])
        answered = len(outcome.messages) > len(before) + 1
        if outcome.error is not None:
            print_message(error_message(outcome.error))
        end = "stopped" if outcome.stopped else "no answer"
        self._talk.become(outcome.messages if answered else earlier)
        if answered:
            self._answered = True
            if outcome.stopped:
                print_message("stopped; the partial answer is stored")
            self._save()
        elif is_new:
            self._talk.keep(prompt)
            print_message(f"{end}; /retry sends the prompt again, /edit opens it in the editor")
        else:
            print_message(f"{end}; the earlier answer stays")

    def _outcome(self, runner: asyncio.Runner, messages: list[Message]) -> Outcome:
        try:
            agent = self._talk.setup.agent(self._asker)
            with echo(False):
                return runner.run(self._asker.ask(agent, messages, self._talk.begin(messages)))
        except KeyboardInterrupt:
            return self._asker.interrupted()
        # Options that do not fit are noticed before anything is sent.
        except LLMStreamError as error:
            return Outcome(messages, error=error)

    def _save(self) -> None:
        try:
            self._talk.save()
        except LLMStreamError as error:
            print_message(error_message(error))
