"""OpenCode Zen serves models that were tried with coding agents."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

OPENCODE = Provider(
    name="opencode",
    title="OpenCode Zen",
    dialect=OpenAIChat(hosted()),
    base_url="https://opencode.ai/zen/v1",
    base_url_env=("OPENCODE_BASE_URL",),
    key_env=("OPENCODE_API_KEY",),
    aliases=("opencode-zen",),
    docs="https://opencode.ai/docs/zen",
    notes="open models; GPT by `opencode-responses`, Claude by `opencode-anthropic`",
)
"""OpenCode Zen serves models that were tried with coding agents."""
