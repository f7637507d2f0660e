"""The warnings of a request."""

from __future__ import annotations

from llmstream.dialects.requests import RequestWarnings
from llmstream.events import OtherWarning, UnsupportedSetting


def test_what_is_in_it_is_known_however_it_came():
    warnings = RequestWarnings()
    warnings.append(OtherWarning("a"))
    warnings += [OtherWarning("b"), UnsupportedSetting("seed")]
    warnings.extend([OtherWarning("c")])
    assert [OtherWarning(text) in warnings for text in "abcd"] == [True, True, True, False]
    assert UnsupportedSetting("seed") in warnings
    assert warnings == [OtherWarning("a"), OtherWarning("b"), UnsupportedSetting("seed"), OtherWarning("c")]


def test_a_look_costs_one_step_however_many_there_are():
    compared = []

    class Text(str):
        def __eq__(self, other):
            compared.append(other)
            return super().__eq__(other)

        __hash__ = str.__hash__

    warnings = RequestWarnings()
    for number in range(100):
        warnings.append(OtherWarning(Text(number)))
    assert OtherWarning(Text("none")) not in warnings
    assert len(compared) < 10
