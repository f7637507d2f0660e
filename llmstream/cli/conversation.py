"""An interactive conversation on a terminal: its state, its prompts and commands, its answers."""

from __future__ import annotations

import asyncio
import dataclasses
import glob
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from llmstream.chats import Chat, Message, Part, Role, Text
from llmstream.cli.arguments import attached
from llmstream.cli.asking import Asker, Outcome
from llmstream.cli.config import checked_model
from llmstream.cli.errors import INTERRUPTED, SUCCESS, error_message
from llmstream.cli.line_editor import LineEditor, edited
from llmstream.cli.storage import Saving, check_free, is_off, name_of, note_model, stored_chat
from llmstream.cli.terminal import echo, listed, print_message, wrapped
from llmstream.display.plain import cost_text
from llmstream.display.terminal_text import one_line, safe
from llmstream.errors import InvalidRequest, LLMStreamError, Unsupported
from llmstream.prices import known_models
from llmstream.providers.registry import provider_names

if TYPE_CHECKING:
    from llmstream.cli.asking import Setup, Spent

__all__ = ["QUIT", "Ask", "Conversation", "ConversationState", "SlashCommands"]

# The state of an interactive conversation, and its commands: `/model`, `/undo` and the others.


@dataclass
class ConversationState:
    """One conversation: its model, messages and file.

    waiting:       parts to send with the next prompt
    draft:         text of the last prompt that was undone or not answered; `/edit` begins with it
    is_unanswered: whether the last prompt has no answer; `/retry` sends it, not the one before
    """

    setup: Setup
    chat: Chat
    saving: Saving
    waiting: list[Part] = field(default_factory=list)
    draft: str = ""
    is_unanswered: bool = False

    @property
    def is_stored(self) -> bool:
        """Whether the conversation is in the store, or in a file."""
        return self.saving.path is not None or name_of(self.chat) is not None

    def begin(self, messages: list[Message]) -> Chat:
        """The chat, with the messages of a turn; if storing fails, the conversation continues in memory."""
        self.become(messages)
        return self.chat

    def become(self, messages: list[Message]) -> None:
        """Replaces the messages of the chat; the old ones stay in the store as a branch."""
        try:
            self.chat.replace(*messages)
        except LLMStreamError as error:
            print_message(f"this conversation is no longer stored: {error.message}")
            self.chat = Chat(*messages)

    def save(self) -> None:
        """Writes the file of the conversation, and records its model in the store.

        raises: LLMStreamError if that fails
        """
        self.saving.save(self.chat)
        if name_of(self.chat) is not None:
            note_model(self.chat, self.setup.stored_model)

    @property
    def system(self) -> str:
        """The system prompt, or ""."""
        return self.chat.system_prompt() or ""

    def change_model(self, spec: str) -> None:
        """Switches to another model.

        raises: InvalidRequest for an unknown provider; MissingKey
        """
        setup = self.setup.with_model(checked_model(spec))
        # Before anything changes: a conversation without a key could not continue.
        setup.check_key()
        setup.agent()
        self.setup = setup
        self.saving = dataclasses.replace(self.saving, model=setup.stored_model)

    def change_system(self, text: str) -> None:
        """Replaces the system prompt; "" removes it."""
        rest = [message for message in self.chat.messages() if message.role != Role.SYSTEM]
        self.become([*([Message.system(text)] if text else []), *rest])

    def prompt(self, text: str) -> Message:
        """The next prompt with the waiting parts, which are then cleared."""
        parts, self.waiting = self.waiting, []
        self.is_unanswered = False
        return Message.user(*parts, *([text] if text else []))

    def unanswered_prompt(self) -> Message:
        """The prompt of `keep`, and the parts attached since."""
        text, self.draft = self.draft, ""
        return self.prompt(text)

    def last_prompt(self) -> tuple[list[Message], Message]:
        """The last prompt, and the messages before it.

        raises: InvalidRequest if there is none
        """
        messages = self.chat.messages()
        prompts = [number for number, message in enumerate(messages) if message.role == Role.USER]
        if not prompts:
            raise InvalidRequest("there is no earlier prompt in this conversation")
        return messages[: prompts[-1]], messages[prompts[-1]]

    def keep(self, prompt: Message) -> None:
        """Keeps an unanswered prompt: its files wait for the next one, its text for `/edit` and `/retry`."""
        self.is_unanswered = True
        self.draft = ""
        parts = list(prompt.parts)
        # The last part is the typed text; a prompt may also have only files.
        last = parts[-1] if parts else None
        if isinstance(last, Text):
            self.draft = last.text
            del parts[-1]
        self.waiting = parts

    def start_over(self) -> str:
        """Starts a new conversation with the same system prompt; returns how to continue the previous one, or
        ""."""
        place, name = self.saving.path, name_of(self.chat)
        again = f"--continue {place}" if place else f"--chat {name}" if name else ""
        system = self.system
        self.chat = stored_chat(None, [Message.system(system)] if system else [])
        self.saving = dataclasses.replace(self.saving, path=None)
        self.waiting.clear()
        self.draft = ""
        self.is_unanswered = False
        return again


