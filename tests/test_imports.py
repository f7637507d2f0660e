"""What is loaded when, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

import llmstream

PROGRAM = "import sys, llmstream as ls; {}; print(*sorted(sys.modules))"


def loaded(statement: str) -> set[str]:
    """The modules that are there after a statement."""
    command = [sys.executable, "-c", PROGRAM.format(statement)]
    return set(subprocess.run(command, capture_output=True, check=True, text=True).stdout.split())


@pytest.mark.parametrize(
    ("statement", "absent"),
    [
        ("pass", {"asyncio", "msgspec", "anyio", "aiohttp", "llmstream.events", "llmstream.streams"}),
        ("ls.TextDelta", {"asyncio", "anyio", "aiohttp", "llmstream.chats", "llmstream.streams"}),
        (
            "ls.stream; ls.Model; ls.Accumulator",
            {"aiohttp", "llmstream.tools", "llmstream.agent", "llmstream.partial_json"},
        ),
        ("ls.Agent; ls.tool", {"aiohttp", "llmstream.simulator"}),
    ],
)
def test_a_name_loads_only_what_it_needs(statement: str, absent: set[str]) -> None:
    assert loaded(statement) & absent == set()


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("completion", "await ls.Model("),
        ("generate", "await ls.Model("),
        ("run_sync", "asyncio.run(ls.Model("),
        ("Client", "ls.Model("),
        ("RateLimitError", "ls.RateLimited"),
        ("EventStraem", "Did you mean EventStream?"),
    ],
)
def test_foreign_sdk_name_hints_at_ours(name, remedy) -> None:
    with pytest.raises(AttributeError) as missing:
        getattr(llmstream, name)
    assert remedy in str(missing.value)


def test_any_other_name_is_only_missing() -> None:
    with pytest.raises(AttributeError, match=r"has no attribute '__wrapped__'$"):
        _ = llmstream.__wrapped__
