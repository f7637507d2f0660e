"""The exit statuses of every command, and which error means which."""

from __future__ import annotations

import re
from typing import Final

from llmstream.errors import CallerError, LLMStreamError

__all__ = ["BROKEN_PIPE", "BUG", "FAILED", "FINE", "INTERRUPTED", "USAGE", "complaint", "exit_status"]

FINE: Final = 0
BUG: Final = 1
"""Something nobody foresaw, ours to repair."""
USAGE: Final = 2
"""The caller's mistake: an unknown model, no key, a file that is not there."""
FAILED: Final = 3
"""The stream, or what led to it, ended in an error."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 and the number of SIGINT, as shells have it."""
BROKEN_PIPE: Final = 141
"""The reader of a pipe went away: 128 and the number of SIGPIPE, as for any other tool."""


def exit_status(error: LLMStreamError) -> int:
    """2 for what the caller can mend in the command, 3 for everything else."""
    return USAGE if isinstance(error, CallerError) else FAILED


_REMEDIES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"\b(Check|Set) ([\w ]{1,200}?),? or pass api_key=\.", r"\1 \2 in the environment."),
        (r",(?: or)? pass api_key=(?=[,.])", ""),
        (r"Pass api_key= or headers= instead\.", "Set the variable of its key instead."),
        (r"Pass api_key=\.", "Its key comes from the environment."),
        (r"[Pp]ass base_url=(?= or set )", "Pass --base-url"),
        (r"\bbase_url=\"?(https?://[^\s\"]+)\"?", r"--base-url \1"),
        (r"\bbase_url=?(?![\w(])", "--base-url"),
        (r"\bmax_output_tokens=?(?![\w(])", "--max-tokens"),
        (r" Raise Deadlines\(\w{1,40}=\.\.\.\)[^.]{0,200}\.", ""),
    )
)
"""What the library advises and what a command has in its place."""

_FIRST_WORDS: Final = 6


def complaint(error: LLMStreamError) -> str:
    """The error as one text for standard error.

    The provider in front is left out where the message begins by naming it, as in
    "No key for openai".
    """
    text = str(error)
    name = error.provider or ""
    message = text.removeprefix(f"{name}: ") if name else text
    first = message.split(maxsplit=_FIRST_WORDS)[:_FIRST_WORDS]
    if name and name in (word.strip(".,:;'\"") for word in first):
        text = message
    else:
        # A name that a message repeats is of whoever raised the error, who is not always its provider.
        text = re.sub(r"^([\w.-]+: )(?:\1)+", r"\1", text)
    for pattern, replacement in _REMEDIES:
        text = pattern.sub(replacement, text)
    return text
