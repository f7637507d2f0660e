"""Together hosts open models behind the Chat Completions wire.

- A missing `/v1` is added to the address: Together's own SDK leaves it out.
- Reasoning arrives as `reasoning` or as `reasoning_content`, depending on the model; both are read.
- An empty `tool_calls` list in an assistant message is refused. We never write one.
- Models that think or not are switched by `reasoning{enabled}`, and take no effort; gpt-oss takes `low` to
  `high`, DeepSeek V4 Pro `high` and `max`, GLM-5.3 `low` to `max`. The efforts of each model are in
  `llmstream/model_rules/open_models.py`.
- The address `https://api.together.xyz/v1` leads to the same service.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.
- `max_tokens` is the field for the length of an answer, and `top_k` is known.

Sources:

- <https://docs.together.ai/reference/chat-completions-1> (seen 2026-11)
- <https://docs.together.ai/docs/openai-api-compatibility> (seen 2026-11)
- <https://docs.together.ai/docs/inference/chat/reasoning> (seen 2026-11)
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
from llmstream.providers.base import Provider, versioned

TOGETHER = Provider(
    name="together",
    title="Together AI",
    dialect=OpenAIChat(
        hosted(
            # Its guide to reasoning (seen 2026-11): hybrid models by `reasoning{enabled}`, gpt-oss by
            # effort, some by both; GLM-5.3 also knows medium (its quickstart).
            change(ThinkingQuirks, style="enabled", effort_beside_switch=True),
            change(ReasoningQuirks, field="reasoning"),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            by_model=(
                ModelQuirks("deepseek-v4", change(ThinkingQuirks, known_efforts=("none", "high", "max"))),
                ModelQuirks(
                    r"glm-5\.3", change(ThinkingQuirks, known_efforts=("low", "medium", "high", "max"))
                ),
            ),
        )
    ),
    base_url="https://api.together.ai/v1",
    base_url_env=("TOGETHER_BASE_URL", "TOGETHER_API_BASE", "TOGETHER_AI_API_BASE"),
    normalize=versioned,
    key_env=("TOGETHER_API_KEY", "TOGETHER_AI_API_KEY", "TOGETHERAI_API_KEY", "TOGETHER_AI_TOKEN"),
    aliases=("togetherai", "together-ai"),
    docs="https://docs.together.ai/reference/chat-completions-1",
    notes="open models; reasoning in `reasoning` or `reasoning_content`",
)
