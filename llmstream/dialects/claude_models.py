"""What a Claude can do, told by its name.

The vendor refuses what a model does not know, so requests are fitted to it. A name that says
nothing (a gateway's alias, another vendor's model behind this API) gets the common ground.
source: "Models overview", "Extended thinking", "Adaptive thinking" in Anthropic's documents
"""

from __future__ import annotations

import re
from typing import Any, Literal

import msgspec

__all__ = ["Abilities", "abilities", "sampling_refusal", "supports_schemas", "takes_prefix"]

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
    version = _version(model)
    if version is None:
        return _UNKNOWN
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


def supports_schemas(model: str) -> bool:
    """Whether it can be held to a JSON schema; a name that says nothing is trusted.

    source: "Structured outputs" in Anthropic's documents
    """
    version = _version(model)
    return version is None or version >= (4, 5)


def takes_prefix(model: str) -> bool:
    """Whether it goes on with an answer that the conversation ends in; an unknown name is not trusted.

    source: "Prefill Claude's response" in Anthropic's documents: refused from 4.6 on (2026-11)
    """
    version = _version(model)
    return version is not None and version < (4, 6)


def sampling_refusal(name: str, wishes: dict[str, Any], can: Abilities, *, thinks: bool) -> str | None:
    """Why the model would refuse a sampling setting, or None.

    name:   temperature, top_p or top_k
    wishes: all three, each a number or None
    """
    value = wishes[name]
    if not can.sampling:
        return "this model takes no sampling settings"
    if thinks and (name == "top_k" or (name == "temperature" and value != 1)):
        return "not together with reasoning"
    if thinks and name == "top_p" and value < 0.95:
        return "with reasoning the API takes 0.95 to 1"
    if name == "top_p" and can.one_sampler and wishes["temperature"] is not None:
        return "this model takes temperature or top_p, not both"
    return None


def _version(model: str) -> tuple[int, int] | None:
    match = _VERSION.search(model)
    return None if match is None else (int(match.group(1)), int(match.group(2) or 0))
