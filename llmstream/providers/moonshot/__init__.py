"""Moonshot AI's Kimi models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

MOONSHOT = Provider(
    name="moonshot",
    title="Moonshot AI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            # Kimi models that think fix their sampling and refuse other values (seen 2026-07).
            unsupported_settings=frozenset(
                {"top_k", "temperature", "top_p", "presence_penalty", "frequency_penalty"}
            ),
            temperature_range=(0.0, 1.0),
            # Kimi thinks unless told otherwise, and a forced tool conflicts with that.
            tool_choice=frozenset({"auto", "none"}),
            tool_choice_while_thinking=False,
            strict_tools=False,
            schema_subset="moonshot",
            image_urls=False,
            reasoning_style="thinking",
            # K2 Thinking and K2.7 cannot be kept from thinking: "only type=enabled is allowed" (seen
            # 2026-06); K3 neither, but takes low, high and max.
            open_model_rules=True,
            by_model=(
                # These do not think, and sample as they are told.
                ModelQuirks(
                    r"moonshot-v1|kimi-k2-(?:\d{4}|turbo)|kimi-latest",
                    {"unsupported_settings": frozenset({"top_k"})},
                ),
                ModelQuirks(r"kimi-k(?:[3-9]|\d\d)", {"reasoning_style": "effort"}),
            ),
            # Without it: 400, reasoning_content is missing in assistant tool call message
            # (seen 2026-05, continuedev/continue#11600).
            reasoning_field="reasoning_content",
            echo="all",
        )
    ),
    base_url="https://api.moonshot.ai/v1",
    base_url_env=("MOONSHOT_BASE_URL", "MOONSHOTAI_BASE_URL", "MOONSHOT_API_BASE"),
    key_env=("MOONSHOT_API_KEY", "MOONSHOTAI_API_KEY", "KIMI_API_KEY"),
    aliases=("moonshotai", "kimi", "moonshot-ai"),
    docs="https://platform.kimi.ai/docs/api/chat",
    notes="in China `https://api.moonshot.cn/v1`; reasoning goes back with tool calls",
)
"""Moonshot AI serves its Kimi models behind the Chat Completions wire."""
