"""NanoGPT passes requests on to models of many vendors."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

NANO_GPT = Provider(
    name="nano-gpt",
    title="NanoGPT",
    dialect=OpenAIChat(
        hosted(
            open_model_rules=False,
            known_efforts=("none", "minimal", "low", "medium", "high", "xhigh"),
            reasoning_field="reasoning",
        )
    ),
    base_url="https://nano-gpt.com/api/v1",
    base_url_env=("NANOGPT_BASE_URL", "NANO_GPT_BASE_URL"),
    key_env=("NANOGPT_API_KEY", "NANO_GPT_API_KEY"),
    aliases=("nanogpt",),
    docs="https://docs.nano-gpt.com/api-reference/miscellaneous/extended-thinking",
    notes="models of many vendors",
)
"""NanoGPT passes requests on to models of many vendors."""
