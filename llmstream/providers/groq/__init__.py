"""Groq: open models on its own chips."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address import split_address
from llmstream.providers.base import Provider

_EFFORTS = ("minimal", "low", "medium", "high", "xhigh", "max")


def _with_path(address: str) -> str:
    """Groq's own SDK counts its paths from the host; Chat Completions are below /openai/v1."""
    host, path, query = split_address(address)
    return f"{host}{path or '/openai/v1'}{query}"


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
            # "Not yet supported by any of our models" (groq 1.7.0, seen 2026-11).
            unsupported_settings=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
            known_efforts=("none", "low", "medium", "high"),
            open_model_rules=True,
            by_model=(
                # gpt-oss refuses `reasoning_format`; its thoughts come parsed (seen 2026-11).
                ModelQuirks("gpt-oss", {"reasoning_style": "effort"}),
                # Qwen3 knows none and default, 3.8 efforts as well; its high is the model's xhigh.
                ModelQuirks(
                    "qwen",
                    {"known_efforts": None, "efforts": dict.fromkeys(_EFFORTS, "default")},
                ),
                ModelQuirks(
                    r"qwen-?3\.8", {"known_efforts": ("none", "low", "medium", "high"), "efforts": {}}
                ),
                ModelQuirks("allam", {"reasoning_style": "none"}),
            ),
            reasoning_field="reasoning",
            echo="all",
        )
    ),
    base_url="https://api.groq.com/openai/v1",
    base_url_env=("GROQ_BASE_URL", "GROQ_API_BASE"),
    normalize=_with_path,
    key_env=("GROQ_API_KEY",),
    docs="https://console.groq.com/docs/api-reference#chat-create",
    notes="runs some tools itself (`executed_tools`)",
)
"""Groq's cloud."""
