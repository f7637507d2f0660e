"""Weights & Biases hosts open models on CoreWeave."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

WANDB = Provider(
    name="wandb",
    title="W&B Inference",
    dialect=OpenAIChat(
        hosted(
            reasoning_style="chat-template",
            # Its page on reasoning (seen 2026-11): the switch has one name, Kimi K2.5 to K2.7 always think.
            by_model=(
                ModelQuirks("", {"template_switch": "enable_thinking", "switch_values": (False, True)}),
                ModelQuirks(r"kimi-k2[.p]", {"always_thinks": True, "known_efforts": ()}),
            ),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.inference.wandb.ai/v1",
    base_url_env=("WANDB_INFERENCE_BASE_URL", "WANDB_API_BASE"),
    key_env=("WANDB_API_KEY",),
    aliases=("weights-and-biases",),
    docs="https://docs.wandb.ai/inference/response-settings/reasoning",
    notes="open models; the header `openai-project: TEAM/PROJECT` says who is billed",
)
"""Weights & Biases hosts open models on CoreWeave."""
