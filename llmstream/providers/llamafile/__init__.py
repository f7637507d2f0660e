"""A llamafile is a model and its server in one file to run."""

from llmstream.dialects.openai_chat import OpenAIChat, hosted
from llmstream.providers.base import Provider

LLAMAFILE = Provider(
    name="llamafile",
    title="llamafile",
    dialect=OpenAIChat(
        hosted(
            # The server is llama.cpp's, which takes thoughts back (seen 2026-11).
            echo="all",
        )
    ),
    base_url="http://localhost:8080/v1",
    base_url_env=("LLAMAFILE_BASE_URL", "LLAMAFILE_API_BASE"),
    key_env=("LLAMAFILE_API_KEY",),
    key_required=False,
    docs="https://github.com/mozilla-ai/llamafile",
    hint="Is the llamafile running with --server?",
    notes="a server of one's own",
)
"""A llamafile is a model and its server in one file to run."""
