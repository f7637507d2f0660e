"""SiliconFlow hosts open models.

- In China the address is `https://api.siliconflow.cn/v1`, with another account.
- Hybrid models are switched by `enable_thinking`, a budget goes as `thinking_budget` (128 to 32768). Models
  that always think get neither, with a warning; `provider_options={"siliconflow": {"thinking_budget":
  4096}}` sends a budget.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.siliconflow.com/en/api-reference/chat-completions/chat-completions> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/siliconflow/provider.toml> (seen 2026-11):
  address, key, `enable_thinking`, `thinking_budget`; cites the vendor's reference
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider

SILICONFLOW = Provider(
    name="siliconflow",
    title="SiliconFlow",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="enable-thinking"),
            # Models that always think refuse the switch; their budget is `thinking_budget` alone.
            by_model=(
                ModelQuirks(
                    r"gpt-oss|deepseek-r1|qwq|thinking|minimax|step|kimi-k3|glm-5\.[3-9]",
                    change(ThinkingQuirks, style="none", always=True),
                ),
            ),
        )
    ),
    base_url="https://api.siliconflow.com/v1",
    base_url_env=("SILICONFLOW_BASE_URL", "SILICONFLOW_API_BASE"),
    key_env=("SILICONFLOW_API_KEY",),
    aliases=("silicon-flow",),
    docs="https://docs.siliconflow.com/en/api-reference/chat-completions/chat-completions",
    notes="in China `https://api.siliconflow.cn/v1`, with its own keys",
)
