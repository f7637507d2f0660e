"""The commands of a conversation: `/model`, `/undo` and the others, and their completion."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from llmstream.chats import Message
from llmstream.cli.attachments import attached
from llmstream.cli.editor import edited
from llmstream.cli.storage import check_free
from llmstream.cli.talk import Talk
from llmstream.cli.terminal import listed, wrapped
from llmstream.display.plain import cost_text
from llmstream.display.terminal_text import one_line, safe
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.prices import known_models
from llmstream.providers.registry import provider_names

if TYPE_CHECKING:
    from llmstream.cli.asking import Spent

__all__ = ["QUIT", "Ask", "SlashCommands"]

QUIT: Final = ("/quit", "/exit")

_KEYS: Final = (
    "Tab completes commands, models and file names. Ctrl-C stops an answer and stores the partial one, or "
    "clears the line. To send a line that starts with a slash, begin it with a space."
)
_SHOWN_CHARS: Final = 60
# More would scroll the conversation away.
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

    def __init__(self, talk: Talk, spent: Spent, changed: Callable[[], None], keys: str = "") -> None:
        self._talk = talk
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
        """Runs a command; returns the prompt to send, if it makes one.

        raises: LLMStreamError if it fails
        """
        name, _, rest = line.partition(" ")
        command = self._commands.get(name)
        if command is None:
            raise InvalidRequest(f"unknown command {name}; /help lists the commands")
        return command[2](rest.strip())

    def complete(self, line: str) -> tuple[str, list[str]]:
        """Completes the line up to the cursor; returns the part to replace, and what may stand there."""
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
            self._talk.change_model(spec)
        print(f"The model is {one_line(self._talk.setup.model)}.")

    def _system(self, text: str) -> None:
        if text:
            self._talk.change_system("" if text == "off" else text)
            self._changed()
        system = self._talk.system
        print(f"System prompt: {safe(system)}" if system else "There is no system prompt.")

    def _attach(self, file: str) -> None:
        if not file:
            raise InvalidRequest("/attach needs a file name or a URL")
        self._talk.waiting.append(attached(os.path.expanduser(file)))
        print(wrapped(f"{one_line(file)} will be sent with the next prompt."))

    def _tools(self, name: str) -> None:
        sources = self._talk.setup.tools
        if name:
            sources.use([] if name == "off" else [name])
        tools = sources.tools
        if not tools:
            print(wrapped("No tools are offered. To offer some: /tools FILE.py or /tools demo"))
        for tool in tools:
            summary = tool.spec.description.strip().partition("\n")[0]
            print(wrapped(f"{one_line(tool.name)}: {one_line(summary)}"))

    def _edit(self, text: str) -> Ask | None:
        written = edited(text or self._talk.draft).strip()
        if not written:
            print("Nothing was written, so nothing is sent.")
            return None
        self._talk.draft = ""
        print(f"> {safe(written)}")
        return Ask(self._talk.chat.messages(), self._talk.prompt(written))

    def _retry(self, _: str) -> Ask:
        if self._talk.is_unanswered:
            before, prompt = self._talk.chat.messages(), self._talk.unanswered_prompt()
        # The earlier answer stays until there is another.
        else:
            before, prompt = self._talk.last_prompt()
        print(f"> {_preview(prompt)}")
        return Ask(before, prompt)

    def _undo(self, _: str) -> None:
        before, prompt = self._talk.last_prompt()
        self._talk.become(before)
        self._talk.draft = prompt.text
        self._talk.is_unanswered = False
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
        again = self._talk.start_over()
        if again:
            print(wrapped(f"To continue the previous conversation: llmstream chat {one_line(again)}"))
        print("Started a new conversation.")

    def _save(self, rest: str) -> None:
        path = os.path.expanduser(rest.removeprefix("--force ").strip())
        if not path:
            raise InvalidRequest("/save needs a file name")
        saving = self._talk.saving
        if path != saving.path:
            force = rest.startswith("--force ")
            check_free(path, force=force, remedy=f"To overwrite it: /save --force {path}")
        before, saving.path = saving.path, path
        try:
            saving.save(self._talk.chat)
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
    """Files and folders that begin so; a folder ends in a slash."""
    # Escaped: brackets in names of files are no patterns.
    found = sorted(glob.glob(glob.escape(os.path.expanduser(begun)) + "*"))[:_MAX_CANDIDATES]
    shown = [f"{path}/" if os.path.isdir(path) else path for path in found]
    home = os.path.expanduser("~") + "/"
    if begun.startswith("~/"):
        shown = [f"~/{path.removeprefix(home)}" for path in shown]
    return shown
