"""Instances: all fields are there, all options of unions are shown, all marks differ."""

from __future__ import annotations

import json
from typing import Any, Literal, TypedDict

from drift.filled import Rules, instances, minimal, replaced
from drift.shapes import shape_of
from drift.wires import encoded, json_text


class Text(TypedDict):
    type: Literal["text"]
    text: str


class Image(TypedDict, total=False):
    type: Literal["image"]
    data: bytes
    size: int
    detail: Literal["low", "high"]


class Nested(TypedDict):
    type: Literal["nested"]
    inside: list[Part]
    best: Text | Image


Part = Text | Image | Nested


class Message(TypedDict, total=False):
    content: str | list[Part]
    first: Part
    index: int
    arguments: str
    note: str
    done: bool


def marks(value: Any) -> list[str]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, str) and "mark" in leaf]


def leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for inner in value.values() for leaf in leaves(inner)]
    return [leaf for inner in value for leaf in leaves(inner)] if isinstance(value, list) else [value]


def test_every_option_of_every_union() -> None:
    labels = {place.label for filled in instances(shape_of(Message), "Message") for place in filled.places}
    assert labels >= {
        "Message.content<string>",
        "Message.content<items>[]<Text>.text",
        "Message.content<items>[]<Nested>.best<Image>.data",
        "Message.first<Nested>.inside[]<Image>.size",
        "Message.first<Nested>.best<Text>.text",
        "Message.done",
    }


def test_marks_differ() -> None:
    found = [mark for filled in instances(shape_of(Message), "Message") for mark in marks(filled.value)]
    assert len(found) == len(set(found)) > 10


def test_booleans_are_tried_both_ways() -> None:
    assert {filled.value["done"] for filled in instances(shape_of(Message), "Message")} == {True, False}


def test_types_that_hold_themselves_end() -> None:
    for filled in instances(shape_of(Nested), "Nested"):
        assert "nested" not in json.dumps(filled.value["inside"])


def test_fixed_values() -> None:
    rules = Rules(fixed={"*.index": 0, "Message.arguments": json_text, "Image.data": encoded})
    filled = next(instances(shape_of(Message), "Message", rules))
    assert filled.value["index"] == 0
    assert list(json.loads(filled.value["arguments"])) == ["marked"]
    assert "Message.index" not in {place.label for place in filled.places}


def test_one_field_at_a_time() -> None:
    rules = Rules(alone={"Image": {"detail": ("data",)}})
    found = [set(filled.value) for filled in instances(shape_of(Image), "Image", rules)]
    assert found == [{"type", "data", "detail"}, {"type", "size"}]


def test_meaningless_fields_are_left_out() -> None:
    rules = Rules(
        meaningless={"Message.note": "why", "Message.first<Text>.*": "why", "Message.content*": "why"}
    )
    for filled in instances(shape_of(Message), "Message", rules):
        assert {"note", "content"}.isdisjoint(filled.value)
        assert not any(place.label.startswith("Message.first<Text>") for place in filled.places)


def test_minimal_instances_have_no_marks() -> None:
    assert minimal(shape_of(Nested)) == {
        "type": "nested",
        "inside": [{"type": "text", "text": "dull"}],
        "best": {"type": "text", "text": "dull"},
    }


def test_places_lead_to_their_values() -> None:
    for filled in instances(shape_of(Message), "Message"):
        for place in filled.places:
            changed = replaced(filled.value, place.path, "other")
            assert leaves(changed).count("other") == 1
