"""An interactive conversation on a terminal: reads prompts and commands, shows answers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Sequence
from typing import Final

from llmstream.chats import Chat, Message, Part, Role
from llmstream.cli.asking import TOOL_SETS, Asker, Setup
from llmstream.cli.attachments import attached
from llmstream.cli.errors import INTERRUPTED, SUCCESS, error_message
from llmstream.cli.line_editor import LineEditor
from llmstream.cli.model_names import checked_model
from llmstream.cli.storage import Saving, check_free, last_conversation
from llmstream.cli.terminal import listed, one_line, print_message, wrapped
from llmstream.errors import LLMStreamError

__all__ = ["Conversation"]

_COMMANDS: Final = (
    ("/model [PROVIDER:MODEL]", "show the model, or switch to another"),
    ("/attach FILE", "attach an image, PDF, audio or text to the next prompt"),
    ("/tools [demo | off]", "list the tools, or change them"),
    ("/undo", "remove the last prompt and its answer"),
    ("/new", "start a new conversation with the same system prompt"),
    ("/save FILE", "save the conversation now and after each turn"),
    ("/quit", "quit; also Ctrl-D, or Ctrl-C twice"),
)
_KEYS: Final = (
    "Alt-Enter, or a backslash at the end of a line, starts a new line; pasted text is one prompt. "
    "Ctrl-X Ctrl-E opens $EDITOR and sends the saved text. Ctrl-C stops an answer and stores the partial "
    "one, or clears the line. To send a line that starts with a slash, begin it with a space."
)

_UNDONE_CHARS: Final = 60


class Conversation:
    """Runs the turns of one chat in one event loop, so that connections are reused.

    waiting: parts to send with the first prompt
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
        self._answered = False

    def run(self) -> int:
        """Reads prompts until the user quits; returns the exit status."""
        print(wrapped(f"{self._name()}. Type /help for help, /quit or Ctrl-D to quit."))
        interrupted = False
        with asyncio.Runner() as runner:
            while True:
                try:
                    text = self._editor.read()
                    interrupted = False
                    if self._handle(runner, text):
                        return self._quit(SUCCESS)
                except EOFError:
                    return self._quit(SUCCESS)
                # One Ctrl-C never quits: it may have been meant for an answer that just ended.
                except KeyboardInterrupt:
                    typed = self._editor.unfinished
                    if interrupted and not typed:
                        return self._quit(INTERRUPTED)
                    interrupted = True
                    if not typed:
                        print("Press Ctrl-C again, or Ctrl-D, to quit.")

    def _handle(self, runner: asyncio.Runner, text: str) -> bool:
        """Runs a command or asks the model; returns True to quit."""
        line = text.strip()
        if text.startswith("/") and "\n" not in line:
            return self._run_command(line)
        if line:
            self._turn(runner, line)
        return False

    def _quit(self, status: int) -> int:
        if self._answered and last_conversation() is not None:
            print(wrapped("To continue this conversation: llmstream chat -c"))
        return status

    def _name(self) -> str:
        model = self._agent.model
        return one_line(f"{model.provider.name}:{model.name}")

    def _run_command(self, line: str) -> bool:
        """Runs a command such as "/undo"; returns True to quit."""
        name, _, rest = line.partition(" ")
        if name in ("/quit", "/exit"):
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
        command = commands.get(name)
        if command is None:
            print_message(f"unknown command {name}; /help lists the commands")
            return False
        try:
            command(rest.strip())
        except LLMStreamError as error:
            print_message(error_message(error))
        return False

    def _change_model(self, spec: str) -> None:
        if spec:
            setup = self._setup.with_model(checked_model(spec))
            agent = setup.agent(self._asker.observe)
            setup.check_key()
            self._setup, self._agent = setup, agent
            self._saving = dataclasses.replace(self._saving, model=setup.stored_model)
        print(f"The model is {self._name()}.")

    def _change_tools(self, name: str) -> None:
        if name:
            self._setup = self._setup.with_tools("" if name == "off" else name)
            self._agent = self._setup.agent(self._asker.observe)
        tools = self._setup.tools
        if not tools:
            print(f"No tools are offered. To offer some: /tools {' or '.join(TOOL_SETS)}")
        for tool in tools:
            summary = tool.spec.description.strip().partition("\n")[0]
            print(f"{tool.name}: {one_line(summary)}")

    def _attach(self, file: str) -> None:
        if not file:
            print_message("/attach needs a file name")
            return
        self._waiting.append(attached(file))
        print(f"{one_line(file)} will be sent with the next prompt.")

    def _undo(self, _: str) -> None:
        messages = self._chat.messages()
        prompts = [number for number, message in enumerate(messages) if message.role == Role.USER]
        if not prompts:
            print("There is nothing to undo.")
            return
        last = prompts[-1]
        self._chat.replace(*messages[:last])
        self._save()
        print(f"Removed: {one_line(messages[last].text, _UNDONE_CHARS)}")

    def _start_over(self, _: str) -> None:
        system = self._chat.system_prompt()
        self._chat.replace(*([Message.system(system)] if system else []))
        if self._saving.path is not None:
            print(f"The previous conversation remains in {one_line(self._saving.path)}.")
            self._saving = dataclasses.replace(self._saving, path=None)
        self._waiting.clear()
        print("Started a new conversation.")

    def _save_to(self, rest: str) -> None:
        path = rest.removeprefix("--force ").strip()
        if not path:
            print_message("/save needs a file name")
            return
        if path != self._saving.path:
            check_free(path, force=path != rest, remedy=f"To overwrite it: /save --force {path}")
        saving = dataclasses.replace(self._saving, path=path)
        saving.save(self._chat)
        self._saving = saving
        print(f"Saved to {one_line(path)}, now and after each turn.")

    def _turn(self, runner: asyncio.Runner, line: str) -> None:
        before = self._chat.messages()
        parts, self._waiting = self._waiting, []
        prompt = Message.user(*parts, line)
        try:
            outcome = runner.run(self._asker.ask(self._agent, [*before, prompt]))
        except KeyboardInterrupt:
            outcome = self._asker.interrupted()
        answered = len(outcome.messages) > len(before) + 1
        if outcome.stopped:
            print_message("stopped; the partial answer is stored" if answered else "stopped")
        if outcome.error is not None:
            print_message(error_message(outcome.error))
        if answered:
            self._chat.replace(*outcome.messages)
            self._answered = True
            self._save()
        else:
            self._waiting = parts
            print_message("no answer came, so the prompt was not stored; send it again")

    def _save(self) -> None:
        try:
            self._saving.save(self._chat)
        except LLMStreamError as error:
            print_message(error_message(error))


def _show_help(_: str) -> None:
    print("\n".join([*listed(_COMMANDS), "", wrapped(_KEYS)]))
