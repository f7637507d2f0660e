"""Names that every vendor takes."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.mcp.names import valid_names


def test_what_no_vendor_takes_is_replaced() -> None:
    assert valid_names(["a.b/c", "täg", "ok-1"], "x_") == ["x_a_b_c", "x_t_g", "x_ok-1"]
    assert valid_names(["2d"], "") == ["_2d"]


def test_names_stay_different_and_short() -> None:
    names = valid_names(["a.b", "a/b", "l" * 100], "p_")
    assert names[0] == "p_a_b"
    assert names[1].startswith("p_a_b_")
    assert len(set(names)) == 3
    assert max(map(len, names)) == 64
    assert names == valid_names(["a.b", "a/b", "l" * 100], "p_")


@pytest.mark.parametrize("prefix", ["1_", "a b", "x" * 33])
def test_a_prefix_begins_a_name(prefix: str) -> None:
    with pytest.raises(ls.InvalidRequest, match="prefix"):
        valid_names(["a"], prefix)


def test_names_that_a_server_repeats_stay_apart():
    names = valid_names(["x"] * 4, "")
    assert len(set(names)) == 4
    assert names == valid_names(["x"] * 4, "")


def test_a_tool_named_like_a_digest_keeps_its_name():
    digested = valid_names(["a_b", "a b"], "")[1]
    names = valid_names(["a_b", digested, "a b"], "")
    assert names[1] == digested
    assert len(set(names)) == 3
