"""What an installation brings: distributions and their size, found in the environment itself."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import llmstream

_NAME = re.compile(r"[A-Za-z0-9._-]+")
DISTRIBUTION = "llmstream-sdk"
"""The name under which llmstream is installed."""


class Footprint(NamedTuple):
    """How many distributions a package is and needs, without extras, and their MB on the disk."""

    distributions: int
    mb: float


def footprint(name: str, extras: tuple[str, ...] = ()) -> Footprint:
    """The footprint of an installed distribution and of all that it needs.

    Raises `PackageNotFoundError` where it is not installed.
    """
    metadata.distribution(name)
    needed = sorted(_needed(name, extras))
    return Footprint(len(needed), sum(map(_size, needed)) / 1e6)


def _needed(name: str, extras: tuple[str, ...]) -> set[str]:
    seen: set[tuple[str, tuple[str, ...]]] = set()
    waiting = [(name, extras)]
    while waiting:
        current, wanted = waiting.pop()
        key = re.sub(r"[-_.]+", "-", current).lower()
        try:
            requires = metadata.requires(key) or []
        except metadata.PackageNotFoundError:
            continue  # for another system or Python
        if (key, wanted) not in seen:
            seen.add((key, wanted))
            waiting += _required(requires, wanted)
    return {key for key, _ in seen}


def _required(requires: list[str], extras: tuple[str, ...]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The requirements without an extra, and those of the wanted extras."""
    for line in requires:
        requirement, _, marker = line.partition(";")
        of = re.search(r"extra\s*==\s*['\"]([^'\"]+)['\"]", marker)
        if of is None or of[1] in extras:
            match = _NAME.match(requirement.strip())
            inner = re.search(r"\[([^\]]*)\]", requirement)
            if match:
                yield match[0], tuple(part.strip() for part in inner[1].split(",")) if inner else ()


def _size(name: str) -> int:
    """Bytes of its files; of llmstream, which may be installed in place, those of its package."""
    if name == DISTRIBUTION:
        root = Path(llmstream.__file__).parent
        return sum(path.stat().st_size for path in root.rglob("*") if path.suffix in (".py", ".typed"))
    files = metadata.files(name) or []
    paths = [Path(str(file.locate())) for file in files if file.suffix != ".pyc"]
    return sum(path.stat().st_size for path in paths if path.is_file())
