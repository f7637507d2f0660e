"""Doubleword hosts open models behind the Chat Completions wire.

- `max_tokens`, and the role `system`.
- Reasoning is sent back as `reasoning_content` with the calls that it led to.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://docs.doubleword.ai/> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    OpenAIChat,
    ReasoningQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

DOUBLEWORD = Provider(
    name="doubleword",
    title="Doubleword",
    dialect=OpenAIChat(
        hosted(
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            # Accepted with the calls it led to in recorded traffic (2026-07); not documented.
            change(ReasoningQuirks, echo="current-turn"),
        )
    ),
    base_url="https://api.doubleword.ai/v1",
    base_url_env=("DOUBLEWORD_BASE_URL",),
    key_env=("DOUBLEWORD_API_KEY",),
    docs="https://docs.doubleword.ai/",
    notes="open models, hosted",
)
