"""Losses: what of an instance is in no event after it went through a decoder of ours."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import msgspec

from drift.filled import Filled, Place, instances, replaced
from drift.wires import Case, Wire
from llmstream.cli.config import wire_of
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import ErrorEvent, Event, Finish, Raw
from llmstream.grammar import check
from llmstream.testing.conformance import with_numbered_ids

__all__ = ["Loss", "events_of", "finish_of", "losses", "starts", "unused"]

_MARK = re.compile(r"mark\d+x")
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_DEFECTS = ("decode-error", "protocol-error")
_LABEL_STEP = re.compile(r"(?=[.<]|\[\]|\{\})")


class Loss(NamedTuple):
    """What is wrong with one field or type.

    what:   "lost", or how the decoder failed
    fields: those that are lost, as "Type.field"
    """

    label: str
    what: str
    fields: frozenset[str] = frozenset()


def losses(wire: Wire) -> list[Loss]:
    """Everything that a wire's decoder loses of the types of its SDK, in the order of the labels."""
    found: set[str] = set()
    lost: set[str] = set()
    fields: dict[str, str] = {}
    maybe: set[str] = set()
    broken: dict[str, str] = {}
    for case in wire.cases:
        for filled in instances(case.shape, case.name, wire.rules):
            missing = set(_missing(wire, case, filled, broken))
            lost |= {place.label for place in missing if not place.is_known_value}
            maybe |= {place.label for place in missing if place.is_known_value}
            fields.update((place.label, place.field) for place in missing)
            found |= {place.label for place in filled.places if place not in missing}
    lost |= maybe - found  # one of two values may change nothing in one place and something in another
    summed = [
        Loss(top, "lost", frozenset(fields[label] for label in below))
        for top, below in _summed(lost, found - lost).items()
        if top not in broken  # whose message tells more
    ]
    return sorted([*summed, *(Loss(label, what) for label, what in broken.items())])


def unused(wire: Wire) -> list[str]:
    """Patterns of what is left out by design that no field of the SDK matches any more."""
    used: set[str] = set()
    for case in wire.cases:
        for filled in instances(case.shape, case.name, wire.rules):
            used |= filled.left_out
    return sorted(set(wire.rules.meaningless) - used)


def events_of(wire: Wire, payloads: Iterable[Any]) -> list[Event]:
    """The complete stream that a body of these payloads becomes."""
    dialect, provider, _ = wire_of(wire.name, None)
    sentence = GuardedDecoder(dialect.decoder(provider=provider), provider=provider)
    body = b"".join(map(wire.framed, payloads))
    return [*sentence.start(), *sentence.feed(body), *sentence.close()]


def finish_of(wire: Wire, payloads: Iterable[Any]) -> str:
    """How our events tell an end: the finish reason, with the error where it is one."""
    events = events_of(wire, payloads)
    reason = next((event.finish_reason for event in events if isinstance(event, Finish)), "nothing")
    error = next((event.error for event in events if isinstance(event, ErrorEvent)), None)
    if error is None:
        return str(reason)
    cause = f" ({error.reason})" if error.reason else ""
    retried = "retryable" if error.retryable else "not retryable"
    return f"{reason}: {error.code}{cause}, {retried}"


def _missing(wire: Wire, case: Case, filled: Filled, broken: dict[str, str]) -> Iterator[Place]:
    """The leaves that are in no event, and that change no event when they change."""
    try:
        events = events_of(wire, case.place(filled.value))
    except Exception as error:  # a decoder has to survive whatever comes
        broken[case.name] = f"raises {type(error).__name__}: {error}"
        return
    _note_defects(case, events, broken)
    text = _text(events)
    marks, numbers = set(_MARK.findall(text)), set(_NUMBER.findall(text))
    shown = None
    for place in filled.places:
        if _is_shown(place, text, marks, numbers):
            continue
        shown = _numbered(events) if shown is None else shown
        changed = replaced(filled.value, place.path, place.other)
        if place.other is None or _numbered(events_of(wire, case.place(changed))) == shown:
            yield place


def _note_defects(case: Case, events: list[Event], broken: dict[str, str]) -> None:
    faults = check(events)
    if faults:
        broken[case.name] = f"breaks the grammar: {faults[0]}"
    for event in events:
        if isinstance(event, ErrorEvent) and event.error.code in _DEFECTS:
            broken.setdefault(case.name, _MARK.sub("MARK", f"{event.error.code}: {event.error.message}"))


def _text(events: list[Event]) -> str:
    shown = [event for event in events if not isinstance(event, Raw)]
    return json.dumps(msgspec.to_builtins(shown, str_keys=True), ensure_ascii=False)


def _numbered(events: list[Event]) -> str:
    return _text(with_numbered_ids(events))


def _is_shown(place: Place, text: str, marks: set[str], numbers: set[str]) -> bool:
    value = place.value
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return False
    if isinstance(value, (int, float)):
        return str(value) in numbers
    found = _MARK.search(value)
    if found is not None:
        return found.group() in marks or value in text
    return len(value) > 3 and value in text and (_decoded(value) is not None or value.startswith("2031-"))


def _decoded(value: str) -> str | None:
    try:
        text = base64.b64decode(value, validate=True).decode()
    except (ValueError, UnicodeDecodeError):
        return None
    return text if _MARK.search(text) else None


def _summed(lost: set[str], found: set[str]) -> dict[str, list[str]]:
    """The labels of what is lost, each with those below it; an object with nothing left is one label."""
    holding = {start for label in found for start in starts(label)}
    tops: dict[str, list[str]] = {}
    for label in sorted(lost):
        top = next(start for start in starts(label) if start not in holding)
        tops.setdefault(top, []).append(label)
    return tops


def starts(label: str) -> list[str]:
    """A label's beginnings from the top, the label itself last."""
    steps = _LABEL_STEP.split(label)
    return ["".join(steps[: count + 1]) for count in range(len(steps))]
