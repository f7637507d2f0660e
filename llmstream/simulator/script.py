"""What the simulator says: scripts of turns, as data.

{"turns": [
    {"fault": {"kind": "refuse", "status": 429, "retry_after_s": 2}},
    {"reasoning": "Two cities.", "calls": [{"name": "weather", "arguments": {"city": "Oslo"}}]},
    {"text": "It is cold.", "pace": {"tokens_per_s": 40}},
    {"text": "A very long answer.", "continues": [{"after_events": 4}]}
]}
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.events import Event, FinishReason, Usage
from llmstream.request import Request
from llmstream.tools.signature import takes

__all__ = [
    "Break",
    "Call",
    "Continue",
    "Cut",
    "Fault",
    "Pace",
    "Refuse",
    "Script",
    "ScriptFunction",
    "ScriptLike",
    "Stall",
    "Turn",
    "as_script",
]


class Pace(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How fast a turn is said.

    first_s:      seconds before the first event
    delta_s:      seconds before each further delta
    tokens_per_s: rate of the deltas, in place of delta_s
    """

    first_s: float = 0.0
    delta_s: float = 0.0
    tokens_per_s: float | None = None


class _Fault(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", forbid_unknown_fields=True):
    """Base of the faults: tagged on `kind`."""


class Refuse(_Fault, frozen=True, kw_only=True, tag="refuse"):
    """An error answer in place of the stream, in the dialect's own form."""

    status: int
    message: str = "the simulator refuses, as its script says"
    retry_after_s: float | None = None


class Break(_Fault, frozen=True, kw_only=True, tag="error"):
    """An error of the vendor's inside the stream, after so many events."""

    after_events: int = 0
    status: int = 500
    message: str = "the simulator fails, as its script says"


class Cut(_Fault, frozen=True, kw_only=True, tag="cut"):
    """The stream breaks off after so many events.

    clean: the body ends as if it were whole; else the connection drops in the middle of it
    """

    after_events: int = 0
    clean: bool = False


class Stall(_Fault, frozen=True, kw_only=True, tag="stall"):
    """Nothing more comes after so many events: for some seconds, or until the client leaves."""

    after_events: int = 0
    stall_s: float | None = None


Fault: TypeAlias = Refuse | Break | Cut | Stall


class Call(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A call of a tool. `arguments` is a JSON value, or a string that goes to the wire as it is."""

    name: str
    arguments: Any = msgspec.field(default_factory=dict)


class Continue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The response ends after so many events of the turn, with a token for the rest of it.

    faults: of the first requests for the rest, one each; the next one gets it
    """

    after_events: int
    faults: tuple[Fault, ...] = ()


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One answer: reasoning, then text, then calls.

    finish_reason: "tool-calls" where there are calls, else "stop"
    usage:         counted from the words where it is not given
    events:        the events themselves, in place of the short form
    continues:     where the vendor cuts the answer into several responses, if its dialect has such a
                   thing; a request for the rest takes no turn of the script
    """

    reasoning: str = ""
    text: str = ""
    calls: tuple[Call, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    pace: Pace | None = None
    fault: Fault | None = None
    events: tuple[Event, ...] = ()
    continues: tuple[Continue, ...] = ()


class ScriptLike(Protocol):
    """Anything that knows what to say; `number` counts the requests from 0."""

    def turn(self, request: Request, number: int) -> Turn:
        """The answer to a request."""
        ...


ScriptFunction: TypeAlias = Callable[[Request], Turn | str] | Callable[[Request, int], Turn | str]
"""What `ScriptLike.turn` does, as a plain function; one with a second parameter is given the number."""


class _Function:
    """A function as a script."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._counts = takes(function, 2)

    def turn(self, request: Request, number: int) -> Turn:
        """What the function gives; a text is a turn that says it.

        raises: InvalidRequest where it gives something else
        """
        given = self._function(request, number) if self._counts else self._function(request)
        if isinstance(given, str):
            return Turn(text=given)
        if not isinstance(given, Turn):
            raise InvalidRequest(f"a script gives a Turn or a str, got {given!r}")
        return given


def as_script(given: ScriptLike | ScriptFunction) -> ScriptLike:
    """A script, or a function that decides by the request.

    raises: InvalidRequest where it is neither
    """
    if callable(getattr(given, "turn", None)):
        return given  # type: ignore[return-value]  # a Protocol that is not checked at runtime
    if not callable(given):
        raise InvalidRequest(f"a script has a method turn(request, number), or is a function; got {given!r}")
    return _Function(given)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turns, said in order whatever is asked; after the last, the last again.

    pace: of the turns that have none of their own
    """

    turns: tuple[Turn, ...]
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a script needs at least one turn")

    def turn(self, request: Request, number: int) -> Turn:
        """The turn of that number."""
        turn = self.turns[min(number, len(self.turns) - 1)]
        if turn.pace is None and self.pace is not None:
            return msgspec.structs.replace(turn, pace=self.pace)
        return turn

    @classmethod
    def load(cls, path: str | Path) -> Script:
        """The script that a JSON file holds.

        raises: InvalidRequest where the file cannot be read or is no script
        """
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=cls)
        except OSError as error:
            raise InvalidRequest(f"cannot read the script {str(path)!r}: {error.strerror or error}") from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{str(path)!r} is no script: {error}") from None
