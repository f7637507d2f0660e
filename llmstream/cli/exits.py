"""The exit statuses of every command, and which error means which."""

from __future__ import annotations

from typing import Final

from llmstream.errors import CallerError, LLMStreamError

__all__ = ["BROKEN_PIPE", "BUG", "FAILED", "FINE", "INTERRUPTED", "USAGE", "exit_status"]

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
