"""OpenRouter: one address for many vendors."""

from collections.abc import Mapping

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Provider, join

_STREAM_TOOL_INPUT = {"x-anthropic-beta": "fine-grained-tool-streaming-2025-05-14"}


def _route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """Claude's tool inputs come piece by piece only when asked; the silence before a long one
    gets connections cut (seen 2026-07, RooCodeInc/Roo-Code#9629)."""
    routed = join(base_url, http, model, env)
    if not model.startswith("anthropic/"):
        return routed
    return HttpRequest(routed.url, routed.body, {**_STREAM_TOOL_INPUT, **routed.headers}, routed.method)


OPENROUTER = Provider(
    name="openrouter",
    title="OpenRouter",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            extra_body={"usage": {"include": True}},
            provider_tools=True,
            file_urls=True,
            audio_formats=None,
            reasoning_style="openrouter",
            reasoning_field="reasoning_details",
            echo="all",
        )
    ),
    base_url="https://openrouter.ai/api/v1",
    base_url_env=("OPENROUTER_BASE_URL", "OPENROUTER_API_BASE"),
    key_env=("OPENROUTER_API_KEY", "OR_API_KEY"),
    header_env={"http-referer": "OPENROUTER_APP_URL", "x-openrouter-title": "OPENROUTER_APP_TITLE"},
    route=_route,
    aliases=("open-router",),
    docs="https://openrouter.ai/docs/api/reference/overview",
    notes="models are named `vendor/model`",
)
"""OpenRouter's gateway."""
