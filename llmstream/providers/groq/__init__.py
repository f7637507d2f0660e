"""Groq: open models on its own chips."""

from urllib.parse import urlsplit

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
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
            files=False,
            audio_formats=frozenset(),
            provider_tools=True,
            reasoning_style="groq",
            efforts={"minimal": "low", "xhigh": "high", "max": "high"},
            by_model=(
                # gpt-oss knows low to high and refuses `reasoning_format`; its thoughts come parsed.
                # Qwen knows none and default; the others do not think (seen 2026-11).
                ModelQuirks(
                    "gpt-oss",
                    {
                        "reasoning_style": "effort",
                        "efforts": {"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
                    },
                ),
                ModelQuirks(
                    "qwen",
                    {
                        "efforts": dict.fromkeys(
                            ("minimal", "low", "medium", "high", "xhigh", "max"), "default"
                        )
                    },
                ),
                ModelQuirks(r"llama|gemma|kimi-k2-instruct|allam", {"reasoning_style": "none"}),
            ),
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
