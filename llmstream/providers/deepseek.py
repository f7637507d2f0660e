"""DeepSeek serves its own models at its own address.

- The address may also end in `/v1` or `/beta`.
- The connection is kept alive with `: keep-alive` comments or blank lines until the answer begins.
- Usage is in the chunk with the finish reason; it counts the prompt as `prompt_cache_hit_tokens` and
  `prompt_cache_miss_tokens`.
- The finish reason `insufficient_system_resource` is an error. HTTP 402 means that the balance is used up.
- V4 thinks by default and wants `reasoning_content` on every assistant message of the history, "" where
  there is none. The old reasoner refused the reasoning of earlier turns; for a server that still runs it,
  pass a `Provider` with the quirk `echo="current-turn"`.
- `thinking{type}` switches thinking, `reasoning_effort` sets the effort: `low`, `high` or `max`. Others
  become those that DeepSeek's table names, with a warning: `minimal` low, `medium` and `xhigh` high.
- A forced `tool_choice` together with thinking is a 400. Where thinking was requested, the choice is left
  out; otherwise thinking is switched off. Both with a warning.
- No JSON schema: it goes into the prompt and `json_object` is requested, which needs the word JSON in the
  prompt; a missing one is added.
- The flash models (`deepseek-flash`, `deepseek-v4-flash` ...) see images. To the others content is text
  alone; an image raises `Unsupported` before anything is sent, and so do PDFs and recordings. The role
  `developer` is refused.
- `deepseek-chat` and `deepseek-reasoner` were retired on 2026-07-24.

Sources:

- <https://api-docs.deepseek.com/api/create-chat-completion> (seen 2026-11)
- <https://api-docs.deepseek.com/guides/thinking_mode> (seen 2026-11)
- <https://api-docs.deepseek.com/guides/vision> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.base import Provider

DEEPSEEK = Provider(
    name="deepseek",
    title="DeepSeek",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(
                max_tokens_field="max_tokens",
                # Its reference lists neither a seed nor parallel_tool_calls; strict is for /beta alone.
                unsupported=frozenset({"top_k", "seed"}),
                max_stops=16,
            ),
            tools=ToolQuirks(
                parallel_calls=False,
                strict=False,
                # A forced tool while the model thinks is a 400; V4 thinks by default.
                choice_while_thinking=False,
            ),
            thinking=ThinkingQuirks(
                unasked=True,
                # Its guide to the thinking mode (seen 2026-11): low, high and max; other words become these,
                # xhigh too becomes high.
                style="thinking-effort",
                known_efforts=("none", "low", "high", "max"),
                efforts={"xhigh": "high"},
            ),
            media=MediaQuirks(
                # Its flash models see images since 2026-08, the others take text alone (guides/vision and
                # litellm 1.109.1, seen 2026-11).
                string_only=True,
                files=False,
                audio_formats=frozenset(),
            ),
            by_model=(ModelQuirks(r"deepseek-(?:v[\d.]+-)?flash", change(MediaQuirks, string_only=False)),),
            schemas=SchemaQuirks(output="json_object"),
            reasoning=ReasoningQuirks(
                # V4 refuses a history in which an assistant message lacks the field (seen 2026-05,
                # earendil-works/pi#3636, NousResearch/hermes-agent#15228).
                field="reasoning_content",
                echo="all",
                echo_empty=True,
            ),
        )
    ),
    base_url="https://api.deepseek.com",
    base_url_env=("DEEPSEEK_BASE_URL", "DEEPSEEK_API_BASE"),
    key_env=("DEEPSEEK_API_KEY",),
    aliases=("deep-seek",),
    docs="https://api-docs.deepseek.com/api/create-chat-completion",
    notes="reasoning goes back with every assistant message; images to the flash models only; no JSON schema",
)
