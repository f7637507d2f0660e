"""SGLang serves a model of your own behind the Chat Completions wire.

- An address without a path gets `/v1`.
- Reasoning arrives as `reasoning_content` where the server runs with `--reasoning-parser`, and goes back
  under that name; the model's template picks what the model is shown.
- Thinking is switched by the variable of the model's template, `chat_template_kwargs{enable_thinking}` or
  `{thinking}` by the model's name, with `reasoning_effort` for models that know efforts.
- PDFs and recordings are refused before anything is sent (its protocol has neither `file` nor `input_audio`
  parts), texts go as text.
- Choices carry `matched_stop`, the reason why the answer ended; it is ignored.

Sources:

- <https://docs.sglang.io/docs/basic_usage/openai_api_completions> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OpenAIChat, ReasoningQuirks, ThinkingQuirks, change, hosted
from llmstream.providers.base import Provider, versioned_host

SGLANG = Provider(
    name="sglang",
    title="SGLang",
    dialect=OpenAIChat(
        hosted(
            change(ThinkingQuirks, style="chat-template", effort_beside_switch=True),
            # The server takes reasoning back; the model's template selects what it needs (seen 2026-11).
            change(ReasoningQuirks, echo="all"),
        )
    ),
    base_url="http://localhost:30000/v1",
    base_url_env=("SGLANG_BASE_URL",),
    normalize=versioned_host,
    key_env=("SGLANG_API_KEY",),
    key_required=False,
    docs="https://docs.sglang.io/docs/basic_usage/openai_api_completions",
    hint="Is the server running?",
    notes="a server of your own",
)
