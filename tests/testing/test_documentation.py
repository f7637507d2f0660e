"""The examples of docs/guides/testing.md run as they stand."""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import llmstream.testing

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "testing.md").read_text(encoding="utf-8")


def examples() -> dict[str, Callable[..., Any]]:
    found: dict[str, Callable[..., Any]] = {}
    for number, source in enumerate(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)):
        if "mark.llm_" in source:
            continue  # those want the plugin; test_pytest_plugin.py runs them
        names: dict[str, Any] = {"__name__": f"example_{number}"}
        exec(compile(source, f"docs/guides/testing.md, example {number}", "exec", dont_inherit=True), names)
        found.update({name: value for name, value in names.items() if name.startswith("test_")})
    return found


EXAMPLES = examples()


@pytest.mark.parametrize("name", EXAMPLES)
async def test_an_example_runs(name: str, tmp_path: Path) -> None:
    example = EXAMPLES[name]
    arguments = (tmp_path,) if inspect.signature(example).parameters else ()
    if inspect.iscoroutinefunction(example):
        await example(*arguments)
    else:  # as in a test of its own, without a loop
        await asyncio.to_thread(example, *arguments)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 7


def test_every_public_name_is_on_the_page() -> None:
    unnamed = {"Fault", "Received"}  # types of fields and arguments, nothing one calls
    assert [n for n in llmstream.testing.__all__ if n not in unnamed and f"`{n}" not in PAGE] == []
