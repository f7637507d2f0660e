"""`openai` sends a request to the Responses API where Chat Completions would refuse it. `openai-chat` never
does: function tools of gpt-5.4 (with an effort), gpt-5.5, gpt-5.6, gpt-6-sol, gpt-6-luna and gpt-6.1-terra
go with the effort `none` and a warning, those of gpt-6-astra, gpt-6.1-sol and later raise `Unsupported`.

- Address, key and everything else are those of `openai`.

Sources:

- <https://platform.openai.com/docs/api-reference/chat> (seen 2026-11)
- <https://github.com/BerriAI/litellm/issues/34569> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.providers.openai import OPENAI

OPENAI_CHAT = replace(
    OPENAI,
    name="openai-chat",
    title="OpenAI (Chat Completions)",
    wire=None,
    aliases=(),
    notes="Chat Completions whatever the model; `openai` chooses the wire",
)
