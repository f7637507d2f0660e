"""Signatures as schemas, docstrings as descriptions, JSON as arguments."""

from __future__ import annotations

import datetime
import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from typing import Annotated, Any, Literal

import msgspec
import pytest

from llmstream.errors import InvalidRequest, InvalidToolInput
from llmstream.tools.signature import Signature, describe, takes


class Place(msgspec.Struct):
    city: str


@dataclass
class Box:
    w: int = 1


class Unit(Enum):
    C = "c"
    F = "f"


def weather(
    place: Place,
    days: Annotated[int, msgspec.Meta(ge=1, description="how far")] = 3,
    unit: Unit = Unit.C,
    tags: list[str] = [],  # what users write
    when: datetime.date | None = None,
    sort: Literal["asc", "desc"] = "asc",
) -> None: ...


def signature(function: Callable[..., Any], **descriptions: str) -> Signature:
    return Signature(function, getattr(function, "__name__", "t"), descriptions)


def refusal(function: Callable[..., Any], arguments: str) -> str:
    with pytest.raises(InvalidToolInput) as raised:
        signature(function).read(arguments)
    return raised.value.message


def test_schema_has_types_and_descriptions() -> None:
    """It has the defaults too."""
    schema = signature(weather, place="where", days="ignored").schema
    assert schema["type"] == "object"
    assert schema["required"] == ["place"]
    assert schema["additionalProperties"] is False
    assert list(schema["properties"]) == ["place", "days", "unit", "tags", "when", "sort"]
    assert schema["properties"]["place"] == {"description": "where", "anyOf": [{"$ref": "#/$defs/Place"}]}
    assert schema["properties"]["days"] == {
        "description": "how far",
        "type": "integer",
        "minimum": 1,
        "default": 3,
    }
    assert schema["properties"]["tags"] == {"type": "array", "items": {"type": "string"}, "default": []}
    assert schema["properties"]["sort"] == {
        "type": "string",
        "enum": ["asc", "desc"],
        "default": "asc",
    }
    assert schema["$defs"]["Unit"] == {"type": "string", "title": "Unit", "enum": ["c", "f"]}
    assert schema["$defs"]["Place"]["properties"] == {"city": {"type": "string"}}


def test_no_parameters_takes_an_empty_object() -> None:
    found = signature(lambda: None)
    assert found.schema == {"type": "object", "properties": {}, "additionalProperties": False}
    assert found.read("") == found.read("{}") == found.read(" \n") == ([], {})


def test_arguments_have_the_signature_types() -> None:
    _, found = signature(weather).read('{"place":{"city":"Bonn"},"unit":"f","when":"2026-01-02"}')
    assert found == {
        "place": Place("Bonn"),
        "days": 3,
        "unit": Unit.F,
        "tags": [],
        "when": datetime.date(2026, 1, 2),
        "sort": "asc",
    }


def test_omitted_argument_uses_own_default() -> None:
    marker = object()

    def odd(value: Any = marker, box: Box = Box(7)) -> None: ...  # any default is legal

    found = signature(odd)
    assert "default" not in found.schema["properties"]["value"]
    assert found.schema["properties"]["box"]["default"] == {"w": 7}
    assert found.read("{}")[1] == {"value": marker, "box": Box(7)}
    assert found.read('{"value":null}')[1]["value"] is None


def test_positional_and_keyword_only_filled() -> None:
    def mixed(a: int, /, b: int, *, c: int) -> None: ...

    assert signature(mixed).read('{"c":3,"a":1,"b":2}') == ([1], {"b": 2, "c": 3})


def test_required_after_optional_is_allowed() -> None:
    """Only keyword-only parameters can stand in this order."""

    def mixed(*, a: int = 1, b: int) -> None: ...

    assert signature(mixed).schema["required"] == ["b"]


