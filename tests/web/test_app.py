from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import ClientSession, web

import llmstream as ls
from llmstream.web import Conversations
from llmstream.web.admission import refusal
from llmstream.web.app import Settings, make_app

TOKEN = "a-token-of-some-length"
ADMITTED = {"authorization": f"Bearer {TOKEN}"}


@pytest.fixture
async def url(make: Callable[..., Conversations]) -> AsyncIterator[str]:
    runner = web.AppRunner(make_app(make(), Settings("sim:demo"), token=TOKEN), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    await runner.cleanup()


@pytest.fixture
async def session() -> AsyncIterator[ClientSession]:
    async with ClientSession(headers=ADMITTED) as session:
        yield session


async def frames(session: ClientSession, address: str, **headers: str) -> list[bytes]:
    async with session.get(address, headers=headers) as response:
        assert response.status == 200
        return (await response.read()).split(b"\n\n")[:-1]


async def test_events_have_numbers(url: str, session: ClientSession) -> None:
    """And a client that names its last one gets the rest, each once."""
    async with session.post(f"{url}/api/conversations", json={"prompt": "Hello"}) as response:
        view = await response.json()
    address = f"{url}/api/runs/{view['openRun']}/events"
    every = await frames(session, address)
    assert every[-1] == b"event: end\ndata: {}"
    assert [frame.split(b"\n")[0] for frame in every[:-1]] == [b"id: %d" % i for i in range(len(every) - 1)]
    assert await frames(session, address, **{"Last-Event-ID": "4"}) == every[5:]
    assert await frames(session, address, **{"Last-Event-ID": "0"}) == every[1:]
    for given, status in ((str(len(every) - 2), 204), ("x", 400), (str(len(every)), 400)):
        async with session.get(address, headers={"Last-Event-ID": given}) as response:
            assert response.status == status


async def test_a_failed_run_is_a_response(make: Callable[..., Conversations], session: ClientSession) -> None:
    """Its failure is an event, so that a page that connects again does not get another status."""
    conversations = make(ls.Agent("sim:/no/such/script.json"))
    runner = web.AppRunner(make_app(conversations, Settings("sim"), token=TOKEN), shutdown_timeout=1.0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with session.post(f"{url}/api/conversations", json={"prompt": "Hello"}) as response:
        view = await response.json()
    found = await frames(session, f"{url}/api/runs/{view['openRun']}/events")
    assert b'"code":"invalid-request"' in b"".join(found)
    assert b"/no/such" not in b"".join(found)
    await runner.cleanup()


@pytest.mark.parametrize("path", ["settings", "conversations", "conversations/x", "runs/x/events"])
async def test_the_api_needs_the_token(url: str, path: str) -> None:
    async with ClientSession() as session:
        for headers in ({}, {"authorization": "Bearer wrong"}, {"cookie": f"token={TOKEN}"}):
            async with session.get(f"{url}/api/{path}", headers=headers) as response:
                assert response.status == 401
                assert "address" in (await response.json())["error"]["message"]


async def test_foreign_pages_are_refused(url: str, session: ClientSession) -> None:
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}, {"origin": "null"}):
        for path in ("", "api/settings"):
            async with session.get(f"{url}/{path}", headers=headers) as response:
                assert response.status == 403, headers


def test_a_remote_server_has_one_origin() -> None:
    own = {"host": "box.lan:8765", "authorization": f"Bearer {TOKEN}"}
    for origin, status in (("http://box.lan:8765", None), ("http://evil.example", 403), ("null", 403)):
        refused = refusal({**own, "origin": origin}, token=TOKEN, local=False)
        assert (refused and refused[0]) == status, origin
    assert refusal(own, token=TOKEN, local=False) is None
    assert refusal({**own, "sec-fetch-site": "cross-site"}, token=TOKEN, local=False) is not None


async def test_the_page_admits_own_scripts_only(url: str, session: ClientSession) -> None:
    for path in ("", "main.js", "vendor/preact-htm.js", "style.css", "icon.svg"):
        async with session.get(f"{url}/{path}") as response:
            assert response.status == 200
            policy = response.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert response.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["..%2fapp.py", "%2e%2e/app.py", "vendor", "nothing.js", "%2fetc%2fpasswd"])
async def test_other_files_are_not_found(url: str, session: ClientSession, path: str) -> None:
    async with session.get(f"{url}/{path}") as response:
        assert response.status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "conversations", b"{}", 400),
        ("POST", "conversations", b"\xff", 400),
        ("POST", "conversations", b'{"prompt": " "}', 400),
        ("POST", "conversations/none/messages", b'{"prompt": "Hi"}', 404),
        ("POST", "conversations/none/stop", b"", 404),
        ("GET", "conversations/none", b"", 404),
        ("GET", "runs/none/events", b"", 404),
    ],
)
async def test_mistakes_have_a_status(
    url: str, session: ClientSession, method: str, path: str, body: bytes, status: int
) -> None:
    headers = {"content-type": "application/json"} if body else {}
    async with session.request(method, f"{url}/api/{path}", data=body, headers=headers) as response:
        assert response.status == status


async def test_forms_of_other_pages_fail(url: str, session: ClientSession) -> None:
    """A page can send a form anywhere, with this type."""
    async with session.post(
        f"{url}/api/conversations", data=b'{"prompt": "Hi"}', headers={"content-type": "text/plain"}
    ) as response:
        assert response.status == 415


async def test_leaving_does_not_stop_a_run(url: str, session: ClientSession) -> None:
    async with session.post(f"{url}/api/conversations", json={"prompt": "Hello"}) as response:
        view = await response.json()
    address = f"{url}/api/runs/{view['openRun']}/events"
    async with session.get(address) as response:
        await response.content.readline()
    assert (await frames(session, address))[-1] == b"event: end\ndata: {}"
    while (await _view(session, url, view["id"]))["openRun"] is not None:
        await asyncio.sleep(0)


async def _view(session: ClientSession, url: str, conversation: str) -> dict[str, object]:
    async with session.get(f"{url}/api/conversations/{conversation}") as response:
        found: dict[str, object] = await response.json()
        return found
