"""What the package knows: only what is below, and nothing of networks."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import llmstream.chats

BELOW = {
    f"llmstream.{name}"
    for name in ("errors", "exchange", "files", "first_use", "other_sdks", "short_forms", "unique_ids")
}
ROOT = Path(__file__).resolve().parents[2]
ORDER = [
    "content",
    "markdown",
    "message",
    "transcript",
    "openai_form",
    "ui_form",
    "saved",
    "chat",
]


def imports_of(module: str) -> set[str]:
    tree = ast.parse((ROOT / "llmstream" / "chats" / f"{module}.py").read_text())
    return {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom) and node.module}


def test_modules_know_only_those_before_them() -> None:
    ours = {name for name in imports_of("content") if name.startswith("llmstream")}
    assert ours == {"llmstream.errors", "llmstream.first_use"}
    for position, module in enumerate(ORDER):
        ours = {name for name in imports_of(module) if name.startswith("llmstream")}
        assert ours <= {*BELOW, *(f"llmstream.chats.{below}" for below in ORDER[:position])}, module


def test_import_loads_no_network_or_provider() -> None:
    program = "import sys, llmstream.chats; print(*sorted(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True, timeout=60
    )
    loaded = done.stdout.split()
    assert "llmstream.chats.chat" in loaded
    banned = {"aiohttp", "httpx", "requests"}
    rows = {"dialects", "providers", "transport", "streams", "accumulate", "tools", "agent", "simulator"}
    assert not [
        name
        for name in loaded
        if name.split(".")[0] in banned or (name.startswith("llmstream.") and name.split(".")[1] in rows)
    ]


def test_every_public_name_is_there() -> None:
    assert all(hasattr(llmstream.chats, name) for name in llmstream.chats.__all__)
    assert sorted(llmstream.chats.__all__) == llmstream.chats.__all__
