"""The daemon's second wire: Chat Completions below `/v1`. `ollama` is the native one, and knows more
(context size, keeping a model loaded).

- The address may be given with or without `/v1`.
- The cloud needs the key; a local daemon needs none.
- Reasoning arrives as `reasoning` and is sent back as that; the model's template picks what it is shown.
- Older daemons put parallel calls all at index 0 and end in `stop` or null; the calls are separated, and
  the finish reason is tool-calls.
- `tool_choice` does nothing: `none` leaves the tools out, a forced one is left out with a warning.
- `reasoning_effort` is passed to the model; `minimal` is sent as `low`, with a warning.
- Images as data only.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.ollama.com/api/openai-compatibility> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.providers.base import Provider, versioned_host
from llmstream.providers.ollama.host import ollama_address


def _versioned(written: str) -> str:
    """OLLAMA_HOST has no path; Chat Completions are below /v1."""
    return versioned_host(ollama_address(written))


OLLAMA_OPENAI = Provider(
    name="ollama-openai",
    title="Ollama (OpenAI-compatible)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset(), image_urls=False),
            settings=SettingQuirks(max_tokens_field="max_tokens"),
            tools=ToolQuirks(
                # Its notes on compatibility list tool_choice as not supported (seen 2026-11).
                choice=frozenset({"auto"}),
                parallel_calls=False,
                strict=False,
            ),
            thinking=ThinkingQuirks(known_efforts=("none", "low", "medium", "high", "max")),
            open_model_rules=True,
            reasoning=ReasoningQuirks(
                # The daemon reads it as `thinking`; the template selects what it needs (seen 2026-11).
                field="reasoning",
                echo="all",
            ),
        )
    ),
    base_url="http://localhost:11434/v1",
    base_url_env=("OLLAMA_HOST", "OLLAMA_BASE_URL", "OLLAMA_API_BASE"),
    normalize=_versioned,
    key_env=("OLLAMA_API_KEY",),
    key_required=False,
    aliases=("ollama-v1", "ollama-compat"),
    docs="https://docs.ollama.com/api/openai-compatibility",
    hint="Is Ollama running? `ollama serve` starts it.",
    notes="the same daemon as `ollama`, another wire",
)
