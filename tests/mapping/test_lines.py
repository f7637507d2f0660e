"""Lines of an output file: whatever a row holds, a line is a record, and its own part is read back."""

from __future__ import annotations

import csv
import io
import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

import llmstream as ls
from llmstream.errors import DecodeError, InvalidRequest
from llmstream.mapping.lines import CSVLines, JSONLines, fields_of, key_of, records

NASTY = st.text(alphabet=st.one_of(st.sampled_from('",;\n\r\t\ufeff\u2028='), st.characters(codec="utf-8")))


def result_of(value: object = "yes", error: ls.LLMStreamError | None = None) -> ls.MapResult:
    message = ls.Message.assistant(value) if isinstance(value, str) else None
    return ls.MapResult(
        item=None,
        index=0,
        message=message,
        error=error,
        usage=ls.Usage(3, 4, 7),
        cost=0.25,
        attempts=2,
        model="openai:m",
        _value=message or value,
    )


@given(st.lists(st.tuples(NASTY, NASTY), max_size=5))
def test_csv_records_survive_any_text(rows: list[tuple[str, str]]):
    lines = CSVLines(["a"])
    data = lines.head() + b"".join(lines.encode({"a": a}, result_of(b), 255) for a, b in rows)
    found = list(records(io.BytesIO(data), quoted=True))
    assert all(complete for _, complete in found)
    assert b"".join(record for record, _ in found) == data
    assert [lines.read(record).key for record, _ in found[1:]] == ["00000000000000ff"] * len(rows)
    read = list(csv.reader(io.StringIO(data.decode(), newline="")))
    assert [(row[0], row[1]) for row in read[1:]] == rows


@given(st.lists(st.tuples(NASTY, NASTY), max_size=5))
def test_json_records_survive_any_text(rows: list[tuple[str, str]]):
    lines = JSONLines()
    data = b"".join(lines.encode({"a": a}, result_of(b), 255) for a, b in rows)
    found = [record for record, _ in records(io.BytesIO(data), quoted=False)]
    assert [(json.loads(record)["a"], lines.answer(record)) for record in found] == rows
    assert all(lines.read(record).cost == 0.25 for record in found)


def test_json_line_has_row_and_answer():
    line = json.loads(JSONLines().encode({"id": 7}, result_of({"name": "Ada"}), 1))
    assert line == {
        "id": 7,
        "answer": {"name": "Ada"},
        "llmstream": {
            "key": "0000000000000001",
            "model": "openai:m",
            "attempts": 2,
            "usage": {"inputTokens": 3, "outputTokens": 4, "totalTokens": 7},
            "cost": 0.25,
        },
    }


@pytest.mark.parametrize("lines", [JSONLines(), CSVLines(["id"])])
def test_error_of_a_row_is_read_back(lines):
    error = ls.ContextTooLong('too "long"\nindeed', provider="openai", status=400)
    record = lines.encode({"id": 7}, result_of(error=error), 1)
    read = lines.read(record).error
    assert (read.code, read.message) == ("context-too-long", 'too "long"\nindeed')


def test_csv_column_for_each_property():
    lines = CSVLines(["id", "name"], properties=["name", "tags", "old"])
    head, row = (
        next(csv.reader([lines.head().decode()])),
        next(
            csv.reader(
                [lines.encode({"id": 7}, result_of({"name": "Ada", "tags": ["a"], "old": True}), 1).decode()]
            )
        ),
    )
    assert head[:5] == ["id", "name", "answer.name", "tags", "old"]
    assert row[:5] == ["7", "", "Ada", '["a"]', "true"]


def test_csv_columns_may_not_clash():
    with pytest.raises(InvalidRequest, match="the input has a column 'answer'"):
        CSVLines(["answer"])
    with pytest.raises(InvalidRequest, match="the input has a column 'cost'"):
        CSVLines(["cost"])


@pytest.mark.parametrize(
    ("lines", "record"),
    [
        (JSONLines(), b"[1]\n"),
        (JSONLines(), b'{"answer": 1}\n'),
        (JSONLines(), b"\xff\n"),
        (JSONLines(), b"\x00\x00\x00\n"),
        (CSVLines(["a"]), b"1,2\n"),
        (CSVLines(["a"]), b"1,yes,,m,two,3,4,,00ff\n"),
        (CSVLines(["a"]), b"1,yes,,m,2,3,4,,key\n"),
        (CSVLines(["a"]), b"\xff\n"),
    ],
)
def test_other_lines_are_a_decode_error(lines, record: bytes):
    with pytest.raises(DecodeError):
        lines.read(record)


def test_fields_unknown_to_json_go():
    class Point(msgspec.Struct):
        x: int
        shape: object

    assert fields_of(Point(1, object()))[0] == {"x": 1}
    assert fields_of({"a": 1, "b": object()})[0] == {"a": 1}
    assert fields_of("text")[0] == {"text": "text"}
    assert fields_of(7)[0] == {"item": 7}
    assert fields_of(object())[0] == {}


def test_digests_depend_on_the_parts():
    assert key_of(b"ab", b"c") != key_of(b"a", b"bc") != key_of(b"abc")
