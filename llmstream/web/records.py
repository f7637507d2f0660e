"""What is stored of a conversation, and what a page gets to see of it."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ["Conversation", "Decision", "Summary", "Turn", "TurnView", "View"]


class Decision(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What a person decided about one call.

    note:      why it is denied, for the model; or a note for the tool that runs
    arguments: instead of those that were shown; None changes nothing
    """

    approve: bool
    note: str = ""
    arguments: dict[str, Any] | None = None


class Turn(msgspec.Struct, omit_defaults=True, kw_only=True):
    """One run, and what began it: a prompt, or decisions about the calls that the turn before waits for.

    run:       id of the run in the event log
    decisions: by approval id
    before:    the saved messages before the prompt, to ask again from; only of the last prompt
    events:    the events of the run, as JSON, deltas joined; None until it has ended
    recorded:  whether the run itself reported its messages; False if its process died before
    cost:      estimated, in US dollars
    """

    run: str
    prompt: str = ""
    decisions: dict[str, Decision] = {}
    before: str = ""
    events: list[msgspec.Raw] | None = None
    recorded: bool = False
    cost: float | None = None


class Conversation(msgspec.Struct, omit_defaults=True, kw_only=True):
    """A conversation as it is stored.

    version:    how often it was changed
    messages:   the saved form of the conversation, for the model; "" before the first run has ended
    suspension: the run that waits for decisions, as JSON; "" if none does
    """

    id: str
    title: str = ""
    created_at_s: float = 0.0
    updated_at_s: float = 0.0
    version: int = 0
    turns: list[Turn] = []
    messages: str = ""
    suspension: str = ""

    @property
    def open_run(self) -> str | None:
        """Id of the run that has not ended, as far as is recorded."""
        return self.turns[-1].run if self.turns and self.turns[-1].events is None else None


class Summary(msgspec.Struct, frozen=True, rename="camel"):
    """A line of the list of conversations. Times are seconds since 1970."""

    id: str
    title: str
    updated_at_s: float


class TurnView(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True):
    """A turn as a page sees it; `events` is left out while its run is open, which is then to be followed."""

    run: str
    prompt: str = ""
    decisions: dict[str, Decision] = {}
    events: list[msgspec.Raw] | None = None
    cost: float | None = None


class View(msgspec.Struct, frozen=True, rename="camel"):
    """A conversation as a page sees it.

    version:  views that were requested at the same time may arrive in any order; the highest is the latest
    open_run: id of the run to follow, or None
    waiting:  whether the last run waits for decisions
    """

    id: str
    version: int
    title: str
    updated_at_s: float
    open_run: str | None
    waiting: bool
    turns: list[TurnView]
