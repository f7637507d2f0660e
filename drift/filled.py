"""Filled instances: every field of a shape holds a value that stands nowhere else."""

from __future__ import annotations

import base64
import copy
import datetime
import functools
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from drift.shapes import Choice, Field, Items, Leaf, Mapped, Record, Shape

__all__ = ["Filled", "Place", "Rules", "instances", "minimal", "replaced"]

# Instances of one shape. The largest, with all its unions, needs some 60.
_MOST_ROUNDS = 400

_EPOCH = datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC)


class Rules(NamedTuple):
    """How a wire's values differ from what their types say.

    fixed:       "Type.field" (a pattern) to the value that always stands there, or to a function that
                 makes the value of a mark, for a field that holds JSON or base64 as text
    alone:       types of which one field at a time is set, to the fields that may stand beside it and
                 beside which ones; () is all
    meaningless: "Type.field" or labels (patterns) that llmstream leaves out by design; so do the
                 instances, unless the field is required
    """

    fixed: Mapping[str, Any] = {}
    alone: Mapping[str, Mapping[str, tuple[str, ...]]] = {}
    meaningless: Mapping[str, str] = {}


class Place(NamedTuple):
    """One leaf of an instance.

    label: for people, such as `Message.content[]<TextBlock>.text`
    field: the innermost, as "Type.field"
    path:  keys and indexes from the top of the instance
    other: another value that could stand there
    is_known_value: whether it is one of a few known values, and has no mark
    """

    label: str
    field: str
    path: tuple[str | int, ...]
    value: Any
    other: Any
    is_known_value: bool


class Filled(NamedTuple):
    """One instance and the leaves of it that have to be found again.

    left_out: the patterns by which fields of this instance are missing
    """

    value: Any
    places: list[Place]
    left_out: set[str]


def instances(shape: Shape, label: str, rules: Rules = Rules()) -> Iterator[Filled]:
    """As many instances as it takes to show every option of every union in the shape once."""
    marks, seen = itertools.count(1), _Options()
    for _ in range(_MOST_ROUNDS):
        filler = _Filler(rules, marks, seen)
        value = filler.fill(shape, label, (), ())
        yield Filled(value, filler.places, filler.left_out)
        if not seen.pending:
            return


def minimal(shape: Shape, rules: Rules = Rules()) -> Any:
    """An instance with the required fields only."""
    return _Filler(rules, itertools.count(1), _Options(), optional=False).fill(shape, "", (), ())


def replaced(value: Any, path: tuple[str | int, ...], other: Any) -> Any:
    """A copy of an instance with one leaf changed."""
    changed = copy.deepcopy(value)
    holder = changed
    for key in path[:-1]:
        holder = holder[key]
    if not path:
        return other
    holder[path[-1]] = other
    return changed


class _Options:
    """Which options of which unions have been shown."""

    def __init__(self) -> None:
        self.pending: set[str] = set()
        self._shown: set[str] = set()

    def choose(self, labels: list[str]) -> int:
        """The first option that was not shown yet, else one in which something is left to show."""
        for label in labels:
            if label not in self._shown:
                self.pending.add(label)
        new = next((n for n, label in enumerate(labels) if label not in self._shown), None)
        if new is None:
            open_ones = (n for n, label in enumerate(labels) if self._open(label))
            return next(open_ones, 0)
        self._shown.add(labels[new])
        self.pending.discard(labels[new])
        return new

    def _open(self, label: str) -> bool:
        return any(other.startswith(label) for other in self.pending)


