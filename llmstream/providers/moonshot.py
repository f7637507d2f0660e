"""Moonshot AI serves its Kimi models behind the Chat Completions wire.

- In China the address is `https://api.moonshot.cn/v1`.
- `reasoning_content` has to come back on the messages with tool calls; we send it with all of the history.
  `provider_options={"moonshot": {"thinking": {"type": "enabled", "keep": "all"}}}` makes the model use the
  reasoning of earlier turns as well.
- `thinking` and `reasoning_effort` exclude each other (HKUDS/nanobot#3939). Kimi K2.5 and K2.6 are sent
  `thinking{type}`, K3 `reasoning_effort` (`low`, `high`, `max`). K2.7, K3 and K2 Thinking always think;
  `moonshot-v1` and the K2 previews do not.
- A forced `tool_choice` conflicts with thinking; it is left out with a warning.
- Usage may stand inside the choice, and `cached_tokens` at its top level; both are read.
- Call ids look like `functions.search:0`.
- Images as data only, no addresses.
- `strict` is known and true by default, according to its page on tools; it then holds schemas to the subset
  below. We do not send it, and narrow schemas ourselves.
- `KIMI_API_KEY` is for some programs the key of Kimi Code, another service (`https://api.kimi.com/coding`),
  which this one refuses; it is read last.
- `kimi-k2.5` and `moonshot-v1` were retired on 2026-08-31.
- Schemas are a narrow subset: each names its type, in the branches of an `anyOf` and not beside it, and
  references lead to `$defs`. They are rewritten; what cannot be checked goes into descriptions, with a
  warning.
- The sampling of the models that think is fixed: temperature, top_p and the penalties are left out with a
  warning.
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
                # Kimi models that think fix their sampling and refuse other values (seen 2026-07).
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
