"""What a benchmark asks: one prompt, the lines of a file, or texts of a given length."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, TypeAlias

from llmstream.cli.terminal import typed
from llmstream.errors import InvalidRequest

__all__ = ["PromptOf", "lines_of", "made_prompt"]

PromptOf: TypeAlias = Callable[[int], str]
"""The prompt of a request by its number; warm-up requests have numbers below 0."""

_WORDS: Final = (  # noqa: SIM905
    "time river stone light garden winter paper window morning letter silver road bread music cloud "
    "summer forest bridge corner market ocean ladder candle village harbor engine mirror feather"
).split()
"""Common words, which the vendors' tokenizers have whole: one token each."""


def made_prompt(number: int, tokens: int, seed: int) -> str:
    """A text of about so many tokens, another for each request, so that no cache answers it."""
    rng = random.Random(f"{seed}:{number}")  # noqa: S311  (a load, not a secret)
    return " ".join(rng.choice(_WORDS) for _ in range(tokens))


def lines_of(file: str) -> list[str]:
    """The prompts of a file, one a line; empty lines are skipped.

    raises: InvalidRequest for a file that cannot be read or holds none
    """
    try:
        with open(file, encoding="utf-8", errors="replace") as source:
            prompts = [typed(line.strip()) for line in source if line.strip()]
    except OSError as error:
        raise InvalidRequest(f"cannot read {file}: {error.strerror or error}. Check the path.") from None
    if not prompts:
        raise InvalidRequest(f"{file} holds no prompt: write one a line")
    return prompts
