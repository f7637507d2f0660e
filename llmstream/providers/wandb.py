"""Weights & Biases hosts open models on CoreWeave.

- Hybrid models are switched by `chat_template_kwargs.enable_thinking`, whatever their own templates call
  it; MiniMax, Kimi K2.5 to K2.7 and gpt-oss always think. Reasoning arrives as `reasoning`.
- `WANDB_BASE_URL` is the address of the tracking server and not read. The header `openai-project:
  TEAM/PROJECT`, given by `headers=`, names the project that is billed.
- The model's name decides which efforts it knows and whether thinking can be switched off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://github.com/anomalyco/models.dev/blob/dev/providers/wandb/provider.toml> (seen 2026-11): address,
  key, thinking; cites the page on reasoning
- <https://docs.wandb.ai/inference/response-settings/reasoning> (seen 2026-11)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/wandb> (seen 2026-11): litellm 1.109.1, key,
  `max_tokens`
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

WANDB = Provider(
    name="wandb",
    title="W&B Inference",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="chat-template"),
            change(ReasoningQuirks, field="reasoning"),
            # Its page on reasoning (seen 2026-11): the switch has one name, Kimi K2.5 to K2.7 always think.
            by_model=(
                ModelQuirks(
                    "", change(ThinkingQuirks, switch="enable_thinking", switch_values=(False, True))
                ),
                ModelQuirks(r"kimi-k2[.p]", change(ThinkingQuirks, always=True, known_efforts=())),
            ),
        )
    ),
    base_url="https://api.inference.wandb.ai/v1",
    base_url_env=("WANDB_INFERENCE_BASE_URL", "WANDB_API_BASE"),
    key_env=("WANDB_API_KEY",),
    aliases=("weights-and-biases",),
    docs="https://docs.wandb.ai/inference/response-settings/reasoning",
    notes="open models; the header `openai-project: TEAM/PROJECT` names who is billed",
)
