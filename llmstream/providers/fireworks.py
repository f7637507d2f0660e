"""Fireworks hosts open models behind the Chat Completions wire.

- The path of the address may be missing, as in Fireworks' own SDK.
- Reasoning arrives as `reasoning_content`; some models leave it in the text between `<think>` tags, which
  are split off.
- `reasoning_effort` is `none` or `low` to `high`, for some models also `max`. gpt-oss, MiniMax-M2 and
  GLM-5.3 refuse `none`: the lowest is sent in its place. The efforts of each model are in
  `llmstream/model_rules/open_models.py`; an unknown one is replaced by the next higher, with a warning.
- A budget for thinking is sent as `thinking{type, budget_tokens}`; beside an effort it is left out, with a
  warning.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.
- `top_k` is supported; the limit of an answer's length is `max_tokens`.

Sources:

- <https://docs.fireworks.ai/api-reference/post-chatcompletions> (seen 2026-11)
- <https://docs.fireworks.ai/guides/reasoning> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider, split_address, versioned


def _with_path(address: str) -> str:
    """Its SDK adds /v1 to the address of inference, and counts the paths of training from the host."""
    host, path, query = split_address(address)
    if host.rpartition("://")[2] == "api.fireworks.ai" and not path:
        path = "/inference"
    return versioned(f"{host}{path}{query}")


FIREWORKS = Provider(
    name="fireworks",
    title="Fireworks AI",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Refuses the efforts minimal and xhigh (seen 2026-07); `none` where a model always thinks
                # (seen 2026-11, fireworks-ai 1.2.30). Kimi K3's thinking can be switched off here
                # (models.dev, tried 2026-07).
                known_efforts=("none", "low", "medium", "high"),
                # A budget stands in `thinking`, which excludes an effort (seen 2026-07).
                style="effort-or-budget",
            ),
            change(ReasoningQuirks, tags="tags"),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            by_model=(
                ModelQuirks(
                    "kimi-k3",
                    change(
                        ThinkingQuirks, always=False, known_efforts=("none", "low", "medium", "high", "max")
                    ),
                ),
            ),
        )
    ),
    base_url="https://api.fireworks.ai/inference/v1",
    base_url_env=("FIREWORKS_BASE_URL", "FIREWORKS_API_BASE", "FIREWORKS_AI_API_BASE"),
    normalize=_with_path,
    key_env=("FIREWORKS_API_KEY", "FIREWORKS_AI_API_KEY", "FIREWORKSAI_API_KEY", "FIREWORKS_AI_TOKEN"),
    aliases=("fireworks-ai", "fireworksai"),
    docs="https://docs.fireworks.ai/api-reference/post-chatcompletions",
    notes="models are named `accounts/fireworks/models/...`",
)
