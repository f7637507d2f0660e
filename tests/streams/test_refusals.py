"""Refusals with bodies that nobody has thought of: whatever is in them, the caller gets an error of ours."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any, Literal

import pytest
from aiohttp import web

import llmstream as ls
from llmstream import errors
from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.grammar import check
from llmstream.providers.base import Provider

LONG_CODE = json.dumps({"error": {"message": "refused", "code": "1" * 5000}}).encode()


class Broken(OpenAIChat):
    """A dialect whose decoder of errors fails."""

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> errors.LLMStreamError:
        raise KeyError(body.decode())


class BrokenResponses(OpenAIResponses):
    """The same where answers come over WebSockets too."""

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> errors.LLMStreamError:
        raise KeyError(body.decode())


async def refused(
    serve: Any, provider: Provider | str, mode: Literal["raise", "events"], body: bytes, status: int = 400
) -> tuple[list[ls.Event], ls.LLMStreamError | None]:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type="application/json")

    url = await serve(refuse)
    key = "sk-of-the-caller"
    model = (
        ls.Model(f"{provider}:m", base_url=url, api_key=key, retry=ls.Retry(max_retries=0))
        if isinstance(provider, str)
        else ls.Model("m", provider=provider, base_url=url, api_key=key, retry=ls.Retry(max_retries=0))
    )
    events: list[ls.Event] = []
    try:
        async with model.stream("hi", errors=mode) as stream:
            async for event in stream:
                events.append(event)
            return events, stream.error
    except errors.LLMStreamError as error:
        return events, error


BROKEN = Provider(
    name="broken",
    title="Broken",
    dialect=Broken(),
    base_url="https://broken.example/v1",
    key_env=("BROKEN_API_KEY",),
)


@pytest.mark.parametrize("mode", ["raise", "events"])
async def test_failing_error_decoder_is_typed(
    serve: Any, mode: Literal["raise", "events"], caplog: pytest.LogCaptureFixture
) -> None:
    events, error = await refused(serve, BROKEN, mode, b"secret words")
    assert type(error) is errors.BadRequest
    assert "bug in llmstream" in error.message
    assert "secret words" not in error.message + caplog.text
    assert check(events) == []
    assert type(events[-1]) is ls.Finish


async def test_so_it_is_where_a_model_is_looked_up(serve: Any) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=500, body=b"secret words")

    model = ls.Model("m", provider=BROKEN, base_url=await serve(refuse), api_key="sk-of-the-caller")
    with pytest.raises(errors.ServerError, match="bug in llmstream"):
        await model.check()


async def test_so_it_is_where_a_socket_is_refused(serve: Any) -> None:
    async def refuse(_: web.Request) -> web.Response:
        return web.Response(status=400, body=b"secret words")

    provider = dataclasses.replace(BROKEN, dialect=BrokenResponses())
    model = ls.Model(
        "m",
        provider=provider,
        base_url=await serve(refuse),
        api_key="sk-of-the-caller",
        transport="websocket",
    )
    with pytest.raises(errors.BadRequest, match="bug in llmstream"):
        await model.stream("Hi").collect()


@pytest.mark.parametrize("status", [401, 429, 500, 503])
async def test_its_status_still_decides_the_type(serve: Any, status: int) -> None:
    _, error = await refused(serve, BROKEN, "raise", b"{}", status)
    assert error is not None
    assert (error.status, error.retryable) == (status, status != 401)


@pytest.mark.parametrize("mode", ["raise", "events"])
@pytest.mark.parametrize(
    "provider", ["openai", "openai-responses", "anthropic", "google", "cohere", "mistral"]
)
async def test_a_code_of_5000_digits(serve: Any, provider: str, mode: Literal["raise", "events"]) -> None:
    events, error = await refused(serve, provider, mode, LONG_CODE)
    assert type(error) is errors.BadRequest
    assert error.message.startswith("refused")
    assert check(events) == []


async def test_failing_decoder_on_unary_body_typed(serve: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(OpenAIChat):
        def decoder(self, **options: Any) -> Any:
            found = super().decoder(**options)
            found.on = lambda wire: {}[wire]  # type: ignore[method-assign,misc]
            return found

    provider = Provider(
        name="failing", title="Failing", dialect=Failing(), base_url="https://f.example", key_env=("F",)
    )
    events, error = await refused(serve, provider, "raise", b'{"choices":[]}', 200)
    assert isinstance(error, errors.LLMStreamError)
    assert check(events) == []
