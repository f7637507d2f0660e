"""A conversation on a terminal: prompts in, answers out, until one leaves."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from llmstream.chats import Chat, Message, Part, Role
from llmstream.cli.asking import TOOL_SETS, Asker, Setup
from llmstream.cli.attachments import attached
from llmstream.cli.errors import FINE, INTERRUPTED, complaint
from llmstream.cli.line_editor import LineEditor
from llmstream.cli.model_names import checked_model
from llmstream.cli.storage import Saving, check_free, last_conversation
from llmstream.cli.terminal import complain, listed, one_line, wrapped
from llmstream.errors import LLMStreamError

__all__ = ["Conversation"]

_COMMANDS: Final = (
    ("/model [PROVIDER:MODEL]", "show the model, or go on with another"),
    ("/attach FILE", "add an image, PDF, audio or text to the next prompt"),
    ("/tools [demo | off]", "list the tools, or offer others"),
    ("/undo", "take back the last prompt and its answer"),
    ("/new", "start over; the system prompt stays"),
    ("/save FILE", "save the conversation, now and after each turn"),
    ("/quit", "leave; so do Ctrl-D and Ctrl-C twice"),
)
_KEYS: Final = (
    "Alt-Enter, or a backslash at the end of a line, starts another line; a pasted text is one prompt. "
    "Ctrl-X Ctrl-E opens $EDITOR and sends what it saves. Ctrl-C stops an answer and keeps what came, or "
    "clears the line. Begin with a space to send a line that starts with a slash."
)

_UNDONE_CHARS: Final = 60


class Conversation:
    """Turns of one chat, in one event loop, so that connections are used again.

    waiting: parts that go with the first prompt
    """

    def __init__(
        self,
        setup: Setup,
        chat: Chat,
        asker: Asker,
        editor: LineEditor,
        *,
        saving: Saving,
        waiting: Sequence[Part] = (),
    ) -> None:
        self._setup = setup
        self._agent = setup.agent(asker.observe)
        self._chat = chat
        self._asker = asker
        self._editor = editor
        self._saving = saving
        self._waiting = list(waiting)
        self._asked = False

    def run(self) -> int:
        """Talks until the user leaves; gives the exit status."""
        print(wrapped(f"{self._name()}. /help for help, /quit or Ctrl-D to leave."))
        interrupted = False
        with asyncio.Runner() as runner:
            while True:
                try:
                    text = self._editor.read()
                    interrupted = False
                    if self._answer(runner, text):
                        return self._leave(FINE)
                except EOFError:
                    return self._leave(FINE)
                except KeyboardInterrupt:  # also one that was meant for an answer, and came after its end
                    typed = self._editor.unfinished
                    if interrupted and not typed:
                        return self._leave(INTERRUPTED)
                    interrupted = True
                    if not typed:
                        print("Ctrl-C again, or Ctrl-D, leaves.")

    def _answer(self, runner: asyncio.Runner, text: str) -> bool:
        """Obeys a command or asks the model; True to leave."""
        line = text.strip()
        if text.startswith("/") and "\n" not in line:
            return self._obey(line)
        if line:
            self._turn(runner, line)
        return False

    def _leave(self, status: int) -> int:
        if self._asked and last_conversation() is not None:
            print(wrapped("llmstream chat -c goes on with this conversation."))
        return status

    def _name(self) -> str:
        model = self._agent.model
        return one_line(f"{model.provider.name}:{model.name}")

    def _obey(self, line: str) -> bool:
        """Does what a line of the form /word asks for; True to leave."""
        word, _, rest = line.partition(" ")
        if word in ("/quit", "/exit"):
            return True
        commands: dict[str, Callable[[str], None]] = {
            "/model": self._change_model,
            "/attach": self._attach,
            "/tools": self._change_tools,
            "/undo": self._undo,
            "/new": self._start_over,
            "/save": self._save_to,
            "/help": _show_help,
        }
        command = commands.get(word)
        if command is None:
            complain(f"there is no {word}; /help lists what there is")
            return False
        try:
            command(rest.strip())
        except LLMStreamError as error:
            complain(complaint(error))
        return False

    def _change_model(self, spec: str) -> None:
        if spec:
            setup = self._setup.with_model(checked_model(spec))
            agent = setup.agent(self._asker.observe)
            agent.model.provider.key(None)
            self._setup, self._agent = setup, agent
            self._saving = dataclasses.replace(self._saving, model=setup.noted_model)
        print(f"The model is {self._name()}.")

    def _change_tools(self, name: str) -> None:
        if name:
            self._setup = self._setup.with_tools("" if name == "off" else name)
            self._agent = self._setup.agent(self._asker.observe)
        tools = self._setup.tools
        if not tools:
            print(f"No tools are offered. /tools {' or '.join(TOOL_SETS)} offers some.")
        for tool in tools:
            summary = tool.spec.description.strip().partition("\n")[0]
            print(f"{tool.name}: {one_line(summary)}")

    def _attach(self, file: str) -> None:
        if not file:
            complain("/attach needs the name of a file")
            return
        self._waiting.append(attached(file))
        print(f"{one_line(file)} goes with the next prompt.")

    def _undo(self, _: str) -> None:
        messages = self._chat.messages()
        asked = [number for number, message in enumerate(messages) if message.role == Role.USER]
        if not asked:
            print("There is nothing to take back.")
            return
        self._chat.replace(*messages[: asked[-1]])
        self._save()
        print(f"Taken back: {one_line(messages[asked[-1]].text_content, _UNDONE_CHARS)}")

    def _start_over(self, _: str) -> None:
        system = self._chat.system_prompt()
        self._chat.replace(*([Message.system(system)] if system else []))
        if self._saving.path is not None:
            print(f"What was said stays in {one_line(self._saving.path)}.")
            self._saving = dataclasses.replace(self._saving, path=None)
        self._waiting.clear()
        print("The conversation starts over.")

    def _save_to(self, rest: str) -> None:
        path = rest.removeprefix("--force ").strip()
        if not path:
            complain("/save needs the name of a file")
            return
        if path != self._saving.path:
            check_free(path, force=path != rest, how=f"Replace it: /save --force {path}")
        saving = dataclasses.replace(self._saving, path=path)
        saving.save(self._chat)
        self._saving = saving
        print(f"Saved in {one_line(path)}, now and after each turn.")

    def _turn(self, runner: asyncio.Runner, line: str) -> None:
        before = self._chat.messages()
        parts, self._waiting = self._waiting, []
        prompt = Message.user(*parts, line)
        try:
            outcome = runner.run(self._asker.ask(self._agent, [*before, prompt]))
        except KeyboardInterrupt:
            outcome = self._asker.interrupted()
        if outcome.stopped:
            complain("stopped; what came is kept")
        if outcome.error is not None:
            complain(complaint(outcome.error))
        if len(outcome.messages) > len(before) + 1:
            self._chat.replace(*outcome.messages)
            self._asked = True
            self._save()
        else:
            self._waiting = parts
            complain("nothing came, so the prompt was not stored; say it again")

    def _save(self) -> None:
        try:
            self._saving.save(self._chat)
        except LLMStreamError as error:
            complain(complaint(error))


def _show_help(_: str) -> None:
    print("\n".join([*listed(_COMMANDS), "", wrapped(_KEYS)]))
