"""Z.ai's GLM models."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

ZAI = Provider(
    name="zai",
    title="Z.ai",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
            temperature_range=(0.0, 1.0),
            max_stops=1,
            # Without it a call's arguments come in one piece after minutes of silence (seen 2026-07).
            extra_body={"tool_stream": True},
            tool_choice=frozenset({"auto"}),
            parallel_tool_calls=False,
            strict_tools=False,
            provider_tools=True,
            response_format="json_object",
            reasoning_style="thinking",
            # GLM-5.2 and later know the efforts high and max as well (seen 2026-11).
            by_model=(
                ModelQuirks(
                    r"glm-(?:5\.[2-9]|[6-9])",
                    {
                        "reasoning_style": "thinking-effort",
                        "efforts": {"minimal": "high", "low": "high", "medium": "high", "xhigh": "max"},
                    },
                ),
            ),
            reasoning_field="reasoning_content",
            echo="all",
        )
    ),
    base_url="https://api.z.ai/api/paas/v4",
    base_url_env=("ZAI_BASE_URL",),
    key_env=("ZAI_API_KEY", "Z_AI_API_KEY", "ZHIPUAI_API_KEY", "ZHIPU_API_KEY", "GLM_API_KEY"),
    aliases=("z-ai", "z.ai", "zhipu", "zhipuai", "glm", "bigmodel"),
    docs="https://docs.z.ai/api-reference/llm/chat-completion",
    notes="in China `https://open.bigmodel.cn/api/paas/v4`; the coding plan is at `/api/coding/paas/v4`",
)
"""Z.ai (Zhipu) serves its GLM models behind the Chat Completions wire."""
