"""What a hook or a person may decide: values, one type each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

from llmstream.chats.message import Message
from llmstream.tools.approval import Approve, Deny

__all__ = ["Again", "Approve", "Decision", "Deny", "Proceed", "Rewrite", "Skip", "Stop"]


@dataclass(frozen=True, slots=True)
class Proceed:
    """Go on as if nobody had been asked; the same as None."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """Go on with this in place of what was there; what it is depends on the hook, see `Hooks`."""

    value: Any


@dataclass(frozen=True, slots=True)
class Skip:
    """Do not do it; this stands as what it gave: a tool's result, or the model's answer."""

    result: Any = "Skipped."


@dataclass(frozen=True, slots=True)
class Stop:
    """The run ends as soon as its history is whole. What has not run gets a result that says so."""

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Again:
    """The answer will not do: it stands in the history, this behind it, and the model answers again.

    feedback: what is wrong, as the model reads it; a user message
    """

    feedback: str | Message


Decision: TypeAlias = Proceed | Rewrite | Skip | Again | Approve | Deny | Stop | None
