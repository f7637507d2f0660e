"""Token counts, read and written."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_responses.wire import read_usage, write_usage
from llmstream.usage import Usage


@pytest.mark.parametrize("raw", [None, {}, [], "x", 3])
def test_no_usage_is_none(raw):
    assert read_usage(raw) == Usage()


def test_missing_total_is_summed():
    assert read_usage({"input_tokens": 3, "output_tokens": 2}).total_tokens == 5
    assert read_usage({"input_tokens": 3}).total_tokens is None


def test_counts_of_the_wrong_type_are_none():
    raw = {"input_tokens": True, "output_tokens": 2.5, "input_tokens_details": [1]}
    assert read_usage(raw) == Usage(raw=raw)


def test_written_counts_are_read_again():
    usage = Usage(30, 12, 42, 5, 20, 4)
    raw = write_usage(usage)
    assert read_usage(raw) == Usage(30, 12, 42, 5, 20, 4, raw)


def test_equal_vendor_usage_is_written_as_is():
    raw = {"input_tokens": 3, "output_tokens": 2, "cost": 0.1}
    assert write_usage(read_usage(raw)) == raw
    other = write_usage(Usage(9, 9, 18, raw=raw))
    assert (other["input_tokens"], "cost" in other) == (9, False)
