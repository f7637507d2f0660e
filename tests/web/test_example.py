"""`examples/web_chat` by uvicorn: the API that the page calls, over FastAPI."""

from __future__ import annotations

import asyncio
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import ClientSession

import llmstream as ls

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
async def url(tmp_path: Path) -> AsyncIterator[str]:
    command = [sys.executable, "examples/web_chat/app.py", "--port", "0", "--folder", str(tmp_path)]
    env = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = await asyncio.create_subprocess_exec(
        *command, cwd=ROOT, env=env, stderr=asyncio.subprocess.PIPE
    )
    assert process.stderr is not None
    seen = ""
    while not (found := re.search(r"running on (http://\S+)", seen)):
        line = (await process.stderr.readline()).decode()
        assert line, seen
        seen += line
    yield found[1]
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert process.returncode == 0


async def events(session: ClientSession, url: str, run: str, **headers: str) -> list[ls.Event]:
    async with session.get(f"{url}/api/runs/{run}/events", headers=headers) as response:
        assert response.status == 200
        frames = (await response.read()).split(b"\n\n")
    assert frames[-2:] == [b"event: end\ndata: {}", b""]
    return [ls.events.decode(frame.partition(b"data: ")[2]) for frame in frames[:-2]]


async def post(session: ClientSession, url: str, path: str, body: Any) -> Any:
    async with session.post(f"{url}/api/{path}", json=body) as response:
        assert response.status == 200, await response.text()
        return msgspec.json.decode(await response.read())


async def test_a_mail_is_approved(url: str) -> None:
    async with ClientSession() as session:
        view = await post(session, url, "conversations", {"prompt": "Write to Ada"})
        asked = await events(session, url, view["openRun"])
        assert await events(session, url, view["openRun"], **{"Last-Event-ID": "3"}) == asked[4:]
        (approval,) = [one.approval_id for one in asked if isinstance(one, ls.ToolApprovalRequest)]
        decision = {approval: {"approve": True, "arguments": {"to": "Ada", "text": "Hi"}}}
        path = f"conversations/{view['id']}"
        view = await post(session, url, f"{path}/decisions", {"decisions": decision})
        results = [
            one for one in await events(session, url, view["openRun"]) if isinstance(one, ls.ToolResult)
        ]
        assert results[-1].result == "sent to Ada"
        async with session.post(f"{url}/api/{path}/decisions", json={"decisions": decision}) as response:
            assert response.status == 409
            assert "decided already" in (await response.json())["error"]["message"]


async def test_the_page_and_its_policy(url: str) -> None:
    async with ClientSession() as session:
        for path in ("/", "/main.js"):
            async with session.get(url + path) as response:
                assert response.status == 200
                assert "script-src 'self'" in response.headers["content-security-policy"]
        for headers in ({"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}):
            async with session.get(f"{url}/api/settings", headers=headers) as response:
                assert response.status == 403
