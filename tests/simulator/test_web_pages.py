"""What a web page can do with a simulator of this machine: nothing, and not fill its memory either."""

from __future__ import annotations

import aiohttp
import pytest

from llmstream.exchange import HttpRequest
from llmstream.simulator import Simulator
from llmstream.simulator.admission import masked

BODY = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}'
PATH = "/v1/chat/completions"


async def sent(simulator: Simulator, body: bytes = BODY, **headers: str) -> int:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            simulator.url + PATH, data=body, headers={"content-type": "text/plain", **named}
        ) as answer,
    ):
        await answer.read()
        return answer.status


async def test_foreign_page_refused_before_body() -> None:
    async with Simulator() as simulator:
        assert await sent(simulator, origin="https://evil.example") == 403
        assert await sent(simulator, sec_fetch_site="cross-site") == 403
        assert [received.http.body for received in simulator.requests] == [b"", b""]
        assert await sent(simulator, origin="http://localhost:3000") == 200
        assert await sent(simulator) == 200


async def test_without_a_key_no_body_is_read() -> None:
    async with Simulator(api_keys={"right"}) as simulator:
        assert await sent(simulator, b"x" * 100_000) == 401
        assert await sent(simulator, b"x" * 100_000, authorization="Bearer wrong") == 401
        assert [received.http.body for received in simulator.requests] == [b"", b""]
        assert await sent(simulator, authorization="Bearer right") == 200
        assert simulator.requests[-1].http.body == BODY


async def test_old_request_bodies_are_evicted() -> None:
    async with Simulator(max_log_bytes=3 * len(BODY)) as simulator:
        for _ in range(10):
            assert await sent(simulator) == 200
        bodies = [received.http.body for received in simulator.requests]
    assert bodies == [b""] * 7 + [BODY] * 3
    assert [received.dropped for received in simulator.requests] == [True] * 7 + [False] * 3
    assert [received.request is None for received in simulator.requests] == [True] * 7 + [False] * 3
    assert len({received.request_id for received in simulator.requests}) == 10


async def test_one_body_is_always_kept() -> None:
    async with Simulator(max_log_bytes=1) as simulator:
        assert await sent(simulator) == 200
        assert simulator.requests[-1].http.body == BODY


@pytest.mark.parametrize(
    "name", ["key", "api-key", "api_key", "access_token", "token", "sig", "X-Amz-Signature", "code"]
)
def test_secrets_of_a_query_are_masked(name: str) -> None:
    url = masked(HttpRequest(f"/a?x=1&{name}=SECRET&y=2", b"")).url
    assert url == f"/a?x=1&{name}=***&y=2"
