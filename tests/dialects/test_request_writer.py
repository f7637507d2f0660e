"""The frame of every request: settings by a table, warnings, options, JSON and headers."""

from __future__ import annotations

import pytest

from llmstream.dialects.requests import Field, FieldTable, RequestWriter, object_schema
from llmstream.errors import InvalidRequest
from llmstream.events import OtherWarning, UnsupportedSetting
from llmstream.providers.registry import find_provider
from llmstream.request import Request, Settings

TABLE = FieldTable(
    Field("stop", "stops", most=2),
    Field("temperature", "temp", low=0.0, high=1.0),
    Field("top_p", "p"),
    Field("top_k", "k"),
)


def writer(**settings):
    request = Request(model="m", settings=Settings(**settings))
    return RequestWriter(request, provider="acme", key="acme")


def test_settings_in_table_order():
    written = writer(temperature=0.5, stop=("a",), top_k=3).settings(TABLE)
    assert list(written.items()) == [("stops", ("a",)), ("temp", 0.5), ("k", 3)]


def test_unset_settings_are_not_sent():
    assert writer().settings(TABLE) == {}


def test_numbers_move_into_their_range():
    one = writer(temperature=7)
    assert one.settings(TABLE) == {"temp": 1.0}
    assert one.warnings == [OtherWarning("temperature 7 became 1: the API takes 0 to 1")]


def test_surplus_stops_are_left_out():
    one = writer(stop=("a", "b", "c"))
    assert one.settings(TABLE) == {"stops": ("a", "b")}
    text = "only the first 2 of 3 stop sequences were sent: the API takes no more"
    assert one.warnings == [OtherWarning(text)]


def test_setting_without_field_is_reported():
    one = writer(seed=1, parallel_tool_calls=True)
    assert one.settings(TABLE) == {}
    assert one.warnings == [UnsupportedSetting("seed")]  # each dialect reports parallel calls itself


def test_refused_settings_are_reported():
    one = writer(temperature=5, top_k=1)
    assert one.settings(TABLE, {"temperature": "not this model"}) == {"k": 1}
    assert one.warnings == [UnsupportedSetting("temperature", "not this model")]


def test_refused_setting_is_not_judged_on():
    """A setting that is left out does not count against the next one."""

    def refusal(name, others):
        if name == "temperature":
            return "no"
        return "not both" if name == "top_p" and "temperature" in others else None

    one = writer(temperature=5, top_p=0.3)
    assert one.settings(TABLE, refusal=refusal) == {"p": 0.3}
    assert one.warnings == [UnsupportedSetting("temperature", "no")]


def test_values_without_json_are_refused():
    with pytest.raises(InvalidRequest, match="cannot be written as JSON") as caught:
        writer().encoded("/", {"x": object()})
    assert caught.value.provider == "acme"


@pytest.mark.parametrize("name", ["mistral"])
def test_header_in_any_case_replaces_ours(name):
    """A header went out twice if the caller wrote it in another case than we do."""
    request = Request(model="m", headers={"Accept": "x/y", "X-Own": "1"})
    http = find_provider(name).dialect.encode(request, provider=name).http
    assert http.headers == {"content-type": "application/json", "accept": "x/y", "x-own": "1"}


def test_schema_of_a_tool_names_its_type():
    assert object_schema({}) == {"type": "object", "properties": {}}
    assert object_schema({"required": []}) == {"type": "object", "required": []}
    assert object_schema({"type": "string"}) == {"type": "string"}


def test_a_table_may_have_one_field() -> None:
    (field,) = FieldTable(Field("temperature", "temperature"))
    assert [*FieldTable(field).with_values(Settings(temperature=0.5))] == [(field, 0.5)]
