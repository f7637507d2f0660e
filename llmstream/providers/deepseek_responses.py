"""DeepSeek's Responses API.

- An example is `deepseek-responses:deepseek-v4-pro`.
- Address and key are those of `deepseek`.
- Answers can be held to a JSON schema, which Chat Completions refuse there.
- A call is joined with the item beside it, so an answer's calls go back together behind its texts.
- Reasoning is plain text, sent back unchanged. Efforts are low, high and max; others become these, with a
  warning.
- The models think by default, and refuse a forced tool while they do: ask for effort `none` beside it.

Sources:

- <https://api-docs.deepseek.com/guides/responses_api> (not read)
- <https://github.com/pydantic/pydantic-ai/tree/main/pydantic_ai_slim/pydantic_ai/providers> (seen 2026-11):
  deepseek.py, which cites the guide: schemas, calls, efforts
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    InputQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.providers.deepseek import DEEPSEEK

DEEPSEEK_RESPONSES = replace(
    DEEPSEEK,
    name="deepseek-responses",
    title="DeepSeek (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            thinking=ThinkingQuirks(
                # Reasoning is plain text, sent back unchanged (pydantic-ai deepseek.py, seen 2026-11).
                encrypted="never",
                plain=True,
                # Its guide to the thinking mode (seen 2026-11): low, high and max, other words become these.
                efforts={"minimal": "low", "medium": "high", "xhigh": "high"},
            ),
            input=InputQuirks(
                system_role="system",
                # Its guide to this wire: a call is joined with the item beside it (seen 2026-11).
                calls_last=True,
            ),
            reasoning_model_rules=False,
            tools=ToolQuirks(strict=False, provider_tools=False),
            delivery=DeliveryQuirks(background=False),
        )
    ),
    aliases=(),
    docs="https://api-docs.deepseek.com/guides/responses_api",
    notes="unlike `deepseek` it holds answers to a JSON schema",
)
