"""Meta serves its Muse models over the Responses API, which Meta recommends: reasoning is sent back
encrypted. Over Chat Completions (`meta-chat`) Meta sends no reasoning. Its earlier Llama API ended on
2026-07-06.

- An example is `meta:muse-spark-1.3`.
- `MODEL_API_KEY` is Meta's own name for the key.
- The models always think. Meta refuses the effort `none`, so `minimal` is sent, with a warning. Efforts are
  `minimal` to `max` (pydantic-ai; litellm lists `max` for muse-wonder only).
- `tool_choice` accepts only `auto`: a forced tool is left out with a warning, and for `none` no tools are
  sent.
- Meta runs `web_search` itself.
- Anthropic's Messages API is also served, at `https://api.meta.ai`, with the key as Bearer:
  `anthropic:MODEL` with `base_url=` and `ANTHROPIC_AUTH_TOKEN`. It refuses `stop_sequences` and `top_k`.

Sources:

- <https://dev.meta.ai/docs> (not read)
- <https://github.com/pydantic/pydantic-ai/tree/main/pydantic_ai_slim/pydantic_ai/providers> (seen 2026-11):
  address, key, efforts, `tool_choice`
- <https://github.com/mozilla-ai/any-llm/tree/main/src/any_llm/providers/meta> (seen 2026-11): address, key,
  the three wires
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.providers.meta_chat import META_CHAT

META = replace(
    META_CHAT,
    name="meta",
    title="Meta Model API",
    dialect=OpenAIResponses(
        Quirks(
            delivery=DeliveryQuirks(background=False),
            reasoning_model_rules=False,
            thinking=ThinkingQuirks(
                encrypted="always",  # Muse always thinks, and reads its reasoning again (seen 2026-11)
                # none is refused, max known (pydantic-ai-slim 2.68.0, seen 2026-11).
                efforts={"none": "minimal"},
            ),
            tools=ToolQuirks(choice=frozenset({"auto"})),
        )
    ),
    aliases=("meta-responses", "muse"),
    docs="https://dev.meta.ai/docs",
    notes="Responses, which Meta prefers; `meta-chat` is Chat Completions. No tool can be forced",
)
