"""NanoGPT passes requests on to models of many vendors.

- Efforts are none to xhigh for every model. Suffixes of a model's name (`:thinking`, for Claude `:8192`)
  ask for thinking too.
- Reasoning arrives as `reasoning`; the address `/api/v1legacy` has it as `reasoning_content`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.nano-gpt.com/api-reference/miscellaneous/extended-thinking> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/nano-gpt/provider.toml> (seen 2026-11):
  address, key, efforts; cites the vendor's pages
- <https://github.com/BerriAI/litellm/blob/main/litellm/llms/openai_like/providers.json> (seen 2026-11):
  address, key, `max_tokens`
"""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks, ReasoningQuirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

NANO_GPT = Provider(
    name="nano-gpt",
    title="NanoGPT",
    dialect=OpenAIChat(
        hosted(
            # The same for every model (models.dev, which cites the vendor's pages, seen 2026-11).
            change(ThinkingQuirks, known_efforts=("none", "minimal", "low", "medium", "high", "xhigh")),
            change(ReasoningQuirks, field="reasoning"),
            change(Quirks, open_model_rules=False),
        )
    ),
    base_url="https://nano-gpt.com/api/v1",
    base_url_env=("NANOGPT_BASE_URL", "NANO_GPT_BASE_URL"),
    key_env=("NANOGPT_API_KEY", "NANO_GPT_API_KEY"),
    aliases=("nanogpt",),
    docs="https://docs.nano-gpt.com/api-reference/miscellaneous/extended-thinking",
    notes="models of many vendors",
)
