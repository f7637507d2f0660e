"""Types of every library as one algebra."""

from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass
from typing import Annotated, Any, Literal, NewType, NotRequired, TypedDict

import msgspec
import pytest

from drift.shapes import ANY, Choice, Items, Leaf, Mapped, Record, records, shape_of, text_of

pydantic = pytest.importorskip("pydantic", reason="pydantic comes with the SDKs")


class Colour(enum.Enum):
    UNSPECIFIED = "COLOUR_UNSPECIFIED"
    RED = "RED"
    BLUE = "BLUE"


class Inner(TypedDict):
    type: Literal["inner"]
    size: NotRequired[int]


@dataclass
class Plain:
    name: str
    parts: list[Inner] | None = None


class Packed(msgspec.Struct, rename="camel"):
    stop_reason: Literal["end", "length"] | None = None


class Model(pydantic.BaseModel):
    model_config = pydantic.ConfigDict(populate_by_name=True)

    answer: str
    snake_case: Annotated[int | None, "a note"] = pydantic.Field(default=None, alias="camelCase")
    child: Model | None = None


Name = NewType("Name", str)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "string"),
        (Annotated[str, "note"], "string"),
        (int | None, "integer"),
        (Name, "string"),
        (datetime.datetime, "time"),
        (Literal["a", "b"], 'string "a" "b"'),
        (Literal["a"] | Literal["b"] | str, 'string "a" "b"'),
        (Colour, 'string "RED" "BLUE"'),
        (list[str | int], "[integer | string]"),
        (dict[str, list[float]], "{[number]}"),
        (Annotated[Inner | Plain | None, "by type"], "Inner | Plain"),
        (Any, "any"),
        (object, "any"),
    ],
)
def test_annotations(annotation: Any, text: str) -> None:
    assert text_of(shape_of(annotation)) == text


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (Inner, {"type": ('string "inner"', True), "size": ("integer", False)}),
        (Plain, {"name": ("string", True), "parts": ("[Inner]", False)}),
        (Packed, {"stopReason": ('string "end" "length"', False)}),
        (
            Model,
            {"answer": ("string", True), "camelCase": ("integer", False), "child": ("Model", False)},
        ),
    ],
)
def test_fields_by_library(kind: Any, fields: dict[str, tuple[str, bool]]) -> None:
    shape = shape_of(kind)
    assert isinstance(shape, Record)
    assert {name: (text_of(f.shape), f.required) for name, f in shape.fields.items()} == fields


def test_types_that_hold_themselves() -> None:
    assert [record.name for record in records(shape_of(Model))] == ["Model"]


def test_nested_unions_are_flat() -> None:
    shape = shape_of(Inner | Annotated[Plain | Packed, "x"])
    assert isinstance(shape, Choice)
    assert len(shape.options) == 3


def test_stand_ins_for_the_unknown() -> None:
    """Speakeasy's SDKs have a class for what is absent and one for each union's unknown members."""

    class Unset(pydantic.BaseModel):
        pass

    class UnknownPart(pydantic.BaseModel):
        is_unknown: Literal[True] = True

    assert text_of(shape_of(Inner | Unset | UnknownPart | None)) == "Inner"


def test_generic_aliases() -> None:
    extensions = pytest.importorskip("typing_extensions")
    value = extensions.TypeVar("value")
    maybe = extensions.TypeAliasType("maybe", list[value] | None, type_params=(value,))
    assert shape_of(maybe[int]) == Items(Leaf("integer"))


def test_models_that_are_one_field() -> None:
    class Image(pydantic.BaseModel):
        value: bytes

        @pydantic.model_serializer
        def serialized(self) -> str:
            return "text"

    assert shape_of(Image) == Leaf("bytes")


def test_names_that_are_not_there() -> None:
    assert shape_of("Missing", __name__) == ANY
    assert shape_of("dict[str, int]", __name__) == Mapped(Leaf("integer"))


def test_botocore_unions_have_one_member() -> None:
    model = pytest.importorskip("botocore.model", reason="botocore is not installed")
    from drift.shapes import shape_of_botocore

    shapes = {
        "Event": {"type": "structure", "required": ["kind"], "members": {"kind": {"shape": "Kind"}}},
        "Kind": {
            "type": "structure",
            "union": True,
            "members": {"text": {"shape": "Text"}, "bytes": {"shape": "Bytes"}},
        },
        "Text": {"type": "string", "enum": ["a", "b"]},
        "Bytes": {"type": "blob"},
    }
    event = model.ShapeResolver(shapes).get_shape_by_name("Event")
    found = {
        r.name: {n: text_of(f.shape) for n, f in r.fields.items()} for r in records(shape_of_botocore(event))
    }
    assert found == {
        "Event": {"kind": "Kind.bytes | Kind.text"},
        "Kind.text": {"text": 'string "a" "b"'},
        "Kind.bytes": {"bytes": "bytes"},
    }
