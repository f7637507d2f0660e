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
            # "type: file" is refused; Qwen-Omni takes recordings as URLs, also such as hold the data
            # (pydantic-ai-slim 2.68.0, the page on Qwen-Omni, seen 2026-11).
            files=False,
            audio_urls=True,
            # Qwen3.8 knows low, medium and xhigh beside the switch (its page on deep thinking, seen 2026-11).
            reasoning_style="enable-thinking",
            effort_beside_switch=True,
            open_model_rules=True,
            reasoning_field="reasoning_content",
        )
    ),
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    base_url_env=("DASHSCOPE_BASE_URL", "DASHSCOPE_API_BASE", "QWENCLOUD_API_BASE"),
    key_env=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY", "QWEN_API_KEY", "QWENCLOUD_API_KEY"),
    aliases=("alibaba", "dashscope", "aliyun"),
    docs="https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference",
    notes="newer: `https://WORKSPACE.REGION.maas.aliyuncs.com/compatible-mode/v1`; keys belong to a region",
)
"""Alibaba Cloud serves the Qwen models in its compatible mode."""
