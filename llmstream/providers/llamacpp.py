"""llama-server, of llama.cpp, serves a model on your own machine over Chat Completions.

- An address without a path gets `/v1`.
- The last chunk has no choices, but usage and `timings`; the latter are in the raw payload.
- For a prompt that exceeds the context, the server sends the error `exceed_context_size_error` with `n_ctx`;
  it is reported as `ContextTooLong`.
- Tools depend on the model's template (`--jinja`, which is on by default; older servers answer 500 without
  it). The server treats a named tool as `auto`, so only that tool is sent, with `required`.
- A variable of the model's template switches thinking: `chat_template_kwargs{enable_thinking}` or
  `{thinking}`, by the model's name; `reasoning_effort` is added for models with efforts.
- Reasoning arrives as `reasoning_content` and is sent back under that name; the model's template selects
  what the model sees. The server has one model, so MODEL may be any name.
- PDFs are refused before anything is sent; text documents are sent as text.

Sources:

- <https://github.com/ggml-org/llama.cpp/blob/master/tools/server/README.md> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider, versioned_host

LLAMACPP = Provider(
    name="llamacpp",
    title="llama.cpp",
    dialect=OpenAIChat(
        hosted(
            # Both are passed to the template; a named tool silently becomes auto (server README and
            # langchain-llama-cpp, seen 2026-11).
            change(ThinkingQuirks, style="chat-template", effort_beside_switch=True),
            change(ToolQuirks, choice=frozenset({"auto", "none", "required"})),
            # The server takes reasoning back; the model's template selects what it needs (seen 2026-11).
            change(ReasoningQuirks, echo="all"),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
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
    notes="a server of your own; tools depend on the model's template",
)
