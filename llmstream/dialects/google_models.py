"""What a model of Google's can do, told by its name, and how much it is asked to think.

A name that says nothing (an alias, a tuned model, an endpoint) gets the common ground.
source: "Thinking", "Function calling" and "Models" in Google's documents of the Gemini API
"""

from __future__ import annotations

import re
from typing import Final, Literal

import msgspec

from llmstream.events import OtherWarning, UnsupportedSetting, Warning
from llmstream.request import Reasoning

__all__ = ["Abilities", "abilities", "thinking_budget", "thinking_level"]

_VERSION: Final = re.compile(r"gemini-(\d+)(?:\.(\d+))?", re.IGNORECASE)
_BUDGETS: Final = {"minimal": 512, "low": 1024, "medium": 8192, "high": 24_576}
_LEVELS: Final = {
    "none": "minimal",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What to expect of a model.

    thinking:        not at all, by a budget of tokens (2.5), or by a level (3)
    always_thinks:   thinking cannot be switched off
    levels:          those it knows
    max_budget:      the largest budget it takes
    signs_calls:     it refuses calls of its own that come back without their thought signature
    mixes_tools:     the vendor's tools, functions and a response schema may stand side by side;
                     None where the name does not say
    result_media:    images and files may stand inside the result of a function
    system:          it has a place for system instructions
    fetches_urls:    media may be given by any web address
    penalties:       presence and frequency penalties are taken; only 2.0 does ("Penalty is not enabled for
                     this model", seen 2026-07, google-gemini/cookbook#1290, vercel/ai#8943)
    """

    thinking: Literal["none", "budget", "level"] = "budget"
    always_thinks: bool = False
    levels: tuple[str, ...] = ("minimal", "low", "medium", "high")
    max_budget: int = 24_576
    signs_calls: bool = False
    mixes_tools: bool | None = None
    result_media: bool = False
    system: bool = True
    fetches_urls: bool = True
    penalties: bool = True


def abilities(model: str) -> Abilities:
    """What a model of this name can do."""
    name = model.rpartition("/")[2].lower()
    if name.startswith("gemma"):
        return Abilities(thinking="none", mixes_tools=False, system=False, fetches_urls=False)
    if re.match(r"gemini-(flash|pro|flash-lite)-latest", name):
        return _gemini_3(name)
    match = _VERSION.search(name)
    if match is None:
        return Abilities()
    version = (int(match[1]), int(match[2] or 0))
    if version < (2, 5):
        return Abilities(thinking="none", mixes_tools=False, fetches_urls=False)
    if version < (3, 0):
        pro = "pro" in name
        if "image" in name or "tts" in name:
            return Abilities(thinking="none", mixes_tools=False, penalties=False)
        most = 32_768 if pro else 24_576
        return Abilities(always_thinks=pro, max_budget=most, mixes_tools=False, penalties=False)
    return _gemini_3(name)


def _gemini_3(name: str) -> Abilities:
    levels: tuple[str, ...] = ("minimal", "low", "medium", "high")
    if re.match(r"gemini-3-pro(?!-image)", name):
        levels = ("low", "high")
    elif "pro" in name:
        levels = ("low", "medium", "high")
    return Abilities(
        thinking="level",
        always_thinks=True,
        levels=levels,
        max_budget=32_768,
        signs_calls=True,
        mixes_tools=True,
        result_media=True,
        penalties=False,
    )


def thinking_budget(reasoning: Reasoning, can: Abilities, warnings: list[Warning]) -> int | None:
    """Tokens to think with, on a model that takes a budget; 0 switches thinking off."""
    budget = reasoning.budget_tokens
    if budget is not None and reasoning.effort is not None:
        words = "this model takes a budget, which was sent"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    if budget is not None and budget > can.max_budget:
        warnings.append(OtherWarning(f"the reasoning budget of {budget} tokens became {can.max_budget}"))
        return can.max_budget
    if budget is not None:
        return budget
    if reasoning.effort is None:
        return None
    if reasoning.effort != "none":
        if reasoning.effort == "xhigh":
            words = f"the effort xhigh became the largest budget of {can.max_budget} tokens"
            warnings.append(OtherWarning(words))
        return _BUDGETS.get(reasoning.effort, can.max_budget)
    if can.always_thinks:
        warnings.append(
            UnsupportedSetting("reasoning.effort", "this model always thinks; it gets 128 tokens")
        )
        return 128
    return 0


def thinking_level(reasoning: Reasoning, can: Abilities, warnings: list[Warning]) -> str | None:
    """How much to think, on a model that takes a level; the nearest it knows."""
    effort = reasoning.effort
    if effort is None:
        return None
    level = _LEVELS[effort]
    if level not in can.levels:
        order = tuple(_LEVELS.values())
        level = next(known for known in can.levels if order.index(known) >= order.index(level))
    if effort == "none":
        words = f"this model always thinks; its level became {level}"
        warnings.append(UnsupportedSetting("reasoning.effort", words))
    elif level != effort:
        warnings.append(OtherWarning(f"the effort {effort} became {level}: this model does not know it"))
    return level
