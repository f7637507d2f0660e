"""The examples of CONTRIBUTING.md: the provider is found as it stands there, and its test passes."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from llmstream.providers.base import Provider

PAGE = (Path(__file__).resolve().parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
MODULE, TEST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[:2]


def test_the_example_of_a_provider_works(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("llmstream.providers.acme")
    exec(compile(MODULE, "acme.py", "exec"), vars(module))
    assert isinstance(module.ACME, Provider)
    assert re.search(
        r"^Sources:\n\n- <https://[^>]+> \(seen 20\d\d-\d\d\)", module.__doc__ or "", re.MULTILINE
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)
    test = ModuleType("test_acme")
    exec(compile(TEST, "test_acme.py", "exec"), vars(test))
    names = [name for name in vars(test) if name.startswith("test_")]
    assert len(names) == 2
    for name in names:
        vars(test)[name]()
