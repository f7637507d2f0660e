"""Moonshot AI serves its Kimi models over Chat Completions.

- In China the address is `https://api.moonshot.cn/v1`.
- Messages with tool calls must have their `reasoning_content`; it is sent back with the complete history.
  `provider_options={"moonshot": {"thinking": {"type": "enabled", "keep": "all"}}}` makes the model use the
  reasoning of earlier turns as well.
- `thinking` and `reasoning_effort` exclude each other (HKUDS/nanobot#3939). Kimi K2.5 and K2.6 get
  `thinking{type}`, K3 gets `reasoning_effort` (`low`, `high`, `max`). K2.7, K3 and K2 Thinking always think;
  `moonshot-v1` and the K2 previews never do.
- A forced `tool_choice` conflicts with thinking; it is left out with a warning.
- Usage may be inside the choice, and `cached_tokens` at the top level of the usage; both are read.
- Call ids have the form `functions.search:0`.
- Images are accepted only as data, not as URLs.
- `strict` is true by default, according to Moonshot's page on tools, and then restricts schemas to the subset
  below. It is not sent; schemas are rewritten to the subset in any case.
- Some programs use `KIMI_API_KEY` for the key of Kimi Code, another service (`https://api.kimi.com/coding`).
  Moonshot refuses that key, so the variable is read last.
- `kimi-k2.5` and `moonshot-v1` were retired on 2026-08-31.
- Schemas are restricted to a subset: each has a type, in the branches of an `anyOf` and not beside it, and
  references point to `$defs`. Schemas are rewritten; constraints that are not supported go into
  descriptions, with a warning.
- The sampling settings of models that think are fixed: temperature, top_p and the penalties are left out
  with a warning.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://platform.kimi.ai/docs/api/chat> (seen 2026-11)
- <https://platform.kimi.ai/docs/api/tool-use> (seen 2026-11)
- <https://github.com/MoonshotAI/walle/blob/main/docs/mfjs-spec.md> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.base import Provider

MOONSHOT = Provider(
    name="moonshot",
    title="Moonshot AI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset(), image_urls=False),
            settings=SettingQuirks(
                # Kimi models that think have fixed sampling settings and refuse others (seen 2026-07).
                unsupported=frozenset(
                    {"top_k", "temperature", "top_p", "presence_penalty", "frequency_penalty"}
                ),
                temperature_range=(0.0, 1.0),
            ),
            tools=ToolQuirks(
                # Kimi thinks by default, and a forced tool conflicts with that.
                choice=frozenset({"auto", "none"}),
                choice_while_thinking=False,
                strict=False,
            ),
            schemas=SchemaQuirks(subset="moonshot"),
            thinking=ThinkingQuirks(style="thinking"),
            # K2 Thinking and K2.7 always think: "only type=enabled is allowed" (seen
            # 2026-06); K3 neither, but takes low, high and max.
            open_model_rules=True,
            by_model=(
                # These do not think, and accept sampling settings.
                ModelQuirks(
                    r"moonshot-v1|kimi-k2-(?:\d{4}|turbo)|kimi-latest",
                    change(SettingQuirks, unsupported=frozenset({"top_k"})),
                ),
                ModelQuirks(r"kimi-k(?:[3-9]|\d\d)", change(ThinkingQuirks, style="effort")),
            ),
            reasoning=ReasoningQuirks(
                # Without it: 400, reasoning_content is missing in assistant tool call message
                # (seen 2026-05, continuedev/continue#11600).
                field="reasoning_content",
                echo="all",
            ),
        )
    ),
    base_url="https://api.moonshot.ai/v1",
    base_url_env=("MOONSHOT_BASE_URL", "MOONSHOTAI_BASE_URL", "MOONSHOT_API_BASE"),
    key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY"),
    aliases=("moonshotai", "kimi", "moonshot-ai"),
    docs="https://platform.kimi.ai/docs/api/chat",
    notes="in China `https://api.moonshot.cn/v1`; reasoning goes back with tool calls",
)
