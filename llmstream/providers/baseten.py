"""Baseten hosts open models behind the Chat Completions wire.

- A deployment of your own has its own address.
- `chat_template_args{enable_thinking}` switches thinking on; DeepSeek V4 and gpt-oss take an effort.
- PDFs are refused before anything is sent, because no page documents them; text documents go as text.
- No other difference beyond `max_tokens` and the role `system` is known.

Sources:

- <https://docs.baseten.co/inference/model-apis/overview> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

BASETEN = Provider(
    name="baseten",
    title="Baseten",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            files=False,
            # Models think when `chat_template_args{enable_thinking}` says so; DeepSeek V4 takes an effort, up
            # to xhigh (anomalyco/models.dev#2861, charmbracelet/catwalk#407, seen 2026-11).
            reasoning_style="chat-template",
            template_field="chat_template_args",
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    "kimi|deepseek|minimax",
                    {"template_switch": "enable_thinking", "switch_values": (False, True)},
                ),
                ModelQuirks(
                    "deepseek-v4",
                    {
                        "reasoning_style": "effort",
                        "known_efforts": ("none", "low", "medium", "high", "xhigh"),
                    },
                ),
            ),
            reasoning_field="reasoning_content",
        )
    ),
    base_url="https://inference.baseten.co/v1",
    base_url_env=("BASETEN_BASE_URL", "BASETEN_API_BASE"),
    key_env=("BASETEN_API_KEY",),
    docs="https://docs.baseten.co/inference/model-apis/overview",
    notes="deployments of one's own have their own address",
)
