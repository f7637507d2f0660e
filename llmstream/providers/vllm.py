"""vLLM serves a model of your own behind the Chat Completions wire.

- An address without a path gets `/v1`.
- Reasoning was called `reasoning_content` and is now `reasoning` (vllm-project/vllm#27755, #33402); both
  are read. It needs `--reasoning-parser`.
- Usage may be on every chunk (vllm-project/vllm#7262); the last one counts.
- A stream with tool calls may end in `stop`; it is reported as tool-calls. Tools need
  `--enable-auto-tool-choice` and a parser.
- An error inside a stream may be `{"object": "error", "message": ...}` without `error` around it
  (block/goose#8031).
- `top_k` is known.
- Thoughts of the turn go back with its calls, for models that think between them. Ids of calls become nine
  letters and digits for Mistral's models, whose tokenizer refuses others.
- Thinking is switched by the variable of the model's template, `chat_template_kwargs{enable_thinking}` or
  `{thinking}` by the model's name, with `reasoning_effort` for models that know efforts and
  `thinking_token_budget` for a budget. For a name that matches no known model both are sent.
- PDFs are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html> (seen 2026-11)
- <https://docs.vllm.ai/en/latest/features/reasoning_outputs.html> (seen 2026-11)
- <https://docs.vllm.ai/en/latest/features/interleaved_thinking/> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider, versioned_host

VLLM = Provider(
    name="vllm",
    title="vLLM",
    dialect=OpenAIChat(
        hosted(
            # The template's switch, an effort and a budget (its chat_completion/protocol.py, seen 2026-11).
            change(
                ThinkingQuirks,
                style="chat-template",
                effort_beside_switch=True,
                budget_field="thinking_token_budget",
            ),
            # Reasoning between calls goes back with them: its page on interleaved thinking (seen 2026-11).
            change(ReasoningQuirks, field="reasoning", echo="current-turn"),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            # Mistral's tokenizer refuses other ids of calls.
            by_model=(
                ModelQuirks(
                    r"ministral|mistral|mixtral|devstral|magistral", change(ToolQuirks, short_call_ids=True)
                ),
            ),
        )
    ),
    base_url="http://localhost:8000/v1",
    base_url_env=("VLLM_BASE_URL", "VLLM_API_BASE", "HOSTED_VLLM_API_BASE"),
    normalize=versioned_host,
    key_env=("VLLM_API_KEY", "HOSTED_VLLM_API_KEY"),
    key_required=False,
    aliases=("hosted-vllm",),
    docs="https://docs.vllm.ai/en/latest/serving/openai_compatible_server.html",
    hint="Is the server running? `vllm serve MODEL` starts one.",
    notes="a server of your own; `--api-key` makes a key required",
)
