"""Traces of streams from a server that sends what a test says, and pages that show them."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.cli.inspect import _decoding
from llmstream.inspector import inspect
from llmstream.inspector.sources import Calls
from llmstream.testing import FaultServer, Step, answered

KEY = "sk-0123456789abcdef"
END = (
    b'data: {"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],'
    b'"usage":{"prompt_tokens":12,"completion_tokens":9,"total_tokens":21}}\n\ndata: [DONE]\n\n'
)


def chunk(text: str) -> bytes:
    """A frame of Chat Completions with a text."""
    delta = {"id": "c1", "model": "m-1", "choices": [{"index": 0, "delta": {"content": text}}]}
    return b"data: " + json.dumps(delta).encode() + b"\n\n"


async def ask(*steps: Step, prompt: str = "Hi", name: str = "deepseek-chat") -> list[ls.Event]:
    """The events of a response, which may fail."""
    async with FaultServer(answered(*steps)) as server:
        model = ls.Model(f"deepseek:{name}", base_url=server.url, api_key=KEY, retry=ls.Retry(max_retries=0))
        return [event async for event in model.events(prompt, errors="events")]


def calls_of(*places: str | Path, dialect: str | None = None) -> Calls:
    calls = Calls(map(str, places), lambda head: _decoding(head, dialect, None))
    calls.refresh()
    return calls


@pytest.fixture
def traced(tmp_path: Path) -> Callable[[Iterable[Iterable[Step]]], Awaitable[Path]]:
    """Traces a call for each list of steps; returns the file."""

    async def trace(responses: Iterable[Iterable[Step]], **options: Any) -> Path:
        path = tmp_path / "trace.jsonl"
        with inspect(path, **options):
            for steps in responses:
                await ask(*steps)
        return path

    return trace
