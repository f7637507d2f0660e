"""Opens the user's editor for a text: `/edit`, and the arguments of a tool call."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from llmstream.errors import InvalidRequest

__all__ = ["ctrl_c_for_editor", "edited"]

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
