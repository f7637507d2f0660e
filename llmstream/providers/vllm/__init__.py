"""vLLM's server."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address import versioned_host
from llmstream.providers.base import Provider

VLLM = Provider(
    name="vllm",
    title="vLLM",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset(),
            max_stops=None,
            # The template's switch, an effort and a budget (its chat_completion/protocol.py, seen 2026-11).
            reasoning_style="chat-template",
            effort_beside_switch=True,
            budget_field="thinking_token_budget",
            open_model_rules=True,
            # Thoughts between calls go back with them: its page on interleaved thinking (seen 2026-11).
            reasoning_field="reasoning",
            echo="current-turn",
            # Mistral's tokenizer refuses other ids of calls.
            by_model=(
                ModelQuirks(r"ministral|mistral|mixtral|devstral|magistral", {"short_call_ids": True}),
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
    notes="a server of one's own; `--api-key` makes it ask for one",
)
"""vLLM serves a model of one's own behind the Chat Completions wire."""
