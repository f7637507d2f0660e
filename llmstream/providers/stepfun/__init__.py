"""StepFun serves its Step models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.base import Provider

STEPFUN = Provider(
    name="stepfun",
    title="StepFun",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            known_efforts=("low", "medium", "high"),
            by_model=(ModelQuirks(r"step-3\.5", {"known_efforts": ("low", "high")}),),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://api.stepfun.com/v1",
    base_url_env=("STEPFUN_BASE_URL", "STEPFUN_API_BASE"),
    key_env=("STEPFUN_API_KEY", "STEP_API_KEY"),
    docs="https://platform.stepfun.com/docs/zh/api-reference/chat/chat-completion-create",
    notes="in China; elsewhere `https://api.stepfun.ai/v1`",
)
"""StepFun serves its Step models."""
