"""A llamafile is a model and its server in one file to run.

- The server is that of llama.cpp; MODEL may be any name.
- The model's name decides which efforts it has and whether thinking can be turned off:
  `llmstream/model_rules/open_models.py`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://github.com/mozilla-ai/llamafile> (not read)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/llamafile> (seen 2026-11): litellm 1.109.1,
  address, key
- <https://github.com/mozilla-ai/any-llm/tree/main/src/any_llm/providers/llamafile> (seen 2026-11): address
"""

from llmstream.dialects.openai_chat import OpenAIChat, ReasoningQuirks, change, hosted
from llmstream.providers.base import Provider

LLAMAFILE = Provider(
    name="llamafile",
    title="llamafile",
    dialect=OpenAIChat(
        hosted(
            change(
                ReasoningQuirks,
                # The server is llama.cpp's, which accepts reasoning in the history (seen 2026-11).
                echo="all",
            )
        )
    ),
    base_url="http://localhost:8080/v1",
    base_url_env=("LLAMAFILE_BASE_URL", "LLAMAFILE_API_BASE"),
    key_env=("LLAMAFILE_API_KEY",),
    key_required=False,
    docs="https://github.com/mozilla-ai/llamafile",
    hint="Is the llamafile running with --server?",
    notes="a server of your own",
)
