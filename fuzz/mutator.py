"""Mutations of payload lines as JSON: blind ones seldom leave anything that is read past its syntax."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import atheris
import msgspec

from fuzz.inputs import HEADER_BYTES
from fuzz.sentences import LINES

_ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    7,
    2**63,
    1.5,
    1e300,
    "",
    "0",
    "a",
    "ü🙂",
    "stop",
    [],
    {},
    [{}],
)
_BLIND = 0.1  # of the mutations are left to libFuzzer


def mutate(data: bytes, max_size: int, seed: int) -> bytes:
    """A neighbour of an input: of lines mostly another order, other values, fewer members."""
    chance = random.Random(seed)
    if len(data) <= HEADER_BYTES or not data[0] & LINES or chance.random() < _BLIND:
        return atheris.Mutate(data, max_size)
    lines = data[HEADER_BYTES:].split(b"\n")
    for _ in range(chance.choice((1, 1, 2, 4))):
        chance.choice(_MUTATIONS)(lines, chance)
    mutated = data[:HEADER_BYTES] + b"\n".join(lines)
    return mutated if len(mutated) <= max_size else atheris.Mutate(data, max_size)


def _drop(lines: list[bytes], chance: random.Random) -> None:
    if len(lines) > 1:
        del lines[chance.randrange(len(lines))]


def _repeat(lines: list[bytes], chance: random.Random) -> None:
    lines.insert(chance.randrange(len(lines) + 1), chance.choice(lines))


def _swap(lines: list[bytes], chance: random.Random) -> None:
    one, other = chance.randrange(len(lines)), chance.randrange(len(lines))
    lines[one], lines[other] = lines[other], lines[one]


def _change(lines: list[bytes], chance: random.Random) -> None:
    """Changes one member of one payload: to something odd, to a part of another payload, or away."""
    number = chance.randrange(len(lines))
    before, brace, text = lines[number].partition(b"{")
    value = _read(brace + text)
    places = list(_places(value))
    if not places:
        return
    box, key = chance.choice(places)
    match chance.randrange(4):
        case 0:
            box[key] = chance.choice(_ODD)
        case 1:
            del box[key]
        case 2:
            _, _, other = chance.choice(lines).partition(b"{")
            donors = list(_places(_read(b"{" + other)))
            if donors:
                donor, name = chance.choice(donors)
                box[name if isinstance(box, dict) and isinstance(name, str) else key] = donor[name]
        case _:
            twin, name = chance.choice(places)
            if isinstance(box[key], int | str | None) and not isinstance(twin[name], dict | list):
                box[key] = twin[name]
    lines[number] = before + msgspec.json.encode(value)


def _read(text: bytes) -> Any:
    try:
        return msgspec.json.decode(text)
    except (ValueError, msgspec.DecodeError, RecursionError):
        return None


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every member, as the container and its key in it."""
    found: list[tuple[Any, Any]] = []
    boxes = [value]
    while boxes:
        box = boxes.pop()
        items = box.items() if isinstance(box, dict) else enumerate(box) if isinstance(box, list) else ()
        for key, inner in items:
            found.append((box, key))
            boxes.append(inner)
    return found


_MUTATIONS: tuple[Callable[[list[bytes], random.Random], None], ...] = (
    _drop, _repeat, _swap, _change, _change, _change, _change,
)  # fmt: skip
