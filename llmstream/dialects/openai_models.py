"""What the name of one of OpenAI's models says about the requests it takes."""

from __future__ import annotations

import functools
import re
from typing import Final

__all__ = ["is_reasoning_model", "known_efforts", "nearest_effort", "samples_without_reasoning"]

_REASONING_MODEL: Final = re.compile(r"(?:^|/)(?:o\d|gpt-(?:[5-9]|\d\d)(?!.*chat))")
_SAMPLES_AT_NONE: Final = re.compile(r"(?:^|/)gpt-(?:5\.[1-9]|[6-9]|\d\d)")

_ORDER: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_EFFORTS: Final[tuple[tuple[re.Pattern[str], tuple[str, ...]], ...]] = tuple(
    (re.compile(r"(?:^|/)(?:" + pattern + ")"), tuple(efforts.split()))
    for pattern, efforts in (
        (r"(?:gpt-[34](?!\d)|chatgpt-4o|gpt-\d[\d.]*-chat)", ""),
        (r"o\d", "low medium high"),
        (r"gpt-5-pro", "high"),
        (r"gpt-5-codex", "low medium high"),
        (r"gpt-5\.1-codex-max", "none medium high xhigh"),
        (r"gpt-5\.1", "none low medium high"),
        (r"gpt-5\.\d+-pro", "medium high xhigh"),
        (r"gpt-5\.\d", "none low medium high xhigh"),
        (r"gpt-5", "minimal low medium high"),
    )
)
"""Models and the efforts they know; the first that fits. source: OpenAI's pages of its models"""


@functools.lru_cache(maxsize=256)
def is_reasoning_model(model: str) -> bool:
    """Whether it is one of the o-series, or gpt-5 and later (not their chat variants)."""
    return _REASONING_MODEL.search(model) is not None


def samples_without_reasoning(model: str) -> bool:
    """Whether it takes temperature and top_p once its effort is "none" (gpt-5.1 and later)."""
    return _SAMPLES_AT_NONE.search(model) is not None


def known_efforts(model: str) -> tuple[str, ...] | None:
    """The efforts that a model knows, () where it takes none; None where the name does not say."""
    return next((efforts for pattern, efforts in _EFFORTS if pattern.search(model)), None)


def nearest_effort(effort: str, known: tuple[str, ...]) -> str:
    """What comes nearest among those that are known: the next higher, else the highest."""
    return next((name for name in known if _ORDER.index(name) >= _ORDER.index(effort)), known[-1])