# The commands of a conversation: `/model`, `/undo` and the others, and their completion.


QUIT: Final = ("/quit", "/exit")

_KEYS: Final = (
    "Tab completes commands, models and file names. Ctrl-C stops an answer and stores the partial one, or "
    "clears the line. To send a line that starts with a slash, begin it with a space."
)
_SHOWN_CHARS: Final = 60
# A longer list would scroll the conversation out of view.
_MAX_CANDIDATES: Final = 200


class Ask(NamedTuple):
    """A prompt to send, after these messages."""

    before: list[Message]
    prompt: Message


_Run: TypeAlias = Callable[[str], Ask | None]


class SlashCommands:
    """Runs commands such as "/undo".

    changed: called after a command that changes the stored conversation
    keys:    the text of `/help` about the keys of the line editor
    """

    def __init__(
        self, state: ConversationState, spent: Spent, changed: Callable[[], None], keys: str = ""
    ) -> None:
        self._state = state
        self._spent = spent
        self._changed = changed
        self._keys = f"{keys} {_KEYS}".lstrip()
        self._commands: dict[str, tuple[str, str, _Run]] = {
            "/model": ("[PROVIDER:MODEL]", "show the model, or switch to another", self._model),
            "/system": ("[TEXT | off]", "show, replace or remove the system prompt", self._system),
            "/attach": ("FILE", "attach an image, PDF, audio or text to the next prompt", self._attach),
            "/tools": ("[FILE.py | demo | off]", "list the tools, or replace them", self._tools),
            "/edit": ("[TEXT]", "write the next prompt in $EDITOR", self._edit),
            "/retry": ("", "ask the last prompt again", self._retry),
            "/undo": ("", "remove the last prompt and its answer", self._undo),
            "/cost": ("", "show the tokens and the cost so far", self._cost),
            "/new": ("", "start a new conversation with the same system prompt", self._new),
            "/save": ("FILE", "save the conversation now and after each turn", self._save),
            "/help": ("", "show this list", self._help),
        }

    def run(self, line: str) -> Ask | None:
        """Runs a command; returns the prompt to send, if there is one.

        raises: LLMStreamError if it fails
        """
        name, _, rest = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            import difflib  # imported only for a misspelt name

            # Without the slash, in which all are alike.
            close = difflib.get_close_matches(name[1:], [each[1:] for each in self._commands], n=1)
            near = f"Did you mean /{close[0]}? " if close else ""
            raise InvalidRequest(f"unknown command {name}. {near}/help lists the commands.")
        return command[2](rest.strip())

    def complete(self, line: str) -> tuple[str, list[str]]:
        """Completes the line up to the cursor; returns the part to replace, and the candidates."""
        name, gap, rest = line.partition(" ")
        if not gap:
            return line, [
                one for one in (*self._commands, QUIT[0]) if line.startswith("/") and one.startswith(line)
            ]
        match name:
            case "/model":
                return rest, _models(rest)
            case "/attach" | "/save":
                return rest, _files(rest)
            case "/tools":
                words = [word for word in ("demo", "off") if word.startswith(rest)]
                return rest, [*words, *_files(rest)]
            case "/system":
                return rest, ["off"] if "off".startswith(rest) else []
        return rest, []

    def _model(self, spec: str) -> None:
        if spec:
            self._state.change_model(spec)
        print(f"The model is {one_line(self._state.setup.model)}.")

    def _system(self, text: str) -> None:
        if text:
            self._state.change_system("" if text == "off" else text)
            self._changed()
        system = self._state.system
        print(f"System prompt: {safe(system)}" if system else "There is no system prompt.")

    def _attach(self, file: str) -> None:
        if not file:
            raise InvalidRequest("/attach needs a file name or a URL")
        self._state.waiting.append(attached(os.path.expanduser(file)))
        print(wrapped(f"{one_line(file)} will be sent with the next prompt."))

    def _tools(self, name: str) -> None:
        sources = self._state.setup.tools
        if name:
            sources.use([] if name == "off" else [name])
        tools = sources.tools
        if not tools:
            print(wrapped("No tools are offered. To offer some: /tools FILE.py or /tools demo"))
        for tool in tools:
            summary = tool.spec.description.strip().partition("\n")[0]
            print(wrapped(f"{one_line(tool.name)}: {one_line(summary)}"))

    def _edit(self, text: str) -> Ask | None:
        written = edited(text or self._state.draft).strip()
        if not written:
            print("Nothing was written, so nothing is sent.")
            return None
        self._state.draft = ""
        print(f"> {safe(written)}")
        return Ask(self._state.chat.messages(), self._state.prompt(written))

    def _retry(self, _: str) -> Ask:
        if self._state.is_unanswered:
            before, prompt = self._state.chat.messages(), self._state.unanswered_prompt()
        # The earlier answer stays until there is another.
        else:
            before, prompt = self._state.last_prompt()
        print(f"> {_preview(prompt)}")
        return Ask(before, prompt)

    def _undo(self, _: str) -> None:
        before, prompt = self._state.last_prompt()
        self._state.become(before)
        self._state.draft = prompt.text
        self._state.is_unanswered = False
        self._changed()
        print(f"Removed: {_preview(prompt)}")

    def _cost(self, _: str) -> None:
        spent = self._spent
        if not spent.usage:
            print("No tokens so far.")
        for model, usage in spent.usage.items():
            cost = cost_text(spent.usd[model]) if model in spent.usd else "no known price"
            tokens = f"{usage.input_tokens or 0:,} in, {usage.output_tokens or 0:,} out"
            print(wrapped(f"{one_line(model)}: {tokens}, {cost}"))
        if len(spent.usd) > 1:
            print(f"Together: {cost_text(sum(spent.usd.values()))}")

    def _new(self, _: str) -> None:
        again = self._state.start_over()
        if again:
            print(wrapped(f"To continue the previous conversation: llmstream chat {one_line(again)}"))
        print("Started a new conversation.")

    def _save(self, rest: str) -> None:
        path = os.path.expanduser(rest.removeprefix("--force ").strip())
        if not path:
            raise InvalidRequest("/save needs a file name")
        saving = self._state.saving
        if path != saving.path:
            force = rest.startswith("--force ")
            check_free(path, force=force, remedy=f"To overwrite it: /save --force {path}")
        before, saving.path = saving.path, path
        try:
            saving.save(self._state.chat)
        except InvalidRequest:
            saving.path = before
            raise
        print(wrapped(f"Saved to {one_line(path)}, now and after each turn."))

    def _help(self, _: str) -> None:
        rows = [(f"{name} {form}".rstrip(), text) for name, (form, text, _) in self._commands.items()]
        rows.append((QUIT[0], "quit; also Ctrl-D, or Ctrl-C twice"))
        print("\n".join([*listed(rows), "", wrapped(self._keys)]))


