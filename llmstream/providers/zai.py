"""Z.ai serves its GLM models behind the Chat Completions wire. The service in China has its own accounts
and keys: `bigmodel`.

- The address of the coding plan is `https://api.z.ai/api/coding/paas/v4`.
- `thinking{type}` switches thinking. GLM-5.2 takes the efforts `high` and `max` as well; GLM-5.3 takes
  `low`, `high` and `max` and always thinks: effort `none` is sent as `low`, with a warning.
  `clear_thinking: false` in it (by `provider_options`) keeps the reasoning of earlier turns, which we send
  back as `reasoning_content`.
- `tool_stream: true` makes arguments arrive piece by piece; it is sent for GLM-4.6 and later.
- GLM-5.3 gives nested arguments as strings where a tool's schema refers to `$defs`
  (pydantic/pydantic-ai#10243, seen 2026-11): its schemas are sent with their references written out.
- `tool_choice` is `auto` or nothing: `none` leaves the tools out, a forced one is left out with a warning.
- No JSON schema: it goes into the prompt and `json_object` is requested. Neither `strict` nor the penalties
  are known.
- Its own finish reasons: `sensitive` is content-filter, `model_context_window_exceeded` is length,
  `network_error` is an error.
- Error codes are numbers in a string, such as "1302" for too many requests.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.z.ai/api-reference/llm/chat-completion> (seen 2026-11)
- <https://docs.z.ai/guides/capabilities/thinking-mode> (seen 2026-11)
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

ZAI = Provider(
    name="zai",
    title="Z.ai",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            settings=SettingQuirks(
                max_tokens_field="max_tokens",
                unsupported=frozenset({"top_k", "presence_penalty", "frequency_penalty"}),
                temperature_range=(0.0, 1.0),
                max_stops=1,
            ),
            # Without it a call's arguments come in one piece after minutes of silence (seen 2026-07); its
            # page names GLM-4.6 and later (docs.z.ai stream-tool, seen 2026-11).
            extra_body={"tool_stream": True},
            tools=ToolQuirks(
                # Its reference has no other choice, and no strict (docs.z.ai, seen 2026-11).
                choice=frozenset({"auto"}),
                parallel_calls=False,
                strict=False,
                provider_tools=True,
            ),
            schemas=SchemaQuirks(output="json_object"),
            thinking=ThinkingQuirks(
                # GLM-5.2 knows the efforts high and max; 5.3 low, high and max, and refuses `disabled` (seen
                # 2026-11: pydantic-ai-slim profiles/zai.py).
                style="thinking-effort",
            ),
            open_model_rules=True,
            by_model=(ModelQuirks(r"glm-(?:[1-3z]|4(?![.-]?[6-9]))", change(Quirks, extra_body={})),),
            reasoning=ReasoningQuirks(field="reasoning_content", echo="all"),
        )
    ),
    base_url="https://api.z.ai/api/paas/v4",
    base_url_env=("ZAI_BASE_URL", "ZAI_API_BASE"),
    key_env=("ZAI_API_KEY", "Z_AI_API_KEY", "GLM_API_KEY"),
    aliases=("z-ai", "z.ai", "glm"),
    docs="https://docs.z.ai/api-reference/llm/chat-completion",
    notes="the coding plan is at `/api/coding/paas/v4`; in China `bigmodel`",
)
