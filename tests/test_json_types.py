"""Schemas and values of types, pydantic models among them at any depth."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated, Any, Generic, Literal, TypedDict, TypeVar

import msgspec
import pytest
from pydantic import BaseModel, ConfigDict, Field, RootModel, field_validator

from llmstream.json_types import convert, decoder, encode, schemas

T = TypeVar("T")


class Address(BaseModel):
    street: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


class Box(BaseModel, Generic[T]):
    value: T


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date
    price: decimal.Decimal
    marks: tuple[int, ...] = ()


class Tags(RootModel[list[str]]):
    pass


class Tree(BaseModel):
    value: int
    inner: list[Tree] = []


class Aliased(BaseModel):
    name: str = Field(alias="Name")


@dataclass
class Home:
    address: Address
    pet: Cat | None = None
    rooms: Annotated[int, Field(description="how many")] = 1


class Row(TypedDict):
    home: Home


class Line(msgspec.Struct):
    boxes: list[Box[int]]


STREET = {"street": "Main"}


@pytest.mark.parametrize(
    ("kind", "raw", "value"),
    [
        (Address, STREET, Address(street="Main")),
        (list[Address], [STREET], [Address(street="Main")]),
        (dict[str, Address], {"a": STREET}, {"a": Address(street="Main")}),
        (Address | None, None, None),
        (Home, {"address": STREET, "pet": {"name": "T"}}, Home(Address(street="Main"), Cat(name="T"))),
        (Row, {"home": {"address": STREET}}, {"home": Home(Address(street="Main"))}),
        (Line, {"boxes": [{"value": 1}]}, Line([Box[int](value=1)])),
        (Cat | Dog, {"kind": "dog", "age": 2}, Dog(kind="dog", age=2)),
        (list[Annotated[Cat | Dog, Field(discriminator="kind")]], [{"name": "T"}], [Cat(name="T")]),
        (Cat | int | None, 3, 3),
        (Tags, ["a"], Tags(["a"])),
        (Aliased, {"Name": "x"}, Aliased(Name="x")),
        (
            Strict,
            {"day": "2026-01-02", "price": "1.5", "marks": [1]},
            Strict(day=datetime.date(2026, 1, 2), price=decimal.Decimal("1.5"), marks=(1,)),
        ),
    ],
    ids=str,
)
def test_models_are_read_at_any_depth(kind: Any, raw: Any, value: Any) -> None:
    assert decoder(kind).decode(msgspec.json.encode(raw)) == value
    assert convert(raw, kind) == value


@pytest.mark.parametrize(
    ("kind", "raw", "message"),
    [
        (Address, {}, "`street`: Field required"),
        (list[Address], [{"street": 3}], r"`street`: Input should be a valid string - at `\$\[0\]`"),
        (Home, {"address": {}}, r"`street`: Field required - at `\$\.address`"),
        (Cat | Dog, {"kind": "dog"}, "`age`: Field required"),
        (Tags, [1], "`0`: Input should be a valid string"),
    ],
    ids=str,
)
def test_invalid_value_has_pydantics_message(kind: Any, raw: Any, message: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=message):
        convert(raw, kind)


def test_many_errors_are_not_all_listed() -> None:
    with pytest.raises(msgspec.ValidationError, match="and 92 more errors"):
        convert(list(range(100)), Tags)


def test_any_error_of_a_validator_is_one() -> None:
    class Odd(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, value: int) -> int:
            raise KeyError(value)

    with pytest.raises(msgspec.ValidationError, match="KeyError: 1"):
        convert({"n": 1}, Odd)


def test_models_are_written_as_json() -> None:
    value = {"a": [Aliased(Name="x")], "b": Home(Address(street="Main"))}
    assert encode(value) == b'{"a":[{"Name":"x"}],"b":{"address":{"street":"Main"},"pet":null,"rooms":1}}'
    with pytest.raises(TypeError, match="object is unsupported"):
        encode(object())


def schema_of(kind: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    (found,), components = schemas([kind])
    return found, components


def test_model_schema_has_no_name_titles() -> None:
    found, components = schema_of(Aliased | None)
    assert found == {"anyOf": [{"$ref": "#/$defs/Aliased"}, {"type": "null"}]}
    assert components["Aliased"] == {
        "title": "Aliased",
        "type": "object",
        "properties": {"Name": {"type": "string"}},
        "required": ["Name"],
    }


def test_schema_of_a_union_is_one_any_of() -> None:
    expected = {"anyOf": [{"$ref": "#/$defs/Cat"}, {"$ref": "#/$defs/Dog"}, {"type": "null"}]}
    assert schema_of(Cat | Dog | None)[0] == expected
    tagged = schema_of(Box[Annotated[Cat | Dog, Field(discriminator="kind")]])[1]
    assert any(
        each["properties"].get("value") == {"anyOf": expected["anyOf"][:2]} for each in tagged.values()
    )


def test_a_model_in_itself_is_one_component() -> None:
    found, components = schema_of(list[Tree])
    assert found == {"type": "array", "items": {"$ref": "#/$defs/Tree"}}
    assert list(components) == ["Tree"]


def test_same_named_classes_stay_distinct() -> None:
    def other() -> Any:
        @dataclass
        class Address:
            city: str

        return Address

    found, components = schemas([Address, other(), Home])
    assert [each["$ref"] for each in found] == ["#/$defs/Address", "#/$defs/Address_2", "#/$defs/Home"]
    assert list(components["Address_2"]["properties"]) == ["city"]
    assert components["Home"]["properties"]["address"] == {"$ref": "#/$defs/Address"}


def test_field_says_what_meta_does() -> None:
    kind = Annotated[int, Field(description="how many", ge=1, json_schema_extra={"unit": "m"})]
    assert schema_of(kind)[0] == {"type": "integer", "minimum": 1, "description": "how many", "unit": "m"}
    with pytest.raises(msgspec.ValidationError, match=">= 1"):
        convert(0, kind)
    assert schema_of(Home)[1]["Home"]["properties"]["rooms"]["description"] == "how many"


def test_three_methods_make_a_model() -> None:
    class Duck:
        def __init__(self, name: str) -> None:
            self.name = name

        @classmethod
        def model_json_schema(cls) -> dict[str, Any]:
            return {"type": "object", "properties": {"name": {"type": "string"}}}

        @classmethod
        def model_validate(cls, raw: Any) -> Duck:
            return cls(raw["name"])

        def model_dump(self, **how: Any) -> dict[str, Any]:
            return {"name": self.name}

    assert schema_of(Duck)[0] == {"$ref": "#/$defs/Duck"}
    assert encode(convert([{"name": "x"}], list[Duck])) == b'[{"name":"x"}]'


def test_pydantic_is_never_imported() -> None:
    program = "import sys, llmstream.json_types, llmstream.tools; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout == "False\n"
