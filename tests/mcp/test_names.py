"""Names that every vendor takes."""

from __future__ import annotations

import re

import pytest

import llmstream as ls
from llmstream.mcp import server_tools as naming
from llmstream.mcp.server_tools import valid_names


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


@pytest.mark.parametrize(
    "names",
    [
        ["x"] * 5,
        ["a b", "a_b_648fa9b3", "a_b"],
        ["l" * 100] * 3,
        ["é", "è", "ê", "_"],
        ["2d", "_2d", "2d"],
        ["\ud800", "\ud801", ""],
        ["x" * 1_000_000, "x" * 1_000_001],
    ],
)
def test_no_name_is_given_twice(names: list[str]) -> None:
    found = valid_names(names, "")
    assert len(set(found)) == len(names)
    assert all(re.fullmatch(r"[A-Za-z_][A-Za-z0-9_-]{0,63}", name) for name in found)
    assert found == valid_names(names, "")


def test_as_many_digests_as_names_that_clash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice as many names that are one another's take twice as many steps."""
    made: list[str] = []
    real = naming._digest
    monkeypatch.setattr(naming, "_digest", lambda name, copy: made.append(name) or real(name, copy))
    steps = []
    for count in (1000, 2000, 4000):
        made.clear()
        valid_names(["x"] * count, "")
        steps.append(len(made))
    assert steps[1] <= 2.1 * steps[0]
    assert steps[2] <= 2.1 * steps[1]


def test_repeated_server_names_stay_distinct():
    names = valid_names(["x"] * 4, "")
    assert len(set(names)) == 4
    assert names == valid_names(["x"] * 4, "")


def test_tool_named_like_digest_keeps_name():
    digested = valid_names(["a_b", "a b"], "")[1]
    names = valid_names(["a_b", digested, "a b"], "")
    assert names[1] == digested
    assert len(set(names)) == 3
