"""DeepSeek's own API."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.base import Provider

DEEPSEEK = Provider(
    name="deepseek",
    title="DeepSeek",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            max_tokens_field="max_tokens",
            # Its reference lists neither a seed nor parallel_tool_calls; strict is for /beta alone.
            unsupported_settings=frozenset({"top_k", "seed"}),
            max_stops=16,
            parallel_tool_calls=False,
            strict_tools=False,
            # A forced tool while the model thinks is a 400; V4 thinks unless told otherwise.
            tool_choice_while_thinking=False,
            thinks_unasked=True,
            # Its flash models see images since 2026-08, the others take text alone (guides/vision and
            # litellm 1.109.1, seen 2026-11).
            string_only_content=True,
            files=False,
            audio_formats=frozenset(),
            by_model=(ModelQuirks(r"deepseek-(?:v[\d.]+-)?flash", {"string_only_content": False}),),
            response_format="json_object",
            # Its guide to the thinking mode (seen 2026-11): low, high and max; other words become these,
            # xhigh too becomes high.
            reasoning_style="thinking-effort",
            known_efforts=("none", "low", "high", "max"),
            efforts={"xhigh": "high"},
            # V4 refuses a history in which an assistant message lacks the field (seen 2026-05,
            # earendil-works/pi#3636, NousResearch/hermes-agent#15228).
            reasoning_field="reasoning_content",
            echo="all",
            echo_empty=True,
        )
    ),
    base_url="https://api.deepseek.com",
    base_url_env=("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE"),
    key_env=("DEEPSEEK_API_KEY",),
    aliases=("deep-seek",),
    docs="https://api-docs.deepseek.com/api/create-chat-completion",
    notes="reasoning goes back with every assistant message; images to the flash models only; no JSON schema",
)
"""DeepSeek serves its own models at its own address."""
