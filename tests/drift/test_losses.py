"""Losses: what of an instance is in no event, and changes none."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

from drift.filled import Rules
from drift.losses import Loss, finish_of, losses, unused
from drift.shapes import shape_of
from drift.wires import Case, Reasons, Wire, as_line, time_text


class Function(TypedDict):
    name: str
    arguments: dict[str, Any]


class Call(TypedDict):
    function: Function


class Message(TypedDict):
    content: str
    thinking: str
    tool_calls: list[Call]


class Line(TypedDict, total=False):
    model: str
    message: Message
    eval_count: int


class Newer(Line, total=False):
    """The next version of the SDK."""

    verdict: Verdict


class Verdict(TypedDict):
    text: str
    score: float


class ScoredCall(Call):
    score: int


class ScoredMessage(TypedDict):
    tool_calls: list[ScoredCall]


class Scored(TypedDict):
    message: ScoredMessage


class Timed(TypedDict):
    created_at: str
    done: bool
    done_reason: Literal["stop", "length"]


class Wrong(TypedDict):
    message: str


LAST = {"done": True, "done_reason": "stop"}


def wire(kind: Any, rules: Rules = Rules(), place: Any = None) -> Wire:
    case = Case("Line", shape_of(kind), place or (lambda value: [value | LAST]))
    return Wire("ollama", (case,), rules=rules, framed=as_line)


def test_what_is_read_is_no_loss() -> None:
    assert losses(wire(Line)) == []


def test_a_new_field_is_lost() -> None:
    fields = frozenset({"Verdict.text", "Verdict.score"})
    assert losses(wire(Newer)) == [Loss("Line.verdict", "lost", fields)]


def test_a_field_that_may_be_left_out() -> None:
    assert losses(wire(Newer, Rules(meaningless={"Newer.verdict": "for tests"}))) == []


def test_patterns_that_match_nothing() -> None:
    rules = Rules(
        meaningless={"Newer.verdict": "for tests", "Newer.gone": "for tests", "Line.message.*": "too"}
    )
    assert unused(wire(Newer, rules)) == ["Newer.gone"]


def test_a_field_beside_others_that_are_read() -> None:
    found = losses(wire(Scored))
    assert found == [Loss("Line.message.tool_calls[].score", "lost", frozenset({"ScoredCall.score"}))]


def test_what_is_converted_is_no_loss() -> None:
    """A time is no text any more, and a boolean has no mark: they count if they make a difference."""
    rules = Rules(fixed={"Timed.created_at": time_text})
    assert losses(wire(Timed, rules, lambda value: [{"model": "m"} | value])) == []


def test_a_defect_of_reading_is_reported() -> None:
    (loss,) = losses(wire(Wrong))
    assert loss.label == "Line"
    assert "an event could not be decoded" in loss.what


def test_a_type_has_one_line() -> None:
    """A type that cannot be read is lost as well; the record holds one finding by label."""
    found = losses(wire(Line, Rules(fixed={"Function.name": 7})))
    assert len({loss.label for loss in found}) == len(found) > 0


def test_marks_do_not_change_the_record() -> None:
    """A defect's message quotes the payload; numbers of marks in it would differ between runs."""
    assert all("mark" not in loss.what for loss in losses(wire(Wrong)))


def test_how_answers_end() -> None:
    ended = Reasons("done_reason", ("stop", "new"), lambda reason: [LAST | {"done_reason": reason}])
    assert [finish_of(wire(Line), ended.place(reason)) for reason in ended.values] == ["stop", "other"]
    assert finish_of(wire(Line), [{"error": "overloaded"}]).startswith("error: ")
