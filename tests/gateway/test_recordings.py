"""Recorded calls: what the client sent and got, what the vendors did, and tests made of them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import msgspec
import pytest
from gateway_parts import gateway_before, model_at, request_of, script_of, serving, target_at

import llmstream as ls
from llmstream.exchange import HttpRequest
from llmstream.gateway import Gateway, Key, Route, Routes, Target, load_settings, open_ledger
from llmstream.gateway.recordings import Recordings
from llmstream.gateway.running import gateway_of
from llmstream.testing import Cut, Recording, Refuse, Simulator, Stall, Turn


async def posted(url: str, http: HttpRequest) -> bytes:
    """The body, as far as it came."""
    headers = {"content-type": "application/json", **http.headers}
    body = b""
    async with (
        aiohttp.ClientSession() as session,
        session.post(url + http.url, data=http.body, headers=headers) as response,
    ):
        try:
            async for piece in response.content.iter_any():
                body += piece
        except aiohttp.ClientError:
            pass
    return body


def meta_of(folder: Path) -> dict[str, object]:
    return msgspec.json.decode((folder / "meta.json").read_bytes())


def calls_in(folder: Path) -> list[Path]:
    return sorted(folder.iterdir())


def mode_of(folder: Path) -> int:
    return folder.stat().st_mode


def size_of(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(("client", "streamed"), [("anthropic", True), ("gemini", True), ("cohere", False)])
async def test_both_sides_are_recorded(tmp_path: Path, client: str, streamed: bool) -> None:
    """On both lanes; each side is a recording that the simulator can play."""
    sent = request_of(client, streamed=streamed)
    async with gateway_before("anthropic", [Turn(text="Hello")], record=True, recordings=tmp_path) as (
        url,
        _,
    ):
        body = await posted(url, sent)
    (call,) = calls_in(tmp_path)
    assert [one.name for one in sorted(call.iterdir())] == ["call.json", "client", "vendor-1"]
    row = msgspec.json.decode((call / "call.json").read_bytes())
    assert (row["wire"], row["outcome"], row["model"]) == (client, "complete", "anthropic:sim")
    answer = Recording.load(call / "client")
    assert (answer.body, answer.status) == (body, 200)
    assert (call / "client" / "request.json").read_bytes() == sent.body
    vendor = Recording.load(call / "vendor-1")
    assert vendor.content_type == "text/event-stream"
    assert sum(count for _, count in vendor.timing) == len(vendor.body)
    assert b"message_stop" in vendor.body
    meta = meta_of(call / "vendor-1")
    assert (meta["dialect"], meta["model"], meta["truncated"]) == ("anthropic", "anthropic:sim", False)
    assert meta["url"].endswith("/v1/messages")
    assert meta["begun_s"] > 0
    async with Simulator(recordings=vendor) as again:
        assert (await model_at(again.url, "anthropic").ask("Hello")).text == "Hello"
    assert mode_of(call) & 0o077 == 0


async def test_secrets_are_not_recorded(tmp_path: Path) -> None:
    """Neither the client's key nor the vendor's, in headers, paths and bodies."""
    store = tmp_path / "gateway.db"
    ledger = open_ledger(store)
    secret = ledger.add_key(Key(name="ada"))
    ledger.close()
    asked = request_of("gemini")
    body = asked.body.replace(b"Hello", secret.encode())
    sent = msgspec.structs.replace(asked, url=f"{asked.url}&key={secret}", body=body)
    script = [Turn(text="Your keys are vendor-key-of-the-gateway and " + secret)]
    async with gateway_before(
        "openai-chat", script, record=True, recordings=tmp_path / "calls", keys=store
    ) as (url, _):
        assert secret.encode() in await posted(url, sent)
    (call,) = calls_in(tmp_path / "calls")
    files = [path for path in call.rglob("*") if path.is_file()]
    assert len(files) == 9
    for path in files:
        data = path.read_bytes()
        assert secret.encode() not in data
        assert b"vendor-key-of-the-gateway" not in data
    assert b" and" in Recording.load(call / "vendor-1").body


async def test_each_attempt_is_recorded(tmp_path: Path) -> None:
    """A refused one and the next; the answer to a request that all refuse; half an answer."""
    refusing = script_of([Turn(fault=Refuse(status=503, message="down"))])
    cut = script_of([Turn(text="one two three four five", fault=Cut(after_events=4))])
    async with Simulator(refusing) as first, Simulator(cut) as second:
        targets = (
            Target("anthropic:a", **target_at(first.url, "anthropic")),
            Target("google:b", **target_at(second.url, "gemini")),
        )
        routes = Routes([Route("sim", targets, record=True), Route("down", targets[:1], record=True)])
        async with serving(Gateway(routes, recordings=tmp_path)) as url:
            with pytest.raises(ls.LLMStreamError):
                await model_at(url, "openai-chat").ask("Hello")
            with pytest.raises(ls.LLMStreamError):
                await model_at(url, "openai-chat", name="down").ask("Hello")
    one, other = calls_in(tmp_path)
    assert [meta_of(one / f"vendor-{n}")["status"] for n in (1, 2)] == [503, 200]
    assert b"down" in (one / "vendor-1" / "response.bin").read_bytes()
    assert msgspec.json.decode((one / "call.json").read_bytes())["outcome"] == "cut"
    assert Recording.load(one / "client").body.count(b"data:") > 2
    refused = Recording.load(other / "client")
    assert (refused.status, b"down" in refused.body) == (503, True)


async def test_left_calls_are_recorded(tmp_path: Path) -> None:
    script = [Turn(text="one two three four", fault=Stall(after_events=3, stall_s=None))]
    async with gateway_before("anthropic", script, record=True, recordings=tmp_path) as (url, simulator):
        async with model_at(url, "openai-chat").stream("Hello") as stream:
            async for _ in stream.text_deltas():
                break
        async with asyncio.timeout(30):
            await simulator.requests[0].done.wait()
    (call,) = calls_in(tmp_path)
    assert msgspec.json.decode((call / "call.json").read_bytes())["outcome"] == "left"
    assert b"one" in Recording.load(call / "client").body


async def test_recordings_have_limits(tmp_path: Path) -> None:
    """A long response is cut, the oldest calls go, and a folder that is there is counted."""
    script = [Turn(text="word " * 2000)]
    for _ in range(2):
        kept = Recordings(tmp_path, max_call_bytes=5_000, max_bytes=40_000)
        async with gateway_before("anthropic", script, record=True, recordings=kept) as (url, _):
            for _ in range(3):
                assert len(await posted(url, request_of("anthropic"))) > 20_000
    calls = calls_in(tmp_path)
    assert 2 <= len(calls) <= 4
    assert size_of(tmp_path) <= 40_000
    newest = Recording.load(calls[-1] / "vendor-1")
    assert len(newest.body) == 5_000
    assert meta_of(calls[-1] / "vendor-1")["truncated"] is True


def test_recording_needs_a_folder() -> None:
    with pytest.raises(ls.InvalidRequest, match="Pass recordings=FOLDER"):
        Gateway(Routes([Route("*", (Target("sim:demo"),), record=True)]))


async def test_only_routes_that_say_so(tmp_path: Path) -> None:
    path = tmp_path / "gateway.toml"
    path.write_text(
        '[models.a]\nuse = "sim:demo"\nrecord = true\n[models.b]\nuse = "sim:demo"\n'
        '[recordings]\nfolder = "kept"\nmax_bytes = 1000000\n'
    )
    gateway = gateway_of(load_settings(path))
    async with serving(gateway) as url:
        for name in ("b", "a"):
            assert (await model_at(url, "anthropic", name=name).ask("Hello")).text
    (call,) = calls_in(tmp_path / "kept")
    assert msgspec.json.decode((call / "call.json").read_bytes())["asked"] == "a"
