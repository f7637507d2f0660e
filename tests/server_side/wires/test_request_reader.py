"""Settings read by the table that writes them, and what is left of a body."""

from __future__ import annotations

import pytest

from llmstream.dialects.requests import Field
from llmstream.exchange import HttpRequest
from llmstream.request import Request
from llmstream.server_side.wires import (
    json_object,
    leave_stream,
    read_function,
    read_settings,
    with_rest,
)

TABLE = (
    Field("temperature", "temp", low=0, high=1),
    Field("max_output_tokens", "new_name"),
    Field("max_output_tokens", "old_name"),
    Field("stop", "stops"),
)


class Refused(Exception):
    pass


def read(body, **options):
    return read_settings(
        body,
        TABLE,
        wrong_type=lambda field, value: Refused("type", field.wire_name),
        out_of_range=lambda field, value, bound: Refused("range", field.wire_name, bound),
        **options,
    )


def test_settings_are_taken_out_of_the_body():
    body = {"temp": 0.5, "stops": ["a"], "own": 1, "new_name": None}
    assert read(body) == {"temperature": 0.5, "stop": ("a",)}
    assert body == {"own": 1}


def test_first_of_two_fields_wins():
    assert read({"old_name": 1, "new_name": 2}) == {"max_output_tokens": 2}


@pytest.mark.parametrize("body", [{"temp": True}, {"temp": "1"}, {"new_name": 1.5}, {"stops": ["a", 1]}])
def test_other_types_are_refused(body):
    with pytest.raises(Refused) as caught:
        read(dict(body))
    assert caught.value.args == ("type", *body)


@pytest.mark.parametrize(("value", "bound"), [(-1, 0), (2, 1)])
def test_values_beyond_a_bound_are_refused(value, bound):
    with pytest.raises(Refused) as caught:
        read({"temp": value})
    assert caught.value.args == ("range", "temp", bound)


def test_one_stop_without_a_list():
    assert read({"stops": "a"}, one_stop=True) == {"stop": ("a",)}
    with pytest.raises(Refused):
        read({"stops": "a"})


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"[" * 10_000])
def test_body_that_is_no_object(body):
    assert json_object(HttpRequest("/", body)) is None


def test_stream_stays_only_where_it_differs():
    streamed, whole = {"stream": True}, {}
    leave_stream(streamed)
    leave_stream(whole)
    assert (streamed, whole) == ({}, {"stream": False})


def test_connection_headers_are_left_out():
    http = HttpRequest("/", b"", {"Host": "a", "X-Own": "1"})
    request = with_rest(Request(model="m"), http, "acme", {"b": 2})
    assert request.headers == {"X-Own": "1"}
    assert request.provider_options == {"acme": {"b": 2}}


def test_function_of_wrong_types_is_bare():
    tool = read_function("f", 7, [], "yes")
    assert (tool.description, tool.input_schema, tool.strict) == ("", {}, None)
