"""MiniMax serves its own models behind the Chat Completions wire.

- In China the address is `https://api.minimaxi.com/v1`.
- The chunk with usage holds a choice without a delta.
- Reasoning comes between `<think>` tags in the text, which are split off, and is sent back between them:
  the models work worse without it. `reasoning_split: true` by `provider_options` makes the vendor separate
  it.
- `thinking{type}` is `adaptive` or `disabled` for M3, which decides by itself where nothing is requested;
  M2 always thinks. An effort cannot be given.
- M3 sees images.
- There is no response format: a schema goes into the prompt. A temperature of 0 is refused, and one above
  1; the nearest that is taken is sent, with a warning.
- `max_tokens` is deprecated in favour of `max_completion_tokens`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://platform.minimax.io/docs/api-reference/text-openai-api> (seen 2026-11)
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

MINIMAX = Provider(
    name="minimax",
    title="MiniMax",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            settings=SettingQuirks(
                unsupported=frozenset({"top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}),
                temperature_range=(0.01, 1.0),  # 0 is refused (seen 2026-07)
            ),
            tools=ToolQuirks(parallel_calls=False, strict=False),
            # There is no response format (platform.minimax.io, seen 2026-11).
            schemas=SchemaQuirks(output="none"),
            thinking=ThinkingQuirks(
                # M3 thinks as it sees fit by default, M2 always (platform.minimax.io, seen
                # 2026-11).
                style="thinking",
                on="adaptive",
            ),
            open_model_rules=True,
            by_model=(ModelQuirks(r"minimax-m[12]", change(ThinkingQuirks, style="none")),),
            reasoning=ReasoningQuirks(
                tags="tags",
                # Its models work worse when their thoughts do not come back where they stood (seen 2026-07).
                field="think-tags",
                echo="all",
            ),
        )
    ),
    base_url="https://api.minimax.io/v1",
    base_url_env=("MINIMAX_BASE_URL", "MINIMAX_API_BASE"),
    key_env=("MINIMAX_API_KEY",),
    aliases=("mini-max",),
    docs="https://platform.minimax.io/docs/api-reference/text-openai-api",
    notes="in China `https://api.minimaxi.com/v1`; no response format",
)
