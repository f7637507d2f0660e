"""The application of docs/guides/ag-ui.md answers the real client."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.ui.ag_ui.conftest import Client, serving

GUIDE = Path(__file__).resolve().parents[3] / "docs" / "guides" / "ag-ui.md"


def block(fence: str) -> str:
    """The first block of the guide that begins so."""
    text = GUIDE.read_text(encoding="utf-8")
    found = re.search(rf"^```{re.escape(fence)}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert found is not None, fence
    return found[1]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module that the guide shows."""
    shown = ModuleType("ag_ui_app")
    monkeypatch.setitem(sys.modules, shown.__name__, shown)
    exec(
        compile(block('python title="ag_ui_app.py"'), "ag_ui_app.py", "exec", dont_inherit=True), vars(shown)
    )
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


async def test_guides_page_asks_the_user(client: Client, module: ModuleType) -> None:
    """The program of the page, with what a browser has: it shows text, and asks."""
    async with serving(module.app) as url:
        page = block("js").replace("'/agent'", f"'{url}/agent'")
        before = "globalThis.confirm = (words) => asked.push(words) > 0; const asked = [], show = () => {};\n"
        after = "console.log(JSON.stringify({ asked, messages: agent.messages }))\n"
        (client.folder / "page.mjs").write_text(before + page + after, encoding="utf-8")
        process = await asyncio.create_subprocess_exec(
            "node", "page.mjs", cwd=client.folder, stdout=asyncio.subprocess.PIPE
        )
        printed, _ = await process.communicate()
    seen = json.loads(printed)
    assert process.returncode == 0
    assert seen["asked"] == ["May delete run?"]
    assert "is gone" in seen["messages"][-1]["content"]


FILE = {"type": "url", "value": "gs://bucket/secret", "mimeType": "image/png"}
