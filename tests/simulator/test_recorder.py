"""A recorder keeps what came, and nothing that is secret."""

from __future__ import annotations

import base64
import json

import pytest
from aiohttp import web

import llmstream as ls
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.testing import (
    Cut,
    Recording,
    Refuse,
    Script,
    Simulator,
    Stall,
    Turn,
    check_stream,
    decode_body,
    record,
)

KEY = "sk-secret-canary-0123456789"


def at(url: str) -> ls.Model:
    return ls.Model("openai:m", base_url=f"{url}/v1", api_key=KEY)


async def test_response_is_recorded_and_replayed(tmp_path) -> None:
    ticks = iter(range(1000))
    async with Simulator(Script((Turn(text="Hello to you"),))) as simulator:
        kept = await record(at(simulator.url), "Hi", tmp_path / "hi", clock=lambda: float(next(ticks)))
    assert Recording.load(tmp_path / "hi") == kept
    assert sum(count for _, count in kept.timing) == len(kept.body)
    assert [seconds for seconds, _ in kept.timing] == [float(n + 1) for n in range(len(kept.timing))]
    assert (kept.status, kept.content_type.partition(";")[0]) == (200, "text/event-stream")
    async with Simulator(recordings=kept, speed=None) as simulator:
        events = [event async for event in at(simulator.url).events("Hi")]
    assert events == decode_body(kept.body, OpenAIChat(), provider="openai")
    check_stream(events)


async def test_keys_and_secrets_are_overwritten(serve, tmp_path) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        key = request.headers["authorization"].removeprefix("Bearer ")
        response = web.StreamResponse(headers={"content-type": "text/event-stream", "set-cookie": f"k={key}"})
        await response.prepare(request)
        for piece in (f"data: {key[:9]}", f"{key[9:]} org-77\n\n"):
            await response.write(piece.encode())
        return response

    kept = await record(at(await serve(echo)), "Hi", tmp_path, scrub=["org-77", ""])
    assert kept.body == b"data: " + b"*" * len(KEY) + b" ******\n\n"
    assert sum(count for _, count in kept.timing) == len(kept.body)
    for file in tmp_path.iterdir():
        assert KEY.encode() not in file.read_bytes()
    assert set(json.loads((tmp_path / "meta.json").read_bytes())) == {"content_type", "status"}


async def test_a_refusal_is_kept_with_its_status(tmp_path) -> None:
    async with Simulator(Script((Turn(fault=Refuse(status=429, message="no")),))) as simulator:
        await record(at(simulator.url), "Hi", tmp_path)
    kept = Recording.load(tmp_path)
    assert kept.status == 429
    assert json.loads(kept.body)["error"]["message"] == "no"


async def test_broken_off_response_stored_partly(tmp_path) -> None:
    script = Script((Turn(text="Hello to you", fault=Cut(after_events=4)),))
    async with Simulator(script) as simulator:
        with pytest.raises(ls.ConnectionLost):
            await record(at(simulator.url), "Hi", tmp_path)
    assert b"Hello" in Recording.load(tmp_path).body


async def test_no_response_writes_nothing(tmp_path) -> None:
    with pytest.raises(ls.ConnectionFailed):
        await record(at("http://127.0.0.1:1"), "Hi", tmp_path / "x")
    assert not (tmp_path / "x").exists()


async def test_endless_response_ends_at_deadline(tmp_path) -> None:
    script = Script((Turn(text="Hello to you", fault=Stall(after_events=4)),))
    async with Simulator(script) as simulator:
        with pytest.raises(ls.DeadlineExceeded) as caught:
            await record(at(simulator.url), "Hi", tmp_path / "x", deadlines=ls.Deadlines(total_s=1))
        await simulator.requests[0].done.wait()
    assert caught.value.reason == "total"
    assert b"Hello" in Recording.load(tmp_path / "x").body
    assert simulator.requests[0].disconnected


ODD_KEY = "sk-SECRET/abc+def=1234"
SPELLINGS = {
    "plain": ODD_KEY,
    "JSON with escaped slashes": ODD_KEY.replace("/", "\\/"),
    "JSON with escaped characters": "".join(f"\\u{ord(char):04X}" for char in ODD_KEY),
    "a URL": "sk-SECRET%2Fabc%2Bdef%3D1234",
    "a URL in lower case": "sk-SECRET%2fabc%2bdef%3d1234",
    "base64": base64.b64encode(ODD_KEY.encode()).decode().rstrip("="),
    "both": ODD_KEY.replace("S", "\\u0053").replace("/", "%2F"),
}


@pytest.mark.parametrize("spelled", SPELLINGS.values(), ids=list(SPELLINGS))
async def test_key_overwritten_in_every_spelling(spelled: str, serve, tmp_path) -> None:
    basic = base64.b64encode(f"user:{ODD_KEY}".encode()).decode()

    async def echo(request: web.Request) -> web.Response:
        body = f"data: {basic} {spelled}\n\n"
        return web.Response(text=body, headers={"content-type": f"text/event-stream; k={ODD_KEY}"})

    model = ls.Model("openai:m", base_url=await serve(echo), api_key=ODD_KEY)
    kept = await record(model, "Hi", tmp_path)
    assert kept.body.startswith(b"data: ")
    assert kept.body.endswith(b"\n\n")
    for file in tmp_path.iterdir():
        assert spelled.encode() not in file.read_bytes()
        assert basic[8:-4].encode() not in file.read_bytes()
        assert ODD_KEY.encode() not in file.read_bytes()


@pytest.mark.parametrize("where", ["cookie", "address"])
async def test_cookie_and_address_keys_are_secret(where: str, serve, tmp_path) -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=f"data: {KEY}\n\n", headers={"content-type": "text/event-stream"})

    url = await serve(echo)
    model = ls.Model("openai:m", base_url=f"{url}?key={KEY}" if where == "address" else url, api_key="k" * 20)
    headers = {"cookie": f"a=b; sid={KEY}"} if where == "cookie" else {}
    kept = await record(model, "Hi", tmp_path, headers=headers)
    assert KEY.encode() not in kept.body


async def test_flood_is_cut_and_start_is_stored(serve, tmp_path) -> None:
    async def flood(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for _ in range(1000):
            await response.write(b"data: " + b"x" * 65536 + b"\n\n")
        return response

    with pytest.raises(ls.LimitExceeded):
        await record(at(await serve(flood)), "Hi", tmp_path, max_bytes=1_000_000)
    assert 0 < (tmp_path / "response.bin").stat().st_size <= 1_000_000


async def test_planted_link_replaced_not_followed(tmp_path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("mine")
    (tmp_path / "r").mkdir()
    (tmp_path / "r" / "response.bin").symlink_to(victim)
    async with Simulator(Script((Turn(text="Hi"),))) as simulator:
        await record(at(simulator.url), "Hi", tmp_path / "r")
    assert victim.read_text() == "mine"
