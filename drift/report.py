"""The report: what is new, gone or lost since the record, with a summary line for each wire."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from drift.losses import unused
from drift.record import REQUESTS, Change, Found, compared, found_in, load, requests_found, save
from drift.sdks import read
from drift.wires import Wire

__all__ = ["look"]

# Lines shown of one kind of change on one wire, unless all are wanted.
_MOST_LINES = 40


def look(packages: tuple[str, ...], *, record: bool, everything: bool) -> int:
    """Reads the SDKs, then tries the requests, and reports; or writes the record.

    returns: the exit status of the command
    """
    with _quiet():
        return _look(packages, record=record, everything=everything)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the log of llmstream: instances are full of what vendors warn of."""
    log = logging.getLogger("llmstream")
    before = log.level
    log.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        log.setLevel(before)


def _look(packages: tuple[str, ...], *, record: bool, everything: bool) -> int:
    found: dict[str, Found] = {}
    wires: list[Wire] = []
    trouble = 0
    for sdk in read(packages):
        if sdk.version is None:
            print(f"{sdk.package}: not installed, skipped")
        if sdk.trouble is not None:
            print(f"{sdk.package}: {sdk.trouble}")
            trouble = 2
        for wire in sdk.wires:
            found[wire.name] = found_in(sdk, wire)
            wires.append(wire)
            _report(wire.name, found[wire.name], everything)
            for pattern in unused(wire):
                print(f"  unused: {pattern!r} of drift/meaningless.toml matches no field; remove it")
    _progress("requests")
    found[REQUESTS] = requests_found(wires, lambda provider: _progress(f"requests of {provider}"))
    _progress("")
    _report(REQUESTS, found[REQUESTS], everything)
    bad = sum(change.bad for name, what in found.items() for change in compared(what, load(name)))
    if record:
        for name, what in found.items():
            save(name, what)
        print(f"recorded {len(found)} files in drift/record")
        return trouble
    print(_verdict(bad, len(wires)))
    return trouble or (1 if bad else 0)


def _verdict(bad: int, wires: int) -> str:
    if not bad:
        return f"Nothing is lost or violated that the record does not have ({wires} wires)."
    return (
        f"{bad} lost or violated beside the record. Fix the decoder or the model rules, or say in "
        "drift/meaningless.toml why it may be left out; then `scripts/drift --record`."
    )


def _report(name: str, found: Found, everything: bool) -> None:
    """A summary line, and the changes below it."""
    recorded = load(name)
    changes = compared(found, recorded)
    print(f"{name}: {_summary(found, recorded, changes)}")
    shown: dict[str, int] = {}
    for change in changes if recorded is not None else [c for c in changes if c.bad]:
        shown[change.kind] = shown.get(change.kind, 0) + 1
        if everything or shown[change.kind] <= _MOST_LINES:
            print(f"  {change}")
    for kind, count in shown.items():
        if count > _MOST_LINES and not everything:
            print(f"  {kind}: {count - _MOST_LINES} more (--all shows them)")


def _summary(found: Found, recorded: Found | None, changes: list[Change]) -> str:
    if "violations" in found:
        count = sum(len(models) for rule in found["violations"].values() for models in rule.values())
        parts = [f"{len(found['violations'])} rules violated, by {count} pairs of provider and model"]
    else:
        parts = [
            found["sdk"] + _since(found["sdk"], recorded),
            f"{len(found['types'])} types",
            f"{sum(map(len, found['types'].values()))} fields",
            f"{len(found['models'])} models",
            f"{len(found['losses'])} losses",
        ]
    if recorded is None:
        return ", ".join((*parts, "no record yet"))
    kinds: dict[str, int] = {}
    for change in changes:
        kinds[change.kind] = kinds.get(change.kind, 0) + 1
    return ", ".join((*parts, *(f"{count} {kind}" for kind, count in kinds.items()))) + (
        "" if changes else ", as recorded"
    )


def _since(sdk: str, recorded: Found | None) -> str:
    before = (recorded or {}).get("sdk", sdk)
    return "" if before == sdk else f" (recorded: {before.rpartition(' ')[2]})"


def _progress(text: str) -> None:
    """Where this is, on a terminal only, in one line that goes away."""
    if sys.stderr.isatty():
        print(f"\r\033[K{text}{'...' if text else ''}", end="", file=sys.stderr, flush=True)
