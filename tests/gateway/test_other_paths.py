"""Paths that are of no wire, such as embeddings and files, pass to their vendor where a route says so."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import msgspec
import pytest
from aiohttp import web
from gateway_parts import PRICE, serving

from llmstream.gateway import Gateway, Key, Route, Routes, Target, open_ledger
from llmstream.gateway.accounts import Row

FLOATS = [0.25] * 2000


class Vendor:
    """A server that repeats what it was asked, or has embeddings."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, str, bytes, str]] = []

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.read()
        self.asked.append((request.method, request.path_qs, body, request.headers.get("authorization", "")))
        if request.path.endswith("/embeddings"):
            usage = {"prompt_tokens": 500, "total_tokens": 500}
            return web.json_response({"data": [{"embedding": FLOATS}], "usage": usage})
        if request.path.endswith("/missing"):
            return web.json_response({"error": {"message": "no such file"}}, status=404)
        headers = {"content-disposition": "attachment", "set-cookie": "a=b"}
        return web.Response(body=b"\x00\x01bytes", content_type="application/octet-stream", headers=headers)


@asynccontextmanager
async def gateway_before_vendor(store: Path, **options: object) -> AsyncIterator[tuple[str, Vendor]]:
    vendor = Vendor()
    application = web.Application()
    application.router.add_route("*", "/{path:.*}", vendor.answer)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    base = f"http://127.0.0.1:{runner.addresses[0][1]}/api/v1"
    given = {"base_url": base, "api_key_env": "GATEWAY_TEST_KEY", "price": PRICE}
    routes = Routes(
        [
            Route("embed-*", (Target("openai:theirs-*", **given),), other_paths=True),
            Route("claude", (Target("anthropic:claude", **given),)),
        ]
    )
    try:
        async with serving(Gateway(routes, keys=store, **options)) as url:
            yield url, vendor
    finally:
        await runner.cleanup()


async def asked(
    url: str, path: str, method: str = "POST", **options: object
) -> tuple[int, bytes, dict[str, str]]:
    async with (
        aiohttp.ClientSession() as session,
        session.request(method, url + path, **options) as response,
    ):
        return response.status, await response.read(), {k.lower(): v for k, v in response.headers.items()}


def rows_of(store: Path) -> list[Row]:
    ledger = open_ledger(store)
    rows = ledger.rows()
    ledger.close()
    return rows


@pytest.fixture(autouse=True)
def vendors_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_TEST_KEY", "of-the-gateway")


async def test_embeddings_pass_with_their_cost(tmp_path: Path) -> None:
    store = tmp_path / "gateway.db"
    async with gateway_before_vendor(store) as (url, vendor):
        sent = {"model": "embed-1", "input": "Hello"}
        headers = {"authorization": "Bearer of-the-client"}
        status, body, _ = await asked(url, "/v1/embeddings?x=1", json=sent, headers=headers)
        assert (status, len(msgspec.json.decode(body)["data"][0]["embedding"])) == (200, 2000)
        ((method, path, given, key),) = vendor.asked
        assert (method, path, key) == ("POST", "/api/v1/embeddings?x=1", "Bearer of-the-gateway")
        assert msgspec.json.decode(given) == {"model": "theirs-embed-1", "input": "Hello"}
    (row,) = rows_of(store)
    assert (row.lane, row.outcome, row.asked, row.model) == (
        "pass",
        "complete",
        "embed-1",
        "openai:theirs-embed-1",
    )
    assert (row.input_tokens, row.output_tokens, row.cost_usd) == (500, 0, pytest.approx(0.0005))


async def test_files_pass_by_their_vendor(tmp_path: Path) -> None:
    """They name no model: the first route of the client's vendor has them. Their cost is not known."""
    store = tmp_path / "gateway.db"
    ledger = open_ledger(store)
    secret = ledger.add_key(Key(name="ada", budget_usd=1.0))
    ledger.close()
    headers = {"authorization": f"Bearer {secret}"}
    async with gateway_before_vendor(store) as (url, vendor):
        form = aiohttp.FormData({"purpose": "batch"})
        form.add_field("file", b"{}" * 100_000, filename="a.jsonl")
        status, body, found = await asked(url, "/v1/files", data=form, headers=headers)
        assert (status, body) == (200, b"\x00\x01bytes")
        assert found["content-disposition"] == "attachment"
        assert "set-cookie" not in found
        assert (await asked(url, "/v1/files/missing", "GET", headers=headers))[0] == 404
        assert (await asked(url, "/v1/files/a", "DELETE", headers=headers))[0] == 200
        assert [(method, path) for method, path, _, _ in vendor.asked] == [
            ("POST", "/api/v1/files"),
            ("GET", "/api/v1/files/missing"),
            ("DELETE", "/api/v1/files/a"),
        ]
        assert b"{}" * 100_000 in vendor.asked[0][2]
    rows = rows_of(store)
    assert [(row.asked, row.outcome, row.cost_usd, row.key) for row in rows] == [
        ("/v1/files/a", "complete", 0.0, "ada"),
        ("/v1/files/missing", "failed", 0.0, "ada"),
        ("/v1/files", "complete", 0.0, "ada"),
    ]


@pytest.mark.parametrize(
    ("path", "headers", "body", "problem"),
    [
        ("/v1/embeddings", {}, {"model": "claude"}, "`other_paths = true` in the route of 'claude'"),
        ("/v1/embeddings", {}, {"model": "other"}, "no model 'other'"),
        ("/v1/messages/batches", {"anthropic-version": "1"}, {}, "in a route of its vendor"),
        ("/embeddings", {}, {"model": "embed-1"}, "no path POST /embeddings"),
        ("/v1/%2e%2e/admin", {}, {"model": "embed-1"}, "no path POST"),
    ],
)
async def test_other_paths_say_what_to_do(
    tmp_path: Path, path: str, headers: dict[str, str], body: object, problem: str
) -> None:
    async with gateway_before_vendor(tmp_path / "gateway.db") as (url, vendor):
        from yarl import URL

        target = URL(url + path, encoded=True)
        async with (
            aiohttp.ClientSession() as session,
            session.post(target, json=body, headers=headers) as response,
        ):
            assert response.status == 404
            assert problem in await response.text()
        assert vendor.asked == []


async def test_keys_limit_other_paths_too(tmp_path: Path) -> None:
    store = tmp_path / "gateway.db"
    ledger = open_ledger(store)
    secret = ledger.add_key(Key(name="ada", models=("claude",)))
    ledger.close()
    headers = {"authorization": f"Bearer {secret}"}
    async with gateway_before_vendor(store) as (url, vendor):
        for path, sent in (
            ("/v1/files", {}),
            ("/v1/embeddings", {"model": "embed-1"}),
            ("/v1/chat/completions", {"model": "unknown"}),
        ):
            status, body, _ = await asked(url, path, json=sent, headers=headers)
            assert (status, b"may not use" in body) == (403, True)
        assert vendor.asked == []
