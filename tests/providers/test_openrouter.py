from __future__ import annotations

from llmstream.exchange import HttpRequest
from llmstream.providers.openrouter import OPENROUTER

HTTP = HttpRequest("/chat/completions", b"{}")


def headers(model: str, **env: str) -> dict[str, str]:
    return OPENROUTER.prepare(HTTP, model=model, api_key="k", env=env).headers


def test_claude_tool_input_is_streamed() -> None:
    wanted = "fine-grained-tool-streaming-2025-05-14"
    assert headers("anthropic/claude-sonnet-4.5")["x-anthropic-beta"] == wanted
    assert "x-anthropic-beta" not in headers("openai/gpt-5")


def test_the_caller_can_ask_otherwise() -> None:
    http = HttpRequest("/chat/completions", b"{}", {"x-anthropic-beta": "mine"})
    assert (
        OPENROUTER.prepare(http, model="anthropic/x", api_key="k", env={}).headers["x-anthropic-beta"]
        == "mine"
    )


def test_environment_names_the_application() -> None:
    named = headers("openai/gpt-5", OPENROUTER_APP_URL="https://app.example", OPENROUTER_APP_TITLE="App")
    assert named["http-referer"] == "https://app.example"
    assert named["x-openrouter-title"] == "App"
    assert "x-openrouter-title" not in headers("openai/gpt-5")
