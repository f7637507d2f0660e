"""The warnings of a request."""

from __future__ import annotations

from llmstream.dialects.requests import RequestWarnings
from llmstream.events import OtherWarning, UnsupportedSetting


def test_added_warnings_are_found_by_in():
    warnings = RequestWarnings()
    warnings.append(OtherWarning("a"))
    warnings += [OtherWarning("b"), UnsupportedSetting("seed")]
    warnings.extend([OtherWarning("c")])
    assert [OtherWarning(text) in warnings for text in "abcd"] == [True, True, True, False]
    assert UnsupportedSetting("seed") in warnings
    assert warnings == [OtherWarning("a"), OtherWarning("b"), UnsupportedSetting("seed"), OtherWarning("c")]


def test_warning_lookup_takes_constant_time():
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
