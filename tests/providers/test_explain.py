"""What the address tells of an error: which one was not found, a missing version, a server that is not up."""

from __future__ import annotations

import pytest
from aiohttp import web

import llmstream as ls

ONCE = ls.Retry(max_retries=0)


async def missing(request: web.Request) -> web.Response:
    return web.Response(status=404, text="404: Not Found")


async def failure(spec: str, base_url: str) -> ls.LLMStreamError:
    model = ls.Model(spec, base_url=base_url, api_key="secret-key", retry=ONCE)
    with pytest.raises(ls.LLMStreamError) as raised:
        await model.stream("Hi").collect()
    return raised.value


async def test_404_names_request_and_version(serve) -> None:
    """The version that the address lacks."""
    url = await serve(missing)
    error = await failure("openai-chat:x", f"{url}?token=hush")
    assert isinstance(error, ls.NotFound)
    assert f'The request was POST {url}/chat/completions; did you mean base_url="{url}/v1"?' in str(error)
    assert "hush" not in str(error)


async def test_404_with_version_names_request(serve) -> None:
    url = await serve(missing)
    error = await failure("openai-chat:x", f"{url}/v1")
    assert str(error).endswith(f"The request was POST {url}/v1/chat/completions. Check base_url. (HTTP 404)")
    assert "did you mean" not in str(await failure("anthropic:x", url))


async def test_404_of_a_model_names_the_lookup(serve) -> None:
    async def unknown(request: web.Request) -> web.Response:
        return web.json_response({"error": {"message": "The model `gpt-9` does not exist"}}, status=404)

    error = await failure("openai-chat:gpt-9", f"{await serve(unknown)}/v1")
    assert "Check the model's name; `await model.check()` finds similar ones." in str(error)


async def test_404_page_has_one_remedy(serve) -> None:
    async def page(request: web.Request) -> web.Response:
        return web.Response(status=404, text="<html><title>404 Not Found</title>", content_type="text/html")

    assert str(await failure("openai-chat:x", f"{await serve(page)}/v1")).count("base_url") == 1


async def test_a_server_of_ones_own_needs_any_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ls.MissingKey, match="at base_url needs no key, any text will do") as missing:
        await ls.Model("openai:m", base_url="http://127.0.0.1:9/v1").ask("Hi")
    with pytest.raises(ls.MissingKey) as usual:
        await ls.Model("openai:m").ask("Hi")
    assert "base_url" not in str(usual.value)
    assert str(missing.value).startswith(str(usual.value))


async def test_echoed_key_stays_masked(serve) -> None:
    url = await serve(missing)
    assert "secret-key" not in str(await failure("openai-chat:x", f"{url}/secret-key"))


@pytest.mark.parametrize("provider", ["ollama", "ollama-openai"])
async def test_unreachable_ollama_names_command(provider, unused_tcp_port_factory) -> None:
    error = await failure(f"{provider}:x", f"http://127.0.0.1:{unused_tcp_port_factory()}")
    assert isinstance(error, ls.ConnectionFailed)
    assert "Is Ollama running? `ollama serve` starts it." in str(error)