def _preview(prompt: Message) -> str:
    return one_line(" ".join(prompt.text.split()), _SHOWN_CHARS)


def _models(begun: str) -> list[str]:
    """Names of providers, and after the colon the models in the price list."""
    provider, colon, _ = begun.partition(":")
    if not colon:
        return [f"{name}:" for name in provider_names() if name.startswith(begun)]
    try:
        known = [f"{provider}:{model.name}" for model in known_models(provider)]
    except Unsupported:
        known = []
    return [name for name in known if name.startswith(begun)][:_MAX_CANDIDATES]


def _files(begun: str) -> list[str]:
    """Files and folders with this prefix; a folder ends in a slash."""
    # Escaped: brackets in file names are not patterns.
    found = sorted(glob.glob(glob.escape(os.path.expanduser(begun)) + "*"))[:_MAX_CANDIDATES]
    shown = [f"{path}/" if os.path.isdir(path) else path for path in found]
    home = os.path.expanduser("~") + "/"
    if begun.startswith("~/"):
        shown = [f"~/{path.removeprefix(home)}" for path in shown]
    return shown


class Conversation:
    """Runs the turns of one chat in one event loop, so that connections are reused."""

    def __init__(self, state: ConversationState, asker: Asker, editor: LineEditor) -> None:
        self._state = state
        self._asker = asker
        self._editor = editor
        self._commands = SlashCommands(state, asker.spent, self._save, editor.keys)
        self._answered = False
        self._warned = False
        editor.complete_with(self._commands.complete)

    def run(self) -> int:
        """Reads prompts until the user quits; returns the exit status."""
        with asyncio.Runner() as runner:
            tools = self._state.setup.tools
            try:
                runner.run(tools.connect())
                print(
                    wrapped(
                        f"{one_line(self._state.setup.model)}. Type /help for help, /quit or Ctrl-D to quit."
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
            ask = Ask(self._state.chat.messages(), self._state.prompt(line))
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
        """How to save a conversation that is not stored; "" if nothing would be lost."""
        if not self._answered or self._state.is_stored:
            return ""
        return "This conversation is not stored; /save FILE stores it. "

    def _may_quit(self) -> bool:
        """Whether to quit now; the first time, a conversation that would be lost is reported instead.

        Users who disabled storing do not expect the loss.
        """
        warning = self._unstored()
        if not warning or self._warned or is_off():
            return True
        self._warned = True
        print(wrapped(f"{warning}Ctrl-D again quits without it."))
        return False

    def _quit(self, status: int) -> int:
        if self._answered and name_of(self._state.chat) is not None:
            print(wrapped("To continue this conversation: llmstream chat -c"))
        return status

    def _turn(self, runner: asyncio.Runner, ask: Ask) -> None:
        before, prompt = ask
        earlier = self._state.chat.messages()
        # Else the prompt of /retry, whose earlier answer stays until there is another.
        is_new = len(before) == len(earlier)
        outcome = self._outcome(runner, [*before, prompt])
        answered = len(outcome.messages) > len(before) + 1
        if outcome.error is not None:
            print_message(error_message(outcome.error))
        end = "stopped" if outcome.stopped else "no answer"
        self._state.become(outcome.messages if answered else earlier)
        if answered:
            self._answered = True
            if outcome.stopped:
                print_message("stopped; the partial answer is stored")
            self._save()
        elif is_new:
            self._state.keep(prompt)
            print_message(f"{end}; /retry sends the prompt again, /edit opens it in the editor")
        else:
            print_message(f"{end}; the earlier answer stays")

    def _outcome(self, runner: asyncio.Runner, messages: list[Message]) -> Outcome:
        try:
            agent = self._state.setup.agent(self._asker)
            with echo(False):
                return runner.run(self._asker.ask(agent, messages, self._state.begin(messages)))
        except KeyboardInterrupt:
            return self._asker.interrupted()
        # Invalid options are detected before anything is sent.
        except LLMStreamError as error:
            return Outcome(messages, error=error)

    def _save(self) -> None:
        try:
            self._state.save()
        except LLMStreamError as error:
            print_message(error_message(error))
