"""Answers that are pydantic models: as they grow, validated, and refused in pydantic's words."""

from __future__ import annotations

import json
import warnings
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

import pytest
from msgspec import UNSET
from pydantic import BaseModel, Field, RootModel

import llmstream as ls
from llmstream import events as ev
from llmstream.errors import InvalidOutput
from llmstream.structured import Output
from llmstream.structured.growth import Growth
from llmstream.testing import ScriptedModel


class Cat(BaseModel):
    kind: Literal["cat"]
    name: str


class Dog(BaseModel):
    kind: Literal["dog"]
    age: int


class City(BaseModel):
    """A city."""

    name: str = Field(alias="Name", description="what it is called")
    people: int = Field(ge=0)
    founded: date | None = None
    pets: list[Cat | Dog] = []

    def model_post_init(self, context: Any) -> None:
        assert self.people >= 0  # would fail for what has not come


class Cities(RootModel[list[City]]):
    pass


@dataclass
class Trip:
    to: City
    back: City | None = None


OSLO = {"Name": "Oslo", "people": 700000, "founded": "1048-01-01", "pets": [{"kind": "cat", "name": "Tom"}]}


def grown(kind: Any, value: Any, step: int = 4) -> list[Any]:
    growth, text = Growth(Output(kind)), json.dumps(value)
    pieces = [text[at : at + step] for at in range(0, len(text), step)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [value for piece in pieces for value in growth.feed(ev.TextDelta(piece, "t"))]


def test_growing_model_has_what_came() -> None:
    *growing, last = grown(City, OSLO)
    assert type(last) is City
    assert last == City.model_validate(OSLO)
    names = [value.name for value in growing if value.people is UNSET]
    assert names == ["Os", "Oslo"]
    assert all(isinstance(value, City) for value in growing)
    half = next(value for value in growing if value.people is not UNSET)
    assert (half.people, half.founded, half.pets) == (700000, UNSET, UNSET)
    assert half.model_dump(exclude_unset=True) == {"name": "Oslo", "people": 700000}
    tagged = next(value for value in growing if value.pets is not UNSET and value.pets)
    assert tagged.pets[0].model_fields_set == {"kind"}


def test_elements_of_a_list_are_validated() -> None:
    found = grown(list[Cat | Dog], {"items": [{"kind": "dog", "age": 2}, {"kind": "cat"}, OSLO["pets"][0]]})
    assert found == [Dog(kind="dog", age=2), Cat(kind="cat", name="Tom")]


def test_a_root_model_grows_as_its_root() -> None:
    *growing, last = grown(Cities, {"items": [OSLO]})
    assert last == Cities.model_validate([OSLO])
    assert isinstance(growing[0], list)
    assert growing[-1][0].name == "Oslo"


def test_models_in_a_dataclass_grow() -> None:
    *growing, last = grown(Trip, {"to": OSLO, "back": None})
    assert last == Trip(City.model_validate(OSLO))
    assert growing[0].to.name is UNSET


def test_schema_is_the_models_own() -> None:
    found = Output(City)
    assert found.format.description == "A city."
    assert found.schema["properties"]["Name"] == {"description": "what it is called", "type": "string"}
    assert found.schema["additionalProperties"] is False
    assert found.schema["required"] == ["Name", "people"]


def test_null_for_omitted_field_is_dropped() -> None:
    found = Output(Trip).read(json.dumps({"to": {**OSLO, "pets": None}}))
    assert found.to.pets == []


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (
            {"Name": 1, "people": -1},
            "`Name`: Input should be a valid string; `people`: Input should be greater",
        ),
        ({**OSLO, "pets": [{"kind": "cow"}]}, "pets.0"),
    ],
)
def test_error_has_the_words_of_pydantic(raw: Any, message: str) -> None:
    with pytest.raises(InvalidOutput, match=message) as caught:
        Output(City).read(json.dumps(raw))
    assert caught.value.reason == "schema"


async def test_wrong_model_is_repaired() -> None:
    bad = json.dumps({**OSLO, "people": "many"})
    model = ScriptedModel(bad, json.dumps(OSLO))
    assert await ls.Agent(model, output=City).run("Where?") == City.model_validate(OSLO)
    asked = model.requests[-1].messages[-1].text
    assert "`people`: Input should be a valid integer" in asked