def test_bound_partial_arguments_are_hidden() -> None:
    def fetch(url: str, secret: str) -> None: ...

    found = signature(functools.partial(fetch, secret="s"))
    assert list(found.schema["properties"]) == ["url"]
    assert found.read('{"url":"u"}') == ([], {"url": "u"})
    with pytest.raises(InvalidToolInput, match="unknown field `secret`"):
        found.read('{"url":"u","secret":"mine"}')


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (
            '{"place":{"city":"B"},"days":"3"}',
            "Invalid arguments for weather: expected `int` at `days`; got `str`.",
        ),
        ('{"place":{"city":"B"},"days":0}', "expected `int` >= 1 at `days`"),
        ('{"place":{"city":1}}', "expected `str` at `place.city`; got `int`"),
        ('{"place":{}}', "object missing required field `city` at `place`"),
        ("{}", "object missing required field `place`"),
        ("", "object missing required field `place`"),
        ('{"place":{"city":"B"},"day":1}', "unknown field `day`"),
        ("[]", "expected `object`; got `array`"),
        ('"text"', "expected `object`; got `str`"),
        ('{"place":', "they are not valid JSON"),
        ('{"place":{"city":"B"}}{"place":{"city":"B"}}', "they are not valid JSON"),
        ('{"place":{"city":"\ud800"}}', "they are not valid JSON"),
        ('{"place":{"city":"B"},"sort":"up"}', "invalid enum value 'up' at `sort`"),
    ],
)
def test_bad_arguments_get_a_helpful_message(arguments: str, words: str) -> None:  # RELIABILITY 34
    assert words in refusal(weather, arguments)


def test_a_nesting_bomb_is_refused() -> None:  # RELIABILITY 34
    def anything(value: Any) -> None: ...

    assert "nested too deeply" in refusal(anything, '{"value":' + "[" * 100_000)


def test_short_schema_shown_long_by_names() -> None:
    """A refusal of bad arguments shows the schema."""

    def short(limit: int) -> None: ...

    def long(
        name: Annotated[str, msgspec.Meta(description="x" * 600)], level: Literal[1, 2, 3] = 1
    ) -> None: ...

    assert '"limit":{"type":"integer"}' in refusal(short, "{}")
    assert refusal(long, "{}").endswith("Expected: an object with `name`, `level` (optional)")


def test_numbers_are_not_coerced_from_text() -> None:
    def price(amount: float) -> None: ...

    assert signature(price).read('{"amount":1}')[1] == {"amount": 1.0}
    assert "expected `float` at `amount`; got `str`" in refusal(price, '{"amount":"1"}')


def unfillable_star(*values: int) -> None: ...
def unfillable_keywords(**values: int) -> None: ...
def unfillable_type(value: Callable[[], None]) -> None: ...
def unknown_class(text: str, service: list[Service]) -> None: ...
def ambiguous_union(value: list[int] | tuple[str]) -> None: ...
def unknown_type(value: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821  # on purpose


class Service:
    def lookup(self, key: str) -> str:
        return key


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (unfillable_star, "cannot be expressed in JSON"),
        (unfillable_keywords, "cannot be expressed in JSON"),
        (unfillable_type, r"the parameter value cannot be filled from JSON, because of its type .*Callable"),
        (unknown_class, r"the parameter service cannot .* its type <class '.*Service'>. Use a dataclass"),
        (ambiguous_union, r"Type unions .* Use parameter types that JSON can express"),
        (unknown_type, "annotations cannot be read"),
        (Service.lookup, "Wrap the bound method"),
    ],
)
def test_unfillable_type_refused_at_creation(function: Callable[..., Any], words: str) -> None:
    """JSON cannot fill the type."""
    with pytest.raises(InvalidRequest, match=words):
        signature(function)


def test_msgspec_advice_is_not_shown() -> None:
    """A `schema_hook` cannot be passed here."""
    with pytest.raises(InvalidRequest) as refused:
        signature(unknown_class)
    assert "schema_hook" not in str(refused.value)


def test_bound_methods_and_callables_work() -> None:
    class Adder:
        def __call__(self, a: int) -> int:
            return a

    assert signature(Service().lookup).schema["required"] == ["key"]
    assert signature(Adder()).schema["properties"] == {"a": {"type": "integer"}}


class Corner(msgspec.Struct):
    x: int
    y: int = 0


