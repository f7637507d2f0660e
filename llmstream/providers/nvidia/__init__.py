"""NVIDIA NIM: hosted, or on machines of one's own."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address import versioned
from llmstream.providers.base import Provider

NVIDIA = Provider(
    name="nvidia",
    title="NVIDIA NIM",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            files=False,
            # Model pages of build.nvidia.com (seen 2026-11): a switch of the template; DeepSeek V4 and
            # gpt-oss take an effort. Older Nemotrons are told by the system prompt.
            reasoning_style="chat-template",
            effort_beside_switch=True,
            open_model_rules=True,
            # "vlm endpoints do not accept standard stream_options" (langchain-nvidia-ai-endpoints, seen
            # 2026-11); the others take them.
            by_model=(
                ModelQuirks(
                    r"vlm|vision|vila|fuyu|neva|kosmos|paligemma|deplot|-vl\b", {"stream_options": False}
                ),
            ),
            reasoning_field="reasoning_content",
        )
    ),
    base_url="https://integrate.api.nvidia.com/v1",
    base_url_env=("NVIDIA_BASE_URL", "NVIDIA_NIM_API_BASE"),
    normalize=versioned,
    key_env=("NVIDIA_API_KEY", "NVIDIA_NIM_API_KEY", "NIM_API_KEY"),
    aliases=("nim", "nvidia-nim"),
    docs="https://docs.api.nvidia.com/nim/reference/llm-apis",
    notes="hosted, or a NIM of one's own",
)
"""NVIDIA NIM serves open models, at NVIDIA or on machines of one's own."""
