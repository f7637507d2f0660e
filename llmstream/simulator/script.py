"""Scripts of the simulator: turns, their pace and their faults, as data.

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
from llmstream.first_use import prepared
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
    """The speed of a turn.

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
    """An error response in place of the stream, in the form of the dialect."""

    status: int
    message: str = "refused, as scripted"
    retry_after_s: float | None = None


class Break(_Fault, frozen=True, kw_only=True, tag="error"):
    """An error of the vendor inside the stream, after a number of events."""

    after_events: int = 0
    status: int = 500
    message: str = "failed, as scripted"


class Cut(_Fault, frozen=True, kw_only=True, tag="cut"):
    """Truncates the stream after a number of events.

    clean: whether the HTTP body ends properly; otherwise the connection drops
    """

    after_events: int = 0
    clean: bool = False


class Stall(_Fault, frozen=True, kw_only=True, tag="stall"):
    """Pauses the stream after a number of events, for some seconds or until the client disconnects."""

    after_events: int = 0
    stall_s: float | None = None


Fault: TypeAlias = Refuse | Break | Cut | Stall


class Call(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A tool call.

    arguments: a JSON value, or a string that is sent unchanged
    id:        by default "call_REQUEST_PLACE", counted from 0; some servers repeat ids from response to
               response
    """

    name: str
    arguments: Any = msgspec.field(default_factory=dict)
    id: str = ""


class Continue(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Ends the response after a number of events of the turn, with a token for the rest.

    faults: faults of the first requests for the rest, one each; the next request gets it
    """

    after_events: int
    faults: tuple[Fault, ...] = ()


class Turn(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """One response: reasoning, then text, then tool calls.

    finish_reason: by default "tool-calls" with calls, else "stop"
    usage:         by default estimated from the texts
    events:        exact events, in place of reasoning, text and calls
    continues:     cuts into several responses, for dialects that support them; requests for the rest
                   do not use up turns
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

    def __post_init__(self) -> None:
        for name in ("reasoning", "text"):
            if not isinstance(value := getattr(self, name), str):
                raise InvalidRequest(f"Turn({name}=...) must be a str, got {value!r}")
        calls = self.calls
        if not isinstance(calls, tuple | list) or not all(isinstance(call, Call) for call in calls):
            raise InvalidRequest(
                "Turn(calls=...) must be a tuple of Calls, such as (Call('weather', {'city': 'Oslo'}),); "
                f"got {calls!r}"
            )


class ScriptLike(Protocol):
    """An object that returns a turn for each request."""

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the turn for a request; `number` counts the requests from 0."""
        ...


ScriptFunction: TypeAlias = Callable[[Request], Turn | str] | Callable[[Request, int], Turn | str]
"""A function in place of `ScriptLike.turn`; a second parameter gets the number of the request."""


class _Function:
    """Adapts a function to a script."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._counts = takes(function, 2)

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the function's turn; a text becomes a turn.

        raises: InvalidRequest for any other value
        """
        turn = self._function(request, number) if self._counts else self._function(request)
        if isinstance(turn, str):
            return Turn(text=turn)
        if not isinstance(turn, Turn):
            raise InvalidRequest(f"a script returns a Turn or a str, got {turn!r}")
        return turn


def as_script(given: ScriptLike | ScriptFunction) -> ScriptLike:
    """Returns a script as it is, and adapts a function.

    raises: InvalidRequest for any other value
    """
    # The Protocol is not checked at runtime.
    if callable(getattr(given, "turn", None)):
        return given  # type: ignore[return-value]
    if not callable(given):
        raise InvalidRequest(f"a script is a function or has a method turn(request, number); got {given!r}")
    return _Function(given)


class Script(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Turns for the requests in order, whatever these ask for; the last one is repeated.

    pace: of turns without their own
    """

    turns: tuple[Turn, ...]
    pace: Pace | None = None

    def __post_init__(self) -> None:
        if not self.turns:
            raise ValueError("a script needs at least one turn")
        if wrong := [turn for turn in self.turns if not isinstance(turn, Turn)]:
            raise InvalidRequest(f"a Script is made of Turns, such as Turn(text='Hello'); got {wrong[0]!r}")

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the turn of that number."""
        turn = self.turns[min(number, len(self.turns) - 1)]
        if turn.pace is None and self.pace is not None:
            return msgspec.structs.replace(turn, pace=self.pace)
        return turn

    @classmethod
    def load(cls, path: str | Path) -> Script:
        """Loads a script from a JSON file.

        raises: InvalidRequest if the file cannot be read or is not a script
        """
        try:
            return msgspec.json.decode(Path(path).read_bytes(), type=prepared(cls))
        except OSError as error:
            raise InvalidRequest(f"cannot read the script {str(path)!r}: {error.strerror or error}") from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{str(path)!r} is not a script: {error}") from None
