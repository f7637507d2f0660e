"""Groq hosts open models on its own chips behind the Chat Completions wire.

- The path of the address may be missing, as in Groq's own SDK.
- Usage is in `x_groq.usage` of the chunk with the finish reason, sometimes again at the top level and in a
  chunk of its own; the last one counts, nothing is added up.
- An error may be a string in `x_groq.error`, or an SSE event `error`.
- Reasoning arrives as `reasoning` where `reasoning_format` is `parsed`, which we ask for together with an
  effort; it goes back under the same name. gpt-oss always sends it this way and refuses `reasoning_format`.
  Qwen3 has the efforts `none` and `default`, Qwen3.8 also `low` to `high` (`high` is the model's
  `xhigh`), gpt-oss `low` to `high`, Llama none.
- The penalties are "not yet supported by any of our models" (Groq's SDK 1.7.0); they are left out with a
  warning.
- Sources differ on schemas with streaming: LiteLLM requests the complete answer, pydantic-ai streams it,
  and so do we (seen 2026-11).
- `executed_tools` are tools that Groq ran; they become calls and results marked as the vendor's.
- The error `tool_use_failed`, as a 400 or inside a stream, holds in `failed_generation` what the model
  wrote instead of a valid call. The error's message includes it.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://console.groq.com/docs/api-reference#chat-create> (seen 2026-11)
- <https://console.groq.com/docs/reasoning> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.base import Provider, split_address

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
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            # Tools that Groq runs itself may be listed among the caller's.
            tools=ToolQuirks(provider_tools=True),
            thinking=ThinkingQuirks(style="groq", known_efforts=("none", "low", "medium", "high")),
            settings=SettingQuirks(
                # "Not yet supported by any of our models" (groq 1.7.0, seen 2026-11).
                unsupported=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
            ),
            open_model_rules=True,
            by_model=(
                # gpt-oss refuses `reasoning_format`; its thoughts come parsed (seen 2026-11).
                ModelQuirks("gpt-oss", change(ThinkingQuirks, style="effort")),
                # Qwen3 knows none and default, 3.8 efforts as well; its high is the model's xhigh.
                ModelQuirks(
                    "qwen",
                    change(ThinkingQuirks, known_efforts=None, efforts=dict.fromkeys(_EFFORTS, "default")),
                ),
                ModelQuirks(
                    r"qwen-?3\.8",
                    change(ThinkingQuirks, known_efforts=("none", "low", "medium", "high"), efforts={}),
                ),
                ModelQuirks("allam", change(ThinkingQuirks, style="none")),
            ),
            # With `reasoning_format` parsed (console.groq.com/docs/reasoning, seen 2026-11).
            reasoning=ReasoningQuirks(field="reasoning", echo="all"),
        )
    ),
    base_url="https://api.groq.com/openai/v1",
    base_url_env=("GROQ_BASE_URL", "GROQ_API_BASE"),
    normalize=_with_path,
    key_env=("GROQ_API_KEY",),
    docs="https://console.groq.com/docs/api-reference#chat-create",
    cached_input_is_free=True,  # console.groq.com/docs/rate-limits: cached tokens do not count
    notes="runs some tools itself (`executed_tools`)",
)
