"""Reads what the user types: one prompt on a terminal, or a text in the user's editor.

A prompt is read with prompt_toolkit (extra `cli`), else with `input` and readline. With prompt_toolkit,
pasted text of several lines is one prompt, Alt-Enter starts a new line, Ctrl-X Ctrl-E opens $EDITOR, and
Ctrl-R searches the history. With readline a paste is one prompt too.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias

from llmstream.cli.storage import PromptHistory
from llmstream.cli.terminal import typed
from llmstream.errors import InvalidRequest

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import AnyFormattedText
    from prompt_toolkit.key_binding import KeyBindings

__all__ = [
    "Complete",
    "LineEditor",
    "ctrl_c_for_editor",
    "edited",
    "line_editor",
]


# One prompt.

Complete: TypeAlias = Callable[[str], tuple[str, Sequence[str]]]
"""Maps the line up to the cursor to the part of it to replace, and the candidates."""

_PROMPT: Final = "> "
_MORE: Final = "… "


class LineEditor(Protocol):
    """Reads prompts."""

    def read(self) -> str:
        """Reads one prompt of any number of lines; leaves the cursor at the start of a row.

        raises: EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C
        """
        ...

    @property
    def keys(self) -> str:
        """Its keys, for `/help`."""
        ...

    @property
    def unfinished(self) -> str:
        """Text in the line at Ctrl-C; "" if unknown."""
        ...

    def complete_with(self, complete: Complete) -> None:
        """Sets what the Tab key completes."""
        ...


def line_editor(history: PromptHistory) -> LineEditor:
    """Returns the best editor that is installed and fits the terminal."""
    if os.environ.get("TERM") != "dumb":
        try:
            return _PromptToolkit(history)
        except ModuleNotFoundError as error:
            # Another missing module is a bug, which the fallback to readline would hide.
            if (error.name or "").partition(".")[0] not in ("prompt_toolkit", "wcwidth"):
                raise
    return _Readline(history)


class _PromptToolkit:
    """Reads with prompt_toolkit.

    raises: ModuleNotFoundError if it is not installed
    """

    def __init__(self, history: PromptHistory) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import History
        from prompt_toolkit.shortcuts import CompleteStyle

        class Stored(History):
            """Adapts `PromptHistory` to prompt_toolkit, which wants the newest entry first."""

            def load_history_strings(self) -> Iterable[str]:
                return reversed(history.entries)

            def store_string(self, string: str) -> None:
                history.add(string)

        self._session: PromptSession[str] = PromptSession(
            # With a style the trailing space is written, so that it is part of copied text.
            [("fg:ansidefault", _PROMPT)],
            multiline=True,
            prompt_continuation=_continuation,
            key_bindings=_enter_sends(),
            enable_open_in_editor=True,
            enable_suspend=True,
            # Candidates are printed as by a shell: a menu would need rows below the prompt.
            complete_style=CompleteStyle.READLINE_LIKE,
            complete_while_typing=False,
            search_ignore_case=True,
            tempfile_suffix=".md",
            history=Stored(),
            output=_output(),
        )

    @property
    def keys(self) -> str:
        return (
            "Alt-Enter, or a backslash at the end of a line, starts a new line; pasted text is one prompt. "
            "Ctrl-X Ctrl-E opens $EDITOR. Ctrl-R searches earlier prompts."
        )

    @property
    def unfinished(self) -> str:
        return self._session.default_buffer.text

    def read(self) -> str:
        return typed(self._session.prompt())

    def complete_with(self, complete: Complete) -> None:
        from prompt_toolkit.completion import CompleteEvent, Completer, Completion
        from prompt_toolkit.document import Document

        class Commands(Completer):
            """Adapts a `Complete`."""

            def get_completions(
                self, document: Document, complete_event: CompleteEvent
            ) -> Iterable[Completion]:
                replaced, candidates = complete(document.text_before_cursor)
                return [Completion(text, -len(replaced), display=_last_part(text)) for text in candidates]

        self._session.completer = Commands()


def _last_part(path: str) -> str:
    """What to show of a file name: the part after the last folder."""
    return path.rstrip("/").rpartition("/")[2] + ("/" if path.endswith("/") else "") or path


def _continuation(width: int, line: int, wrapped: int) -> AnyFormattedText:
    """Returns the prefix of a further row: a mark for a new line, blanks for a wrapped one."""
    return [("fg:ansidefault", " " * len(_MORE) if wrapped else _MORE)]


def _enter_sends() -> KeyBindings:
    """Enter sends, unless the line ends in a backslash; Alt-Enter starts a new line."""
    from prompt_toolkit.filters import has_focus
    from prompt_toolkit.key_binding import KeyBindings

    bindings = KeyBindings()

    @bindings.add("enter", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: Any) -> None:
        buffer = event.current_buffer
        if buffer.document.current_line.endswith("\\") and buffer.document.is_cursor_at_the_end:
            buffer.delete_before_cursor()
            buffer.insert_text("\n")
        else:
            buffer.validate_and_handle()

    @bindings.add("escape", "enter", filter=has_focus("DEFAULT_BUFFER"))
    def _(event: Any) -> None:
        event.current_buffer.insert_text("\n")

    return bindings


def _output() -> Any:
    """Creates the output without cursor position requests; None lets prompt_toolkit choose.

    prompt_toolkit would wait for the terminal's reply and print a warning without one. Only menus
    need the position.
    """
    if sys.platform == "win32":
        return None
    from prompt_toolkit.output.vt100 import Vt100_Output

    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


class _Readline:
    """Reads with `input`, with line editing if Python has readline."""

    def __init__(self, history: PromptHistory) -> None:
        self._history = history
        self._paste = ""
        try:
            import readline
        except ImportError:
            self._remember: Callable[[str], None] = lambda text: None
            return
        if os.environ.get("TERM") != "dumb":
            # CPython switches it off.
            readline.parse_and_bind("set enable-bracketed-paste on")
            self._paste = "; pasted text is one prompt"
        # A prompt of several lines is one entry, which `read` adds.
        readline.set_auto_history(False)
        for entry in history.entries:
            readline.add_history(entry)
        self._remember = readline.add_history

    def complete_with(self, complete: Complete) -> None:
        try:
            import readline
        except ImportError:
            return

        def candidate(text: str, number: int) -> str | None:
            replaced, candidates = complete(text)
            before = text.removesuffix(replaced)
            return f"{before}{candidates[number]}" if number < len(candidates) else None

        # No delimiters: the complete line is passed.
        readline.set_completer_delims("")
        readline.set_completer(candidate)
        # Python of macOS has libedit in place of readline, with another syntax.
        libedit = "libedit" in (readline.__doc__ or "")
        readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")

    @property
    def keys(self) -> str:
        return f"A backslash at the end of a line starts a new line{self._paste}."

    @property
    def unfinished(self) -> str:
        return ""

    def read(self) -> str:
        try:
            line = input(_PROMPT)
            while line.endswith("\\"):
                line = f"{line[:-1]}\n{input(_MORE)}"
        # The cursor stands behind the prompt.
        except (EOFError, KeyboardInterrupt):
            print()
            raise
        text = typed(line)
        if text.strip():
            self._history.add(text)
            self._remember(text)
        return text


# The user's editor: `/edit`, and the arguments of a tool call.

# Tried without $VISUAL and $EDITOR, in this order.
# `editor` is what the user of a Debian has chosen.
_USUAL: Final = ("editor", "nano", "vi", "notepad.exe")


def edited(text: str, *, suffix: str = ".md") -> str:
    """Returns the text as the user saved it; unchanged if the editor failed or saved nothing.

    raises: InvalidRequest if there is no editor
    """
    command = _command()
    with tempfile.TemporaryDirectory(prefix="llmstream-") as folder:
        file = Path(folder) / f"text{suffix}"
        file.write_text(text, encoding="utf-8")
        try:
            with ctrl_c_for_editor():
                # The user's own command.
                done = subprocess.run([*command, str(file)], check=False)  # noqa: S603
        except OSError as error:
            raise InvalidRequest(
                f"cannot start the editor {command[0]}: {error.strerror}. Set $EDITOR to another."
            ) from None
        # This is how an editor reports that its text must not be used, such as vi with :cq.
        if done.returncode != 0:
            return text
        # Editors end a file with a line feed.
        return file.read_text(encoding="utf-8", errors="replace").rstrip("\n")


def _command() -> list[str]:
    given = os.environ.get("VISUAL", "").strip() or os.environ.get("EDITOR", "").strip()
    if given:
        return shlex.split(given)
    found = next(filter(None, map(shutil.which, _USUAL)), None)
    if found is None:
        raise InvalidRequest("no editor was found. Set $EDITOR.")
    return [found]


@contextmanager
def ctrl_c_for_editor() -> Iterator[None]:
    """Ignores Ctrl-C here; the editor still gets it, with its default meaning.

    `edited` does so on the main thread; elsewhere, signal handlers cannot be set.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    # Not SIG_IGN, which the editor would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
