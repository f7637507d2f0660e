"""llama.cpp's llama-server."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.address import versioned_host
from llmstream.providers.base import Provider

LLAMACPP = Provider(
    name="llamacpp",
    title="llama.cpp",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            # Both are passed to the template; a named tool becomes auto unasked (server README and
            # langchain-llama-cpp, seen 2026-11).
            reasoning_style="chat-template",
            effort_beside_switch=True,
            open_model_rules=True,
            tool_choice=frozenset({"auto", "none", "required"}),
            # The server takes thoughts back; the model's template picks those it wants (seen 2026-11).
            reasoning_field="reasoning_content",
            echo="all",
        )
    ),
    base_url="http://localhost:8080/v1",
    base_url_env=("LLAMACPP_BASE_URL", "LLAMA_CPP_BASE_URL"),
    normalize=versioned_host,
    key_env=("LLAMACPP_API_KEY", "LLAMA_API_KEY"),
    key_required=False,
    aliases=("llama.cpp", "llama-cpp", "llama-server"),
    docs="https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md",
    hint="Is llama-server running?",
    notes="a server of one's own; tools go by the model's template",
)
"""llama-server, of llama.cpp, serves a model of one's own behind the Chat Completions wire."""
