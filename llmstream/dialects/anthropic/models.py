"""What a Claude can do, told by its name.

The vendor refuses what a model does not know, so requests are fitted to it. A name that says
nothing (a gateway's alias, another vendor's model behind this API) gets the common ground.
source: "Models overview", "Extended thinking", "Adaptive thinking" in Anthropic's documents
"""

from __future__ import annotations

import re
from typing import Literal

import msgspec

__all__ = ["Abilities", "abilities"]

_VERSION = re.compile(r"claude-(?:v|[a-z]+-)?(\d{1,2})(?:[-.](\d{1,2}))?(?!\d)", re.IGNORECASE)


class Abilities(msgspec.Struct, frozen=True, kw_only=True):
    """What to expect of a model.

    max_tokens:   asked for where the request does not say; every model of the kind allows it
    thinking:     not at all, by a budget of tokens, either way, or adaptive only
    sampling:     whether temperature, top_p and top_k may be set
    one_sampler:  whether temperature and top_p exclude each other
    xhigh_effort: whether it knows the effort "xhigh"
    """

    max_tokens: int = 8_192
    thinking: Literal["none", "budget", "either", "adaptive"] = "budget"
    sampling: bool = True
    one_sampler: bool = False
    xhigh_effort: bool = False


_UNKNOWN = Abilities()


def abilities(model: str) -> Abilities:
    """What a model of this name can do."""
    match = _VERSION.search(model)
    if match is None:
        return _UNKNOWN
    version = (int(match.group(1)), int(match.group(2) or 0))
    if version < (3, 5):
        return Abilities(max_tokens=4_096, thinking="none")
    if version < (3, 7):
        return Abilities(thinking="none")
    if version < (4, 1):
        return Abilities(max_tokens=32_000)
    if version < (4, 6):
        return Abilities(max_tokens=32_000, one_sampler=True)
    if version < (4, 7):
        return Abilities(max_tokens=32_000, thinking="either", one_sampler=True)
    return Abilities(max_tokens=32_000, thinking="adaptive", sampling=False, xhigh_effort=True)
