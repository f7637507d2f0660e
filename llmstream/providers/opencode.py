"""OpenCode Zen serves models that were tried with coding agents.

- GPT is served on the Responses wire alone (`opencode-responses`), Claude and some Qwen on Anthropic's
  (`opencode-anthropic`), the others here.
- The plan OpenCode Go has the address `https://opencode.ai/zen/go/v1` (models.dev); litellm 1.109.1 has
  `https://opencode.ai/inference/go/openai/v1`.
- How to request thinking is not documented; `reasoning_effort` is sent.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://opencode.ai/docs/zen> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/opencode/provider.toml> (seen 2026-11):
  address, key, which models on which wire; cites the page of Zen
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/opencode> (seen 2026-11): litellm 1.109.1, the
  addresses of Go
"""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

OPENCODE = Provider(
    name="opencode",
    title="OpenCode Zen",
    dialect=OpenAIChat(hosted()),
    base_url="https://opencode.ai/zen/v1",
    base_url_env=("OPENCODE_BASE_URL",),
    key_env=("OPENCODE_API_KEY",),
    aliases=("opencode-zen",),
    docs="https://opencode.ai/docs/zen",
    notes="open models; GPT by `opencode-responses`, Claude by `opencode-anthropic`",
)
