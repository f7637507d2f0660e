"""A call as far as it has come: whether its input is whole."""

from __future__ import annotations

import pytest

from llmstream.dialects.tool_calls import OpenCall, is_json

INPUTS = [
    '{"a": 1}',
    '{"a": {"b": [1, {}]}}',
    r'{"a": "}{\"]"}',
    r'{"a": "\\"}',
    '{"a": "x"} ',
    "{}{}",
    "{}}",
    '{"a": 1}{"a": 1}',
    '{"a": ]}',
]


@pytest.mark.parametrize("text", INPUTS)
@pytest.mark.parametrize("size", [1, 2, 3, 7, 100])
def test_is_complete_after_any_piece(text, size):
    """Asked where an input could be complete, the answer equals that of a parser."""
    call = OpenCall(0)
    for at in range(0, len(text), size):
        call.parts.append(text[at : at + size])
        if call.could_be_complete():
            assert call.is_complete() == is_json(call.input)
