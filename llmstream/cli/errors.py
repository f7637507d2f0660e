"""How commands report errors: exit statuses, and messages that name the command's own flags."""

from __future__ import annotations

import os
import re
from typing import Final

from llmstream.errors import CallerError, LLMStreamError

__all__ = [
    "BROKEN_PIPE",
    "BUG",
    "FAILED",
    "INTERRUPTED",
    "SUCCESS",
    "USAGE",
    "error_message",
    "exit_status",
    "with_flags",
]

SUCCESS: Final = 0
BUG: Final = 1
"""An unexpected exception: a bug in llmstream."""
USAGE: Final = 2
"""A mistake in the command: an unknown model, a missing key, a missing file."""
FAILED: Final = 3
"""The request or its stream ended in an error."""
INTERRUPTED: Final = 130
"""Ctrl-C: 128 plus the number of SIGINT, by the convention of shells."""
BROKEN_PIPE: Final = 141
"""The reader of the pipe closed it: 128 plus the number of SIGPIPE, by the same convention."""

# The library's errors advise a program ("pass api_key="). A command names the flag or the
# environment variable that does the same: patterns, and their replacements.
_REMEDIES: Final = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(, set \w+), or pass api_key=(?=\.)", r" or\1"),
        (r",(?: or)? pass api_key=(?=[,.])", ""),
        (r"Pass a prompt with the columns that it needs, such as", "Pass --prompt with its columns, such as"),
        (r"Pass api_key= or headers= instead\.", "Set the variable of its key instead."),
        (r"Pass api_key=\.", "Its key comes from the environment."),
        (r"[Pp]ass base_url=(?= or set )", "Pass --base-url"),
        (r"\bbase_url=\"?(https?://[^\s\"]+)\"?", r"--base-url \1"),
        (r"\bbase_url=?(?![\w(])", "--base-url"),
        (r"\bmax_output_tokens=?(?![\w(])", "--max-tokens"),
        (r" Raise Deadlines\(\w{1,40}=\.\.\.\)[^.]{0,200}\.", ""),
    )
)

_ADVICE: Final = " or pass api_key=."

# A message names its provider within these, or not at all.
_FIRST_WORDS: Final = 6


def exit_status(error: LLMStreamError) -> int:
    """Returns 2 for errors that a change of the command repairs, 3 for all others."""
    return USAGE if isinstance(error, CallerError) else FAILED


def error_message(error: LLMStreamError) -> str:
    """Returns the message for standard error.

    The leading provider name is dropped if the message itself names it at its beginning.
    """
    text = str(error)
    name = error.provider or ""
    message = text.removeprefix(f"{name}: ") if name else text
    first = message.split(maxsplit=_FIRST_WORDS)[:_FIRST_WORDS]
    if name and name in (word.strip(".,:;'\"") for word in first):
        text = message
    else:
        # A repeated name is that of the component that raised the error, not always the provider.
        text = re.sub(r"^([\w.-]+: )(?:\1)+", r"\1", text)
    return with_flags(_with_key_remedy(text, name))


def with_flags(text: str) -> str:
    """Returns the advice of the library in the command's own flags."""
    for pattern, replacement in _REMEDIES:
        text = pattern.sub(replacement, text)
    return text


def _with_key_remedy(text: str, provider: str) -> str:
    """Replaces the advice "Set X or pass api_key=." by the command's way to get a key."""
    before, found, after = text.partition(_ADVICE)
    # The closer one, if a message has both.
    start, verb = max((before.rfind(f"{verb} "), verb) for verb in ("Check", "Set"))
    if not found or start < 0:
        return text
    variables = before[start + len(verb) :].strip(" ,")
    return f"{before[:start]}{_key_remedy(verb, variables, provider or 'PROVIDER')}{after}"


def _key_remedy(verb: str, variables: str, provider: str) -> str:
    """Advises how to set a key, or how to correct the one that was refused."""
    command = f"llmstream keys set {provider}"
    if verb == "Set":
        return f"Set {variables} or run {command}."
    if any(os.environ.get(variable, "").strip() for variable in variables.split()):
        return f"Check {variables} in the environment."
    return f"Store another key: {command}."
