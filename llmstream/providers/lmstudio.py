"""LM Studio serves models on your own machine over Chat Completions.

- An address without a path gets `/v1`.
- For a prompt that exceeds the context, the server sends a 200 with `event: error`, or an empty stream
  (lmstudio-ai/lmstudio-bug-tracker#2339, #2322); the latter is reported as `IncompleteStream`.
- Images are accepted only as data, not as URLs.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://lmstudio.ai/docs/developer/openai-compat> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import MediaQuirks, OpenAIChat, Quirks, change, hosted
from llmstream.providers.base import Provider, versioned_host

LMSTUDIO = Provider(
    name="lmstudio",
    title="LM Studio",
    dialect=OpenAIChat(hosted(change(MediaQuirks, image_urls=False), change(Quirks, open_model_rules=False))),
    base_url="http://localhost:1234/v1",
    base_url_env=("LMSTUDIO_BASE_URL", "LM_STUDIO_BASE_URL", "LM_STUDIO_API_BASE"),
    normalize=versioned_host,
    key_env=("LMSTUDIO_API_KEY", "LM_STUDIO_API_KEY", "LM_API_TOKEN"),
    key_required=False,
    aliases=("lm-studio",),
    docs="https://lmstudio.ai/docs/developer/openai-compat",
    hint="Is the server of LM Studio running? `lms server start` starts it.",
    notes="a server of your own; an overflow may look like an empty answer",
)
