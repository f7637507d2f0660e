"""The record: what a run found, as JSON files that read well in a diff; and what a run finds beside it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from drift.losses import Loss, finish_of, losses, starts
from drift.matrix import violations
from drift.sdks import Sdk
from drift.shapes import Leaf, Shape, records, text_of
from drift.wires import Wire

__all__ = [
    "FOLDER",
    "Change",
    "Found",
    "compared",
    "found_in",
    "is_new",
    "is_recorded",
    "load",
    "requests_found",
    "save",
]

FOLDER = Path(__file__).with_name("record")
REQUESTS = "requests"

Found = dict[str, Any]
"""What was found on one wire, or of the requests: plain data, as it stands in a file."""


class Change(NamedTuple):
    """One difference to the record.

    kind: "new", "gone", "changed", "lost", "no longer lost", "violated" or "no longer violated"
    bad:  whether it is something lost or violated that the record does not have
    """

    kind: str
    what: str
    bad: bool = False

    def __str__(self) -> str:
        return f"{self.kind}: {self.what}"


def found_in(sdk: Sdk, wire: Wire) -> Found:
    """What one wire's types, ends, models and losses are."""
    return {
        "sdk": f"{sdk.package} {sdk.version}",
        "types": _types(wire),
        "ends": {
            reasons.name: {str(word): finish_of(wire, reasons.place(word)) for word in reasons.values}
            for reasons in wire.reasons
        },
        "models": sorted(wire.models),
        "losses": {loss.label: loss.what for loss in losses(wire)},
    }


def requests_found(wires: Iterable[Wire], seen: Callable[[str], None] = lambda provider: None) -> Found:
    """What the matrix of requests shows: rule to provider to model to one request that breaks it."""
    broken: dict[str, dict[str, dict[str, str]]] = {}
    for violation in violations(_models(wires), seen=seen):
        models = broken.setdefault(violation.rule, {}).setdefault(violation.provider, {})
        models[violation.model] = violation.example
    return {"violations": {rule: broken[rule] for rule in sorted(broken)}}


def _models(wires: Iterable[Wire]) -> dict[str, tuple[str, ...]]:
    """The models of each wire; those of an SDK that is not here are the recorded ones."""
    recorded = {
        path.stem: tuple(json.loads(path.read_text()).get("models", ())) for path in FOLDER.glob("*.json")
    }
    return recorded | {wire.name: wire.models for wire in wires}


def is_recorded(label: str, what: str, losses: Mapping[str, str]) -> bool:
    """Whether a loss is in the record: itself, or as a part of an object that was lost as a whole."""
    return any(losses.get(start) == what for start in starts(label))


def is_new(loss: Loss, recorded: Found) -> bool:
    """Whether a loss is of a field that the record does not know: the SDK is newer than the record."""
    known = {f"{kind}.{field}" for kind, fields in recorded["types"].items() for field in fields}
    return not loss.fields <= known


def _types(wire: Wire) -> dict[str, dict[str, str]]:
    """Type to its fields. Types of one name, which SDKs have in several modules, are one entry."""
    types: dict[str, dict[str, str]] = {}
    for record in records(*(case.shape for case in wire.cases)):
        known = types.setdefault(record.name, {})
        for name, field in record.fields.items():
            text = _notation(field.shape, set(wire.models))
            options = {*filter(None, known.get(name, "").split(" | ")), text}
            known[name] = " | ".join(sorted(options))
    return {name: dict(sorted(types[name].items())) for name in sorted(types)}


def _notation(shape: Shape, models: set[str]) -> str:
    """As `text_of`, but for lists of models, which would show every new one in many places."""
    if isinstance(shape, Leaf) and len(shape.values) > 1 and models.issuperset(shape.values):
        return f"{shape.kind}, a model"
    return text_of(shape)


def load(name: str, folder: Path = FOLDER) -> Found | None:
    """What the last run found on a wire, or of the requests; None where there is no record."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def save(name: str, found: Found, folder: Path = FOLDER) -> None:
    """Writes the record of a wire, or of the requests."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(found, indent=1, ensure_ascii=False)
    (folder / f"{name}.json").write_text(text + "\n")


def compared(found: Found, recorded: Found | None) -> list[Change]:
    """What is different from the record, losses and violations first."""
    before = recorded or {}
    return [
        *_losses(found.get("losses", {}), before.get("losses", {})),
        *_violations(found.get("violations", {}), before.get("violations", {})),
        *_ends(found.get("ends", {}), before.get("ends", {})),
        *_named("model", set(found.get("models", ())), set(before.get("models", ()))),
        *_of_types(found.get("types", {}), before.get("types", {})),
    ]


def _losses(now: Mapping[str, str], before: Mapping[str, str]) -> list[Change]:
    new = {label: what for label, what in now.items() if not is_recorded(label, what, before)}
    return [
        *(
            Change("lost", label if what == "lost" else f"{label}: {what}", True)
            for label, what in new.items()
        ),
        *(Change("no longer lost", label) for label in before if label not in now),
    ]


Violations: TypeAlias = Mapping[str, Mapping[str, Mapping[str, str]]]


def _violations(now: Violations, before: Violations) -> list[Change]:
    """One line for each rule and provider, with the models."""
    return [*_more(now, before, "violated", True), *_more(before, now, "no longer violated", False)]


def _more(these: Violations, those: Violations, kind: str, bad: bool) -> Iterator[Change]:
    for rule, providers in these.items():
        for provider, models in providers.items():
            known = those.get(rule, {}).get(provider, {})
            only = [model for model in models if model not in known]
            if only:
                example = f" ({models[only[0]]})" if bad else ""
                yield Change(kind, f"{rule}: {provider}: {', '.join(only)}{example}", bad)


def _ends(now: Mapping[str, Mapping[str, str]], before: Mapping[str, Mapping[str, str]]) -> list[Change]:
    changes: list[Change] = []
    for name, readings in now.items():
        known = before.get(name, {})
        for word, reading in readings.items():
            if word not in known:
                changes.append(Change("new", f"{name} {word!r}, read as {reading}"))
            elif known[word] != reading:
                changes.append(
                    Change("changed", f"{name} {word!r}: read as {reading}, before as {known[word]}")
                )
        changes += [Change("gone", f"{name} {word!r}") for word in known if word not in readings]
    return changes


def _named(kind: str, now: set[str], before: set[str]) -> list[Change]:
    return [
        *(Change("new", f"{kind} {name}") for name in sorted(now - before)),
        *(Change("gone", f"{kind} {name}") for name in sorted(before - now)),
    ]


def _of_types(now: Mapping[str, Mapping[str, str]], before: Mapping[str, Mapping[str, str]]) -> list[Change]:
    changes = _named("type", set(now), set(before))
    for name in sorted(set(now) & set(before)):
        fields, known = now[name], before[name]
        changes += _named("field", {f"{name}.{f}" for f in fields}, {f"{name}.{f}" for f in known})
        changes += [
            Change("changed", f"{name}.{field}: {_difference(known[field], text)}")
            for field, text in fields.items()
            if field in known and known[field] != text
        ]
    return changes


def _difference(before: str, now: str) -> str:
    """What a field takes now and what it took, without what is the same."""
    old, new = before.split(" "), now.split(" ")
    gained = [word for word in new if word not in old and word != "|"]
    dropped = [word for word in old if word not in new and word != "|"]
    return (
        " ".join((*(f"+{word}" for word in gained), *(f"-{word}" for word in dropped))) or "in another order"
    )
