"""Nebius Token Factory, formerly AI Studio, hosts open models behind the Chat Completions wire.

- The address of its days as AI Studio, `https://api.studio.nebius.com/v1`, still exists.
- No difference beyond `max_tokens` and the role `system` is known.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://docs.tokenfactory.nebius.com/api-reference/introduction> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OPENAI_AUDIO, MediaQuirks, OpenAIChat, change, hosted
from llmstream.providers.base import Provider

NEBIUS = Provider(
    name="nebius",
    title="Nebius Token Factory",
    dialect=OpenAIChat(hosted(change(MediaQuirks, audio_formats=OPENAI_AUDIO))),
    base_url="https://api.tokenfactory.nebius.com/v1",
    base_url_env=("NEBIUS_BASE_URL", "NEBIUS_API_BASE"),
    key_env=("NEBIUS_API_KEY",),
    docs="https://docs.tokenfactory.nebius.com/api-reference/introduction",
    notes="formerly AI Studio, at `https://api.studio.nebius.com/v1`",
)