class _Filler:
    """Fills one instance."""

    def __init__(
        self, rules: Rules, marks: Iterator[int], options: _Options, *, optional: bool = True
    ) -> None:
        self.places: list[Place] = []
        self.left_out: set[str] = set()
        self._rules = rules
        self._marks = marks
        self._options = options
        self._optional = optional

    def fill(
        self, shape: Shape, label: str, path: tuple[str | int, ...], inside: tuple[int, ...], name: str = ""
    ) -> Any:
        """A value of the shape.

        inside: the objects that this one stands in; one that holds itself is filled once
        name:   "Type.field"
        """
        match shape:
            case Leaf():
                return self._leaf(shape, label, path, name)
            case Items(item):
                options = item.options if isinstance(item, Choice) and self._optional else (item,)
                several = [(o, self._named(label + "[]", o, len(options) > 1)) for o in options]
                ready = [(o, where) for o, where in several if id(o) not in inside]
                return [self.fill(o, where, (*path, n), inside, name) for n, (o, where) in enumerate(ready)]
            case Mapped(value):
                return {"key": self.fill(value, label + "{}", (*path, "key"), inside, name)}
            case Choice(options):
                ready_options = [o for o in options if id(o) not in inside] or list(options)
                labels = [self._named(label, option, True) for option in ready_options]
                chosen = self._options.choose(labels) if self._optional else 0
                return self.fill(ready_options[chosen], labels[chosen], path, inside, name)
            case _:
                return self._record(shape, label, path, (*inside, id(shape)))

    def _named(self, label: str, option: Shape, several: bool) -> str:
        if not several:
            return label
        match option:
            case Record():
                return f"{label}<{option.name}>"
            case Leaf(kind):
                return f"{label}<{kind}>"
            case _:
                return f"{label}<{type(option).__name__.lower()}>"

    def _record(self, shape: Record, label: str, path: tuple[str | int, ...], inside: tuple[int, ...]) -> Any:
        value: dict[str, Any] = {}
        for name, field in self._fields(shape, label).items():
            full = f"{shape.name}.{name}"
            if not field.required and self._is_left_out(field.shape, inside):
                continue
            fixed = _found(self._rules.fixed, full)
            if fixed is not None and not callable(fixed):
                value[name] = copy.deepcopy(fixed)
                continue
            if not _is_tag(field.shape) and self._is_meaningless(full, f"{label}.{name}"):
                if field.required:
                    value[name] = minimal(field.shape, self._rules)
                continue
            value[name] = self.fill(field.shape, f"{label}.{name}", (*path, name), inside, full)
        return value

    def _is_left_out(self, shape: Shape, inside: tuple[int, ...]) -> bool:
        """Whether a field that may be left out is: not a tag, which SDKs give a default."""
        return not _is_tag(shape) and (not self._optional or _holds(shape, inside))

    def _is_meaningless(self, *names: str) -> bool:
        patterns = self._rules.meaningless
        found = {pattern for pattern in patterns if any(map(_matcher(pattern), names))}
        self.left_out |= found
        return bool(found)

    def _fields(self, shape: Record, label: str) -> Mapping[str, Field]:
        """All fields, or of a type that has one at a time that one and what may stand beside it."""
        beside = self._rules.alone.get(shape.name)
        if beside is None or not self._optional:
            return shape.fields
        tags = {name for name, field in shape.fields.items() if _is_tag(field.shape)}
        names = [name for name in shape.fields if name not in beside and name not in tags]
        chosen = names[self._options.choose([f"{label}.{name}" for name in names])]
        return {
            name: field
            for name, field in shape.fields.items()
            if name == chosen or name in tags or (name in beside and chosen in (beside[name] or (chosen,)))
        }

    def _leaf(self, shape: Leaf, label: str, path: tuple[str | int, ...], name: str) -> Any:
        make = _found(self._rules.fixed, name)
        if shape.values:
            value, other = shape.values[0], shape.values[1] if len(shape.values) > 1 else None
            if not self._optional or other is None:
                return value  # a tag names the type, no more
        elif shape.kind == "boolean":
            value = self._optional and self._options.choose([f"{label}=true", f"{label}=false"]) == 0
            other = not value
        else:
            make = make or (_address if name.lower().endswith(("url", "uri")) else None)
            value, other = (self._mark(shape.kind, make), self._mark(shape.kind, make))
        self.places.append(
            Place(label, name, path, value, other, bool(shape.values) or shape.kind == "boolean")
        )
        return value

    def _mark(self, kind: str, make: Callable[[str], Any] | None) -> Any:
        number = next(self._marks)
        if not self._optional:
            return _dull(kind, make)
        if make is not None:
            return make(f"mark{number}x")
        match kind:
            case "integer":
                return 1_000_000 + number
            case "number":
                return -(1_000_000 + number + 0.25)
            case "time":
                return (_EPOCH + datetime.timedelta(seconds=number)).isoformat().replace("+00:00", "Z")
            case "bytes":
                return base64.b64encode(f"mark{number}x".encode()).decode()
            case _:
                return f"mark{number}x"


def _is_tag(shape: Shape) -> bool:
    return isinstance(shape, Leaf) and len(shape.values) == 1


def _address(mark: str) -> str:
    return f"https://example.org/{mark}"


def _dull(kind: str, make: Callable[[str], Any] | None) -> Any:
    """A value without a mark, for what only has to be there."""
    if make is not None:
        return make("dull")
    match kind:
        case "integer" | "number":
            return 1
        case "time":
            return "2030-01-01T00:00:00Z"
        case "bytes":
            return base64.b64encode(b"dull").decode()
        case _:
            return "dull"


def _holds(shape: Shape, inside: tuple[int, ...]) -> bool:
    """Whether a field leads at once into an object that it stands in."""
    match shape:
        case Items(inner) | Mapped(inner):
            return _holds(inner, inside)
        case Choice(options):
            return all(_holds(option, inside) for option in options)
        case _:
            return id(shape) in inside


def _found(patterns: Mapping[str, Any], name: str) -> Any:
    return next((value for pattern, value in patterns.items() if _matcher(pattern)(name)), None)


@functools.cache
def _matcher(pattern: str) -> Callable[[str], Any]:
    """A pattern in which only `*` means something: labels hold brackets."""
    return re.compile(".*".join(map(re.escape, pattern.split("*")))).fullmatch
