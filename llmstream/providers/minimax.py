"""MiniMax serves its own models over Chat Completions.

- In China the address is `https://api.minimaxi.com/v1`.
- The chunk with the usage has a choice without a delta.
- Reasoning arrives in the text between `<think>` tags, is separated from it, and is sent back between such
  tags: the models answer worse without it. With `reasoning_split: true` in `provider_options`, MiniMax
  separates it.
- For M3, `thinking{type}` is `adaptive` or `disabled`; if nothing is requested, the model decides. M2 always
  thinks. There are no efforts.
- M3 accepts images.
- There is no response format: a schema goes into the prompt. The temperature must be above 0 and at most 1;
  for any other, the nearest valid one is sent, with a warning.
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
                # M3 decides by itself by default, M2 always thinks (platform.minimax.io, seen
                # 2026-11).
                style="thinking",
                on="adaptive",
            ),
            open_model_rules=True,
            by_model=(ModelQuirks(r"minimax-m[12]", change(ThinkingQuirks, style="none")),),
            reasoning=ReasoningQuirks(
                tags="tags",
                # Its models answer worse if their reasoning is not sent back in place (seen 2026-07).
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
