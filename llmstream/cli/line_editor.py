"""Reads one prompt on a terminal: with prompt_toolkit (extra `cli`), else with `input` and readline.

With prompt_toolkit a pasted text of several lines is one prompt, Alt-Enter starts a new line, Ctrl-X
Ctrl-E opens $EDITOR, and Ctrl-R searches the history. With readline a paste is one prompt too.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final, Protocol

from llmstream.cli.storage import PromptHistory
from llmstream.cli.terminal import typed

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.formatted_text import AnyFormattedText
    from prompt_toolkit.key_binding import KeyBindings

__all__ = ["LineEditor", "line_editor"]

_PROMPT: Final = "> "
_MORE: Final = "… "


class LineEditor(Protocol):
    """Reads prompts."""

    def read(self) -> str:
        """The next prompt, of one line or of several; the cursor is at the start of a row afterwards.

        raises: EOFError at Ctrl-D, KeyboardInterrupt at Ctrl-C
        """
        ...

    @property
    def unfinished(self) -> str:
        """What was typed when Ctrl-C came; "" where that is not known."""
        ...


def line_editor(history: PromptHistory) -> LineEditor:
    """The best one for this terminal."""
    if os.environ.get("TERM") != "dumb":
        try:
            return _PromptToolkit(history)
        except ModuleNotFoundError as error:
            if (error.name or "").partition(".")[0] not in ("prompt_toolkit", "wcwidth"):
                raise
    return _Readline(history)


class _PromptToolkit:
    """raises: ModuleNotFoundError where prompt_toolkit is not installed."""

    def __init__(self, history: PromptHistory) -> None:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.history import History

        class Stored(History):
            """Ours, as prompt_toolkit wants it: the newest first."""

            def load_history_strings(self) -> Iterable[str]:
                return reversed(history.entries)

            def store_string(self, string: str) -> None:
                history.add(string)

        self._session: PromptSession[str] = PromptSession(
            [("fg:ansidefault", _PROMPT)],  # of a style, so that its space is written, and can be copied
            multiline=True,
            prompt_continuation=_continuation,
            key_bindings=_enter_sends(),
            enable_open_in_editor=True,
            enable_suspend=True,
            search_ignore_case=True,
            tempfile_suffix=".md",
            history=Stored(),
            output=_output(),
        )

    @property
    def unfinished(self) -> str:
        return self._session.default_buffer.text

    def read(self) -> str:
        return typed(self._session.prompt())


def _continuation(width: int, line: int, wrapped: int) -> AnyFormattedText:
    """What stands before a row that is not the first: of a new line, or of one that was wrapped."""
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
    """The terminal; None has prompt_toolkit choose.

    It is not asked where its cursor is: the answer would be waited for, a terminal that does not give
    it gets a warning instead, and only menus need it.
    """
    if sys.platform == "win32":
        return None
    from prompt_toolkit.output.vt100 import Vt100_Output

    output = Vt100_Output.from_pty(sys.stdout, term=os.environ.get("TERM"))
    output.enable_cpr = False
    return output


class _Readline:
    """`input`, with line editing where Python has readline."""

    def __init__(self, history: PromptHistory) -> None:
        self._history = history
        try:
            import readline
        except ImportError:
            self._remember: Callable[[str], None] = lambda text: None
            return
        if os.environ.get("TERM") != "dumb":
            readline.parse_and_bind("set enable-bracketed-paste on")  # CPython switches it off
        readline.set_auto_history(False)
        for entry in history.entries:
            readline.add_history(entry)
        self._remember = readline.add_history

    @property
    def unfinished(self) -> str:
        return ""

    def read(self) -> str:
        try:
            line = input(_PROMPT)
            while line.endswith("\\"):
                line = f"{line[:-1]}\n{input(_MORE)}"
        except (EOFError, KeyboardInterrupt):
            print()
            raise
        text = typed(line)
        if text.strip():
            self._history.add(text)
            self._remember(text)
        return text
