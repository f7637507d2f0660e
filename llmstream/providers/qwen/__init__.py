"""Alibaba Cloud Model Studio (DashScope): the Qwen models."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

QWEN = Provider(
    name="qwen",
    title="Alibaba Cloud Model Studio (Qwen)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            tool_choice=frozenset({"auto", "none", "named"}),
            tool_choice_while_thinking=False,
            reasoning_style="enable-thinking",
            reasoning_field="reasoning_content",
        )
    ),
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    base_url_env=("DASHSCOPE_BASE_URL",),
    key_env=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY", "QWEN_API_KEY"),
    aliases=("alibaba", "dashscope", "aliyun"),
    docs="https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference",
    notes="in China `https://dashscope.aliyuncs.com/compatible-mode/v1`",
)
"""Alibaba Cloud serves the Qwen models in its compatible mode."""
