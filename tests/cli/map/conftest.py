"""`llmstream map` against a simulator that counts what it is asked."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import llmstream as ls
from llmstream.cli import main
from llmstream.simulator import Pace, Turn


class Counted:
    """Answers each prompt with itself, and counts. `answer` may give another turn."""

    def __init__(self, answer: Callable[[str], Turn] | None = None, pause_s: float = 0.0) -> None:
        self.asked: Counter[str] = Counter()
        self.requests: list[ls.Request] = []
        self._answer = answer
        self._pace = Pace(first_s=pause_s)

    def turn(self, request: ls.Request, number: int) -> Turn:
        prompt = request.messages[-1].text
        self.asked[prompt] += 1
        self.requests.append(request)
        return self._answer(prompt) if self._answer else Turn(text=f"to {prompt}", pace=self._pace)


@pytest.fixture
def counted() -> type[Counted]:
    return Counted


@pytest.fixture
def map_with(simulate, capsys, monkeypatch):
    """`map_with(script, *argv)` runs the command against a simulator: status, output, notes."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")

    def run(script: Any, *argv: object) -> SimpleNamespace:
        if not hasattr(script, "url"):
            script.url = simulate(script).url
        words = ["map", "-m", "openai:m", "--base-url", f"{script.url}/v1", *map(str, argv)]
        status = main(words)
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err)

    return run


@pytest.fixture
def rows_of():
    """`rows_of(path)`: the JSON lines of a file."""
    return lambda path: [json.loads(line) for line in Path(path).read_text(encoding="utf-8").splitlines()]
