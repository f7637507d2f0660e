"""OpenRouter passes requests on to many vendors and hosts, and bills them in one place.

- Models are named `openrouter:VENDOR/MODEL`.
- `OPENROUTER_APP_URL` and `OPENROUTER_APP_TITLE` become `HTTP-Referer` and `X-OpenRouter-Title`.
- Comments `: OPENROUTER PROCESSING` keep the connection alive; they are no progress.
- Chunks name the `provider` behind and its `native_finish_reason`; the finish reason is repeated on the
  chunk with usage. Usage also has `cost`, `cost_details` and `is_byok`, stored in `usage.raw`.
- `choices` may be null (pydantic/pydantic-ai#3994, #6900), and arguments of a tool call too.
- An error inside a stream stands at the top, `error{code, message, metadata{raw, provider_name}}`, beside a
  choice with finish reason `error`. HTTP 402 means that the credits are used up.
- Reasoning comes twice, as `reasoning` and as typed `reasoning_details` (text, summary, encrypted, with
  signatures). It is reported once; the details are stored in the metadata and sent back unchanged with the
  message they came with.
- Images come in `delta.images` and become file events.
- For `anthropic/` models we ask for tool input piece by piece (header `x-anthropic-beta`), since the
  silence before a long one gets connections cut (RooCodeInc/Roo-Code#9629).
- Effort `none` is refused on routes that must reason. `max_completion_tokens` is preferred by its SDK; we
  send `max_tokens`, which more of the vendors behind it know.
- Reasoning is requested by `reasoning{effort | max_tokens | enabled}`. `provider`, `models`, `plugins` and
  other fields of its own are passed by `provider_options={"openrouter": {...}}`.
- A part of text may carry `cache_control`; files and audio may be given by address and in any format.

Sources:

- <https://openrouter.ai/docs/api/reference/overview> (seen 2026-11)
- <https://openrouter.ai/docs/use-cases/reasoning-tokens> (seen 2026-11)
- <https://openrouter.ai/docs/api/reference/errors-and-debugging> (seen 2026-11)
"""

from collections.abc import Mapping

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
)
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
            # More of the vendors behind it know max_tokens; what one does not know, it leaves out itself.
            settings=SettingQuirks(max_tokens_field="max_tokens", unsupported=frozenset(), max_stops=None),
            # Its cost, beside the tokens (`usage.raw`).
            extra_body={"usage": {"include": True}},
            tools=ToolQuirks(provider_tools=True),
            media=MediaQuirks(file_urls=True, audio_formats=None),
            thinking=ThinkingQuirks(style="openrouter"),
            # The details have the signatures, without which the vendors behind refuse the reasoning.
            reasoning=ReasoningQuirks(field="reasoning_details", echo="all"),
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
