"""StepFun serves its Step models.

- The address is that of the Chinese site; the international one is `https://api.stepfun.ai/v1`, with keys
  of its own.
- step-3.7 takes the efforts low, medium and high, step-3.5 low and high; they always think. Reasoning
  arrives as `reasoning`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.
- models.dev is the only source for efforts.

Sources:

- <https://platform.stepfun.com/docs/zh/api-reference/chat/chat-completion-create> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/stepfun/provider.toml> (seen 2026-11):
  address, key, efforts; cites the vendor's reference
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

STEPFUN = Provider(
    name="stepfun",
    title="StepFun",
    dialect=OpenAIChat(
        hosted(
            # They always think; step-3.5 knows low and high only (models.dev, seen 2026-11).
            change(ThinkingQuirks, known_efforts=("low", "medium", "high")),
            change(ReasoningQuirks, field="reasoning"),
            change(Quirks, open_model_rules=False),
            by_model=(ModelQuirks(r"step-3\.5", change(ThinkingQuirks, known_efforts=("low", "high"))),),
        )
    ),
    base_url="https://api.stepfun.com/v1",
    base_url_env=("STEPFUN_BASE_URL", "STEPFUN_API_BASE"),
    key_env=("STEPFUN_API_KEY", "STEP_API_KEY"),
    docs="https://platform.stepfun.com/docs/zh/api-reference/chat/chat-completion-create",
    notes="in China; elsewhere `https://api.stepfun.ai/v1`",
)
