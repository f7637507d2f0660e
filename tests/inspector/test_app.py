"""The API of the page: admission, what it sends, and what it refuses."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from llmstream.inspector.app import PAGE, make_app
from llmstream.inspector.sources import Calls
from llmstream.web import PAGE as CHAT
from tests.inspector.conftest import END, calls_of, chunk

TOKEN = "t" * 32
MINE = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def path(traced: Callable[..., Any]) -> Path:
    found: Path = await traced(
        [[chunk("needle <b>"), 0.02, chunk("x" * 100_000), END], [chunk("a"), chunk("b")]]
    )
    return found


@pytest.fixture
async def client(path: Path) -> AsyncIterator[Any]:
    async with TestClient(TestServer(make_app(calls_of(path), token=TOKEN))) as client:
        yield client


async def got(client: Any, address: str) -> Any:
    async with client.get(f"/api/{address}", headers=MINE) as response:
        assert response.status == 200, await response.text()
        return await response.json()


async def ids(client: Any) -> list[str]:
    return [one["id"] for one in (await got(client, "calls"))["calls"]]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"authorization": "Bearer wrong"}, 401),
        ({**MINE, "host": "evil.example"}, 403),
        ({**MINE, "origin": "https://evil.example"}, 403),
        ({**MINE, "sec-fetch-site": "cross-site"}, 403),
        (MINE, 200),
    ],
)
async def test_who_may_read(client: Any, headers: dict[str, str], status: int) -> None:
    async with client.get("/api/calls", headers=headers) as response:
        assert response.status == status
        if status == 401:
            assert "`llmstream inspect`" in await response.text()


async def test_files_have_a_strict_policy(client: Any) -> None:
    for name in ("", "main.js", "style.css", "icon.svg"):
        async with client.get(f"/{name}") as response:
            assert response.status == 200
            assert "default-src 'none'" in response.headers["content-security-policy"]
            assert response.headers["x-content-type-options"] == "nosniff"
    for name in ("../app.py", "..%2fapp.py", "none.js"):
        async with client.get(f"/{name}") as response:
            assert response.status == 404


def test_the_pages_are_small() -> None:
    """What both pages have together is read over slow disks, and is in every wheel."""
    for page, most in ((PAGE, 100_000), (CHAT, 100_000)):
        assert sum(file.stat().st_size for file in page.rglob("*") if file.is_file()) < most


async def test_a_call_in_parts(client: Any) -> None:
    """What the page has is not sent again."""
    cut, whole = await ids(client)
    call = await got(client, f"calls/{whole}")
    assert (call["summary"]["state"], len(call["frames"]), call["summary"]["hasBytes"]) == (
        "complete",
        4,
        True,
    )
    rest = await got(client, f"calls/{whole}?events=3&reads=1&frames=2")
    assert rest["events"] == call["events"][3:]
    assert rest["reads"] == call["reads"][1:]
    assert rest["frames"] == call["frames"][2:]
    assert (await got(client, f"calls/{cut}"))["findings"][0]["kind"] == "cut"


async def test_long_events_come_in_parts(client: Any) -> None:
    _, whole = await ids(client)
    rows = await got(client, f"calls/{whole}/rows")
    place = next(n for n, (event, _) in enumerate(rows) if "xxx" in event)
    assert max(len(text) for row in rows for text in row) <= 240
    short = await got(client, f"calls/{whole}/event?n={place}&chars=500")
    assert (len(short["event"]), len(short["wire"])) == (500, 500)
    assert short["wireChars"] > 100_000
    full = await got(client, f"calls/{whole}/event?n={place}&chars=900000")
    assert len(full["wire"]) == short["wireChars"]
    texts = await got(client, f"calls/{whole}/texts")
    assert "".join(text for _, _, text in texts) == "needle <b>" + "x" * 100_000
    assert await got(client, f"calls/{whole}/texts?from={place}") == texts[1:]


async def test_search_finds_events_and_bytes(client: Any) -> None:
    _, whole = await ids(client)
    *_, place = await got(client, f"calls/{whole}/search?q=NEEDLE")
    rows = await got(client, f"calls/{whole}/rows")
    assert rows[place][0] == "needle <b>"
    assert len(await got(client, f"calls/{whole}/search?q=prompt_tokens")) >= 1
    assert await got(client, f"calls/{whole}/search?q=") == []


async def test_a_change_ends_the_wait(client: Any, path: Path) -> None:
    first = await got(client, "calls")
    waiting = asyncio.create_task(got(client, f"calls?version={first['version']}"))
    await asyncio.sleep(0.1)
    assert not waiting.done()
    with open(path, "ab") as file:  # noqa: ASYNC230
        file.write(b'{"type":"call","call":"new","ns":1,"provider":"p","model":"m"}\n')
    second = await asyncio.wait_for(waiting, 30)
    assert len(second["calls"]) == len(first["calls"]) + 1


@pytest.mark.parametrize(
    ("address", "status"),
    [
        ("calls/none", 404),
        ("calls/{id}/event?n=9999", 404),
        ("calls/{id}/event?n=x", 400),
        ("calls/{id}?events=99999999999999999999", 400),
        ("calls/{id}/export?as=exe", 400),
    ],
)
async def test_what_is_refused(client: Any, address: str, status: int) -> None:
    address = address.format(id=(await ids(client))[0])
    async with client.get(f"/api/{address}", headers=MINE) as response:
        assert response.status == status
        assert (await response.json())["error"]["message"]


async def test_exports_are_attachments(client: Any) -> None:
    _, whole = await ids(client)
    for kind in ("test", "recording", "trace"):
        async with client.get(f"/api/calls/{whole}/export?as={kind}", headers=MINE) as response:
            assert response.status == 200
            assert response.headers["content-disposition"].startswith("attachment")
            assert len(await response.read()) > 100


async def test_a_replay_is_another_call(client: Any) -> None:
    _, whole = await ids(client)
    address = f"/api/calls/{whole}/replay"
    async with client.post(address, headers=MINE, json={"dialect": "gemini"}) as response:
        made = await response.json()
    assert made["dialect"] == "gemini"
    assert made["id"] in await ids(client)
    for body, status in (({"dialect": "x"}, 400), ({}, 400)):
        async with client.post(address, headers=MINE, json=body) as response:
            assert response.status == status
    async with client.post(address, headers=MINE, data=b"{}") as response:
        assert response.status == 415


async def test_gaps_of_two_calls(client: Any) -> None:
    one, two = await ids(client)
    async with client.get(f"/api/calls/{one}/gaps.svg?other={two}", headers=MINE) as response:
        assert response.content_type == "image/svg+xml"
        assert "<script" not in await response.text()


async def test_no_calls_yet(tmp_path: Path) -> None:
    empty = Calls([str(tmp_path)], lambda head: pytest.fail("nothing to decode"))
    async with TestClient(TestServer(make_app(empty, token=TOKEN, places="here"))) as client:
        found = await got(client, "calls")
    assert (found["calls"], found["places"]) == ([], "here")
