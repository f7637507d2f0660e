"""Writes the files of a benchmark: in one step, and never through a symbolic link."""

from __future__ import annotations

import os
import stat
import sys

from llmstream.errors import InvalidRequest

__all__ = ["check_writable", "write_text"]


def check_writable(path: str | None) -> None:
    """Checks that a file can be written, before any request is sent.

    raises: InvalidRequest if it cannot
    """
    if not path or path == "-":
        return
    if not os.path.isdir(os.path.dirname(os.path.abspath(path))):
        raise InvalidRequest(f"cannot write {path}: there is no such folder")
    # Whoever may write the folder could choose by a link which file is overwritten.
    if os.path.islink(path) and not _is_stream(path):
        raise InvalidRequest(
            f"cannot write {path}: it is a symbolic link. Name the file itself, or - for standard output."
        )
    if os.path.isdir(path):
        raise InvalidRequest(f"cannot write {path}: it is a folder")


def write_text(path: str, text: str) -> None:
    """Writes a text to a file in one step, or to standard output for "-".

    raises: InvalidRequest if that fails
    """
    if path == "-":
        sys.stdout.write(text)
        return
    check_writable(path)
    try:
        if _is_stream(path):
            with open(path, "w", encoding="utf-8") as out:
                out.write(text)
        else:
            _replace(path, text)
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}") from None


def _is_stream(path: str) -> bool:
    """Whether the path is a pipe or device, such as /dev/stdout, which holds nothing to overwrite."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _replace(path: str, text: str) -> None:
    temporary = os.path.join(os.path.dirname(os.path.abspath(path)), f".{os.urandom(8).hex()}.tmp")
    try:
        # A new file gets the default mode.
        with open(temporary, "x", encoding="utf-8") as out:
            out.write(text)
        if os.path.exists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    # Also for Ctrl-C: no temporary file is left.
    except BaseException:
        if os.path.lexists(temporary):
            os.unlink(temporary)
        raise
