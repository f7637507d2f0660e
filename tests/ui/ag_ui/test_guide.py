"""The application of docs/guides/ag-ui.md answers the real client."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.ui.ag_ui.conftest import Client

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "ag-ui.md"


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the guide shows."""
    found = re.search(
        r'^```python title="ag_ui_app.py"\n(.*?)^```', GUIDE.read_text("utf-8"), re.DOTALL | re.M
    )
    assert found is not None
    shown = ModuleType("ag_ui_app")
    monkeypatch.setitem(sys.modules, shown.__name__, shown)
    exec(compile(found[1], "ag_ui_app.py", "exec", dont_inherit=True), vars(shown))
    return shown


async def test_guides_endpoint_asks_and_runs(client: Client, module: ModuleType) -> None:
    asking = {"messages": [{"id": "u1", "role": "user", "content": "Delete notes.txt"}]}
    yes = {"decide": {"status": "resolved", "payload": {"approved": True}}}
    seen = await client.visit(module.app, "/agent", asking, yes)
    first, second = seen["runs"]
    assert first["outcome"] == "interrupt"
    assert first["pending"][0]["message"] == "May delete run?"
    assert second["outcome"] == "success"
    assert "is gone" in seen["messages"][-1]["content"]
    assert module.waiting == {}


async def test_guides_endpoint_refuses_the_rest(client: Client, module: ModuleType) -> None:
    """A decision that nobody waits for, and a request that is none."""
    stray = {"resume": [{"interruptId": "a", "status": "cancelled"}]}
    broken = {"messages": [{"id": "u1", "role": "user", "content": [{"type": "image", "source": FILE}]}]}
    seen = await client.visit(module.app, "/agent", stray, broken)
    assert [run["failed"]["status"] for run in seen["runs"]] == [400, 400]
    assert seen["runs"][0]["failed"]["payload"]["code"] == "invalid-request"
    assert "Send the file itself" in seen["runs"][1]["failed"]["payload"]


FILE = {"type": "url", "value": "gs://bucket/secret", "mimeType": "image/png"}
