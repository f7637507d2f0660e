"""The examples of CONTRIBUTING.md work as they stand there: a provider, and a dialect with both sides."""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from llmstream.dialects.base import DIALECTS
from llmstream.providers.base import Provider

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULE, TEST, CLIENT_SIDE, SERVER_SIDE, DIALECT_TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def module_of(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that a snippet is, where others import it."""
    module = ModuleType(name)
    monkeypatch.setitem(sys.modules, name, module)
    exec(compile(text, f"{name}.py", "exec"), vars(module))
    return module


async def run_tests(module: ModuleType, count: int) -> None:
    names = [name for name in vars(module) if name.startswith("test_")]
    assert len(names) == count
    for name in names:
        result = vars(module)[name]()
        if inspect.isawaitable(result):
            await result


async def test_the_example_of_a_provider_works(monkeypatch: pytest.MonkeyPatch) -> None:
    module = module_of("llmstream.providers.acme", MODULE, monkeypatch)
    assert isinstance(module.ACME, Provider)
    assert re.search(
        r"^Sources:\n\n- <https://[^>]+> \(seen 20\d\d-\d\d\)", module.__doc__ or "", re.MULTILINE
    )
    await run_tests(module_of("test_acme", TEST, monkeypatch), 2)


async def test_the_example_of_a_dialect_works(monkeypatch: pytest.MonkeyPatch) -> None:
    module_of("llmstream.dialects.parrot", CLIENT_SIDE, monkeypatch)
    module_of("llmstream.server_side.wires.parrot", SERVER_SIDE, monkeypatch)
    monkeypatch.setitem(DIALECTS, "parrot", ("llmstream.dialects.parrot", "Parrot"))  # type: ignore[arg-type]
    await run_tests(module_of("test_parrot", DIALECT_TEST, monkeypatch), 3)
