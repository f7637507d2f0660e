"""Groq: open models on its own chips."""

from urllib.parse import urlsplit

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider


def _with_path(address: str) -> str:
    """Groq's own SDK counts its paths from the host; Chat Completions are below /openai/v1."""
    base = address.strip().rstrip("/")
    whole = base if "://" in base else f"https://{base}"
    return f"{whole}/openai/v1" if urlsplit(whole).path == "" and "?" not in whole else base


GROQ = Provider(
    name="groq",
    title="Groq",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            provider_tools=True,
            reasoning_style="groq",
            # gpt-oss knows low to high, Qwen none and default (seen 2026-07).
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
            reasoning_field="reasoning",
            echo="all",
        )
    ),
    base_url="https://api.groq.com/openai/v1",
    base_url_env=("GROQ_BASE_URL",),
    normalize=_with_path,
    key_env=("GROQ_API_KEY",),
    docs="https://console.groq.com/docs/api-reference#chat-create",
    notes="runs some tools itself (`executed_tools`)",
)
"""Groq's cloud."""