def test_strict_null_means_argument_omitted() -> None:
    seen: list[Any] = []

    def act(at: Corner, mode: Literal["a", "b"] = "a", note: str | None = "said", n: int = 7) -> None:
        seen.append((at, mode, note, n))

    signature = Signature(act, "act", {})
    _, kwargs = signature.read('{"at":{"x":1,"y":null},"mode":null,"note":null,"n":null}')
    assert kwargs == {"at": Corner(1, 0), "mode": "a", "note": None, "n": 7}
    with pytest.raises(InvalidToolInput, match="`at`"):
        signature.read('{"at":null}')


def test_error_describes_the_bad_argument() -> None:
    """The schema is too long to show."""

    class Colour(Enum):
        RED = "red"
        BLUE = "blue"

    long = [(f"parameter_{i}", Annotated[str, msgspec.Meta(description="words " * 20)]) for i in range(8)]

    def act(colour: Colour, other: Any = None) -> None: ...

    struct = msgspec.defstruct("Long", long)
    act.__annotations__ = {"colour": Colour, "other": struct, "return": None}
    with pytest.raises(
        InvalidToolInput, match=r"'green' at `colour`.*`colour` is .*\"blue\",\"red\""
    ) as raised:
        Signature(act, "act", {}).read('{"colour":"green"}')
    assert len(str(raised.value)) < 400


@pytest.mark.parametrize("arguments", ['{"n":3.0,"ns":[1.0,2],"x":2.0}', '{"n":3,"ns":[1,2.0],"x":2}'])
def test_whole_numbers_are_integers(arguments) -> None:
    """To JSON Schema 3.0 is an integer, and vendors that keep numbers as doubles send it so."""

    def take(n: int, ns: list[int], x: float) -> None: ...

    _, given = signature(take).read(arguments)
    assert given == {"n": 3, "ns": [1, 2], "x": 2.0}
    assert type(given["n"]) is int
    assert "expected `int` at `n`; got `float`" in refusal(take, '{"n":3.5,"ns":[],"x":1}')


def test_a_text_beside_a_type_describes_it() -> None:
    def find(city: Annotated[str, "the city's name"], n: Annotated[int, msgspec.Meta(ge=1)] = 1) -> None: ...

    found = signature(find).schema["properties"]
    assert found["city"] == {"description": "the city's name", "type": "string"}
    assert found["n"] == {"type": "integer", "minimum": 1, "default": 1}


def test_type_without_signature_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="Wrap it in a function with typed parameters"):
        signature(int)


def google(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    Args:
        query: what to
            look for
        limit (int): how many

    Returns:
        nothing
    """


def numpy(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    Parameters
    ----------
    query : str
        what to look for
    limit : int
        how many
    """


def sphinx(query: str, limit: int) -> None:
    """Search the index.

    Slow on Mondays.

    :param query: what to look for
    :param int limit: how many
    """


@pytest.mark.parametrize("function", [google, numpy, sphinx])
def test_google_numpy_sphinx_styles_are_read(function: Callable[..., Any]) -> None:
    pytest.importorskip("docstring_parser")
    found = describe(function)
    assert found.description == "Search the index.\n\nSlow on Mondays."
    assert found.arguments == {"query": "what to look for", "limit": "how many"}


def test_first_paragraph_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first paragraph is the description if the parser is missing."""
    monkeypatch.setitem(sys.modules, "docstring_parser", None)
    found = describe(google)
    assert (found.description, found.arguments) == ("Search the index.", {})


def test_no_docstring_is_no_description() -> None:
    assert describe(lambda: None).description == ""


class Caller:
    def __call__(self, a: int, b: int) -> None: ...

    def method(self, a: int) -> None: ...


def two(a: int, b: int) -> None: ...


def with_a_default(a: int, b: int = 1) -> None: ...


def any_number(*args: int) -> None: ...


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (two, True),
        (with_a_default, False),
        (any_number, False),
        (Caller(), True),
        (Caller().method, False),
        (partial(two, 1), False),
        (lambda a, /, b: None, True),
        (print, False),
    ],
)
def test_only_required_parameters_count(function: Callable[..., Any], expected: bool) -> None:
    assert takes(function, 2) is expected
