"""How the page folds events, in Node: `thread.js` knows nothing of a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from llmstream.web import app

NODE = shutil.which("node")

pytestmark = pytest.mark.skipif(NODE is None, reason="Node is not installed")


def run(program: str) -> Any:
    """What a program prints as JSON. It has `Thread`."""
    module = (Path(app.__file__).parent / "page" / "thread.js").as_uri()
    source = f"const {{ Thread }} = await import({json.dumps(module)})\n{program}"
    assert NODE is not None
    done = subprocess.run(
        [NODE, "--input-type=module", "--no-warnings", "--eval", source],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_rebuilt_thread_is_drawn_again() -> None:
    """A page that had drawn two of many deltas loads the same text as one delta and its end."""
    growing, loaded = run(
        """
        const build = (events) => {
          const thread = new Thread()
          thread.begin({ run: 'r', prompt: 'Hello?' })
          for (const event of events) thread.feed(event)
          const { blocks: [block], v } = thread.answer
          return { key: block.key, text: block.text, block: block.v, answer: v }
        }
        const start = { type: 'text-start', id: '1' }
        const delta = (text) => ({ type: 'text-delta', id: '1', delta: text })
        const end = { type: 'text-end', id: '1' }
        const growing = build([start, delta('Good '), delta('morning')])
        const loaded = build([start, delta('Good morning to you.'), end])
        console.log(JSON.stringify([growing, loaded]))
        """
    )
    assert growing["key"] == loaded["key"]
    assert (growing["text"], loaded["text"]) == ("Good morning", "Good morning to you.")
    assert growing["block"] != loaded["block"]
    assert growing["answer"] != loaded["answer"]


def test_a_sub_agents_calls_are_progress() -> None:
    """In a line, instead of the JSON of each of its events."""
    shown = run(
        """
        const thread = new Thread()
        thread.begin({ run: 'r', prompt: 'Pay' })
        const own = { toolCallId: 'c', toolName: 'payer' }
        const nested = (result) => thread.feed({ type: 'tool-result', ...own, preliminary: true, result,
          providerMetadata: { llmstream: { agent: 'payer', parent_call: 'c' } } })
        thread.feed({ type: 'tool-call', ...own, input: '{}' })
        nested({ type: 'tool-call', toolCallId: 'd', toolName: 'pay', input: '{}' })
        nested({ type: 'text-start', id: '1' })
        console.log(JSON.stringify(thread.answer.blocks[0].progress))
        """
    )
    assert shown == "payer calls pay"
