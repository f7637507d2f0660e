"""Baseten hosts open models behind the Chat Completions wire.

- A deployment of your own has its own address.
- `chat_template_args{enable_thinking}` switches thinking on; DeepSeek V4 and gpt-oss take an effort.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.
- No other difference beyond `max_tokens` and the role `system` is known.

Sources:

- <https://docs.baseten.co/inference/model-apis/overview> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

BASETEN = Provider(
    name="baseten",
    title="Baseten",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Models think if `chat_template_args{enable_thinking}` is true; DeepSeek V4 takes an
                # effort, up to xhigh (anomalyco/models.dev#2861, charmbracelet/catwalk#407, seen 2026-11).
                style="chat-template",
                template_field="chat_template_args",
            ),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            by_model=(
                ModelQuirks(
                    # Here the switch has one name, whatever the models' own templates call it.
                    "kimi|deepseek|minimax",
                    change(ThinkingQuirks, switch="enable_thinking", switch_values=(False, True)),
                ),
                ModelQuirks(
                    "deepseek-v4",
                    change(
                        ThinkingQuirks,
                        style="effort",
                        known_efforts=("none", "low", "medium", "high", "xhigh"),
                    ),
                ),
            ),
        )
    ),
    base_url="https://inference.baseten.co/v1",
    base_url_env=("BASETEN_BASE_URL", "BASETEN_API_BASE"),
    key_env=("BASETEN_API_KEY",),
    docs="https://docs.baseten.co/inference/model-apis/overview",
    notes="your own deployments have their own address",
)
