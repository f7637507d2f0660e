"""A switch for tests: no request leaves this machine."""

from __future__ import annotations

import pytest

import llmstream as ls
from llmstream.exchange import HttpRequest
from llmstream.transport.download import DownloadLimits, download
from llmstream.transport.egress import check_may_leave, requests_forbidden
from llmstream.transport.websocket import connect


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1", "[::1]"])
def test_loopback_stays_open(host: str) -> None:
    with requests_forbidden():
        check_may_leave(host)


@pytest.mark.parametrize("host", ["api.example", "192.0.2.1", "localhost.example", "0.0.0.0", "127.evil"])
def test_any_other_host_is_refused(host: str) -> None:
    check_may_leave(host)
    with requests_forbidden(), requests_forbidden():
        with pytest.raises(ls.InvalidRequest, match="forbids real requests") as caught:
            check_may_leave(host)
        assert caught.value.reason == "forbidden"
    check_may_leave(host)


async def test_request_refused_at_once_no_retry() -> None:
    with requests_forbidden():
        stream = ls.Model("openai:m", base_url="http://192.0.2.1/v1", api_key="x").stream("?")
        with pytest.raises(ls.InvalidRequest) as caught:
            await stream.collect()
    assert caught.value.attempts == 1


async def test_download_refused_before_dns_lookup() -> None:
    with requests_forbidden(), pytest.raises(ls.InvalidRequest, match="forbids"):
        await download("https://no-such-host.invalid/a.png", limits=DownloadLimits())


async def test_a_socket_is_refused_too() -> None:
    request = HttpRequest("http://192.0.2.1/v1/responses", b"", {})
    with requests_forbidden(), pytest.raises(ls.InvalidRequest, match="forbids"):
        await connect(
            request, ls.Deadlines(), None, max_message_bytes=1, refusal=lambda *_: ls.ServerError("no")
        )
