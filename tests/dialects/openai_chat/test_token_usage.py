"""Token counts under all their names."""

from __future__ import annotations

import pytest

from llmstream.dialects.openai_chat import UsageQuirks
from llmstream.dialects.openai_chat.wire import read_usage, write_usage
from llmstream.usage import Usage


def test_excess_reasoning_may_add_to_output():
    raw = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3, "reasoning_tokens": 5}
    apart, within = (
        read_usage(raw, UsageQuirks(output_may_exclude_reasoning=flag)) for flag in (True, False)
    )
    assert (apart.output_tokens, apart.total_tokens) == (7, 8)
    assert (within.output_tokens, within.total_tokens) == (2, 3)
    less = read_usage({**raw, "reasoning_tokens": 1}, UsageQuirks(output_may_exclude_reasoning=True))
    assert (less.output_tokens, less.total_tokens) == (2, 3)


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 3, "total_tokens": 12}, (9, 3, 12, None, None, None)),
        ({"prompt_tokens": 9, "completion_tokens": 3}, (9, 3, 12, None, None, None)),
        ({"prompt_tokens": 9.0, "completion_tokens": "3"}, (9, None, None, None, None, None)),
        ({"prompt_tokens": True, "total_tokens": None}, (None, None, None, None, None, None)),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": {"cached_tokens": 4, "cache_write_tokens": 2}},
            (9, None, None, None, 4, 2),
        ),
        (
            {"prompt_tokens": 9, "prompt_tokens_details": None, "prompt_cache_hit_tokens": 4},
            (9, None, None, None, 4, None),
        ),
        (
            {"completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 4}},
            (None, 9, None, 4, None, None),
        ),
        ({"completion_tokens": 9, "reasoning_tokens": 4}, (None, 9, None, 4, None, None)),
        (
            {
                "prompt_tokens": 1,
                "completion_tokens": 2,
                "total_tokens": 7,
                "completion_tokens_details": {"reasoning_tokens": 4},
            },
            (1, 6, 7, 4, None, None),
        ),
        (
            {"prompt_tokens": 15, "prompt_tokens_details": {"cached_tokens": 1152}},
            (15, None, None, None, 1152, None),
        ),
    ],
)
def test_counts_are_read_under_their_names(raw, expected):  # case 44 too
    told = read_usage(raw, UsageQuirks())
    got = (
        told.input_tokens,
        told.output_tokens,
        told.total_tokens,
        told.reasoning_tokens,
        told.cached_input_tokens,
        told.cache_write_tokens,
    )
    assert got == expected
    assert told.raw is raw


def test_quirks_add_what_a_vendor_leaves_out():
    quirks = UsageQuirks(output_excludes_reasoning=True, input_may_exclude_cached=True)
    raw = {"prompt_tokens": 5, "completion_tokens": 2, "reasoning_tokens": 3, "cached_tokens": 8}
    told = read_usage(raw, quirks)
    assert (told.input_tokens, told.output_tokens) == (13, 5)


def test_omitted_fields_keep_earlier_counts(wire):
    first = {"prompt_tokens": 5, "completion_tokens": 1, "prompt_tokens_details": {"cached_tokens": 4}}
    answer = wire.answer(
        wire.chunk({"content": "a"}, usage=first), wire.chunk({}, "stop", usage={"completion_tokens": 7})
    )
    assert (answer.finish.usage.cached_input_tokens, answer.finish.usage.output_tokens) == (4, 7)


@pytest.mark.parametrize("quirks", [UsageQuirks(), UsageQuirks(output_excludes_reasoning=True)])
def test_what_is_written_is_read_again(quirks):
    usage = Usage(10, 8, 18, 3, 4, 2)
    raw = write_usage(usage, quirks)
    assert read_usage(raw, quirks) == Usage(10, 8, 18, 3, 4, 2, raw)
