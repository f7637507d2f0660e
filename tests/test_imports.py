"""What is loaded when, in processes of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

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
