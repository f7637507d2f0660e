"""Google's compatibility layer speaks Chat Completions over the Gemini models.

- Tool calls have no index and come complete or in pieces; a stream with calls ends in `stop`
  (googleapis/python-genai#2868) and is reported as tool-calls.
- `extra_content.google.thought_signature` has to come back on the call it came with. It is stored in the
  call's metadata and sent back automatically; it may arrive in a delta that holds nothing else.
- Errors may be a list with one object.
- Thinking is requested by `reasoning_effort`; finer control by `provider_options={"gemini-openai":
  {"extra_body": {"google": {"thinking_config": {...}}}}}`.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://ai.google.dev/gemini-api/docs/openai> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    SettingQuirks,
    ThinkingQuirks,
    change,
)
from llmstream.providers.base import Provider

GEMINI_OPENAI = Provider(
    name="gemini-openai",
    title="Gemini (OpenAI-compatible)",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(
                max_tokens_field="max_tokens",
                # The layer does not know the penalties, and newer models refuse them (seen 2026-07).
                unsupported=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
            ),
            media=MediaQuirks(
                files=False,  # its page lists text, images and audio (seen 2026-11)
            ),
            thinking=ThinkingQuirks(known_efforts=("none", "minimal", "low", "medium", "high")),
            # An effort becomes a level, which Gemini 3 and later cannot do without; the newest refuse
            # minimal, as `model_rules/gemini.py` has it for Google's own wires (seen 2026-11).
            by_model=(
                ModelQuirks(
                    r"gemini-(?:[3-9]|\d\d|flash|pro|omni|robotics)",
                    change(ThinkingQuirks, known_efforts=("minimal", "low", "medium", "high")),
                ),
                ModelQuirks(
                    r"gemini-(?:3\.[789]-flash(?!-lite)|[4-9]|(?:flash|pro)-latest|omni|robotics|3[.\d]*-pro)",
                    change(ThinkingQuirks, known_efforts=("low", "medium", "high")),
                ),
            ),
        )
    ),
    base_url="https://generativelanguage.googleapis.com/v1beta/openai",
    base_url_env=("GEMINI_OPENAI_BASE_URL",),
    key_env=("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENERATIVE_AI_API_KEY"),
    aliases=("google-openai", "gemini-compat"),
    docs="https://ai.google.dev/gemini-api/docs/openai",
    notes="Google's compatibility layer over Gemini; signatures of tool calls are sent back automatically",
)
