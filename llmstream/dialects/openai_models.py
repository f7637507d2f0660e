"""What the name of one of OpenAI's models says about the requests it takes."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["is_reasoning_model", "samples_without_reasoning"]

_REASONING_MODEL: Final = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)(?!.*chat))")
_SAMPLES_AT_NONE: Final = re.compile(r"(?:^|/)gpt-(?:5\.[1-9]|[6-9]|\d\d)")


def is_reasoning_model(model: str) -> bool:
    """Whether it is one of the o-series, or gpt-5 and later (not their chat variants)."""
    return _REASONING_MODEL.search(model) is not None


def samples_without_reasoning(model: str) -> bool:
    """Whether it takes temperature and top_p once its effort is "none" (gpt-5.1 and later)."""
    return _SAMPLES_AT_NONE.search(model) is not None
