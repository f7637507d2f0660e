"""Snowflake serves open and closed models inside an account.

- An example is `snowflake:claude-sonnet-4-6`.
- `SNOWFLAKE_ACCOUNT`, then `SNOWFLAKE_ACCOUNT_ID`, completes the address: `myorg-myaccount`, or the
  complete host.
- The key is a programmatic access token, an OAuth token or a key-pair JWT.
- Tools, formats and efforts are for Claude and OpenAI's models (`openai-...`). For others they are left
  out, with a warning; a schema goes into the prompt.
- Claude's thinking is requested by `reasoning{effort|max_tokens}`: low, medium, high. It then wants a
  temperature of 1, and the server sets another where none is given: ask for `Settings(temperature=1)`
  beside the reasoning.
- Claude's reasoning is received and sent back as `reasoning_details`.
- Claude is served on Anthropic's wire too, at `/api/v2/cortex/v1/messages`: `anthropic:MODEL` with
  `base_url="https://ACCOUNT.snowflakecomputing.com/api/v2/cortex"` and the token in `ANTHROPIC_AUTH_TOKEN`.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api> (not read)
- <https://github.com/pydantic/pydantic-ai/tree/main/pydantic_ai_slim/pydantic_ai/providers> (seen 2026-11):
  address, key, what families take
- <https://github.com/anomalyco/models.dev/blob/dev/providers/snowflake-cortex/provider.toml>
  (seen 2026-11): address, key, efforts
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/snowflake> (seen 2026-11): litellm 1.109.1, the
  Messages wire
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.providers.base import Provider, filled

SNOWFLAKE = Provider(
    name="snowflake",
    title="Snowflake Cortex",
    # What its families of models take (pydantic-ai-slim 2.68.0, which cites the reference; seen 2026-11).
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            tools=ToolQuirks(
                strict=False,
                # Others than Claude and OpenAI's refuse tools and ignore a format and efforts.
                functions=False,
            ),
            schemas=SchemaQuirks(output="none"),
            thinking=ThinkingQuirks(style="none"),
            by_model=(
                ModelQuirks(
                    "^openai-",
                    change(ToolQuirks, functions=True),
                    change(SchemaQuirks, output="json_schema"),
                    change(
                        ThinkingQuirks,
                        style="effort",
                        known_efforts=("none", "minimal", "low", "medium", "high"),
                    ),
                ),
                ModelQuirks(
                    "^claude",
                    change(ToolQuirks, functions=True),
                    change(SchemaQuirks, output="json_schema", json_object=False),
                    change(
                        ThinkingQuirks,
                        style="openrouter",
                        off_unasked=True,
                        efforts={"minimal": "low", "xhigh": "high", "max": "high"},
                    ),
                    change(ReasoningQuirks, field="reasoning_details", echo="all"),
                ),
            ),
        )
    ),
    base_url="https://{account}.snowflakecomputing.com/api/v2/cortex/v1",
    base_url_env=("SNOWFLAKE_BASE_URL", "SNOWFLAKE_API_BASE"),
    key_env=("SNOWFLAKE_TOKEN", "SNOWFLAKE_CORTEX_PAT", "SNOWFLAKE_PAT", "SNOWFLAKE_JWT"),
    route=filled(account=("SNOWFLAKE_ACCOUNT", "SNOWFLAKE_ACCOUNT_ID")),
    aliases=("snowflake-cortex", "cortex"),
    docs="https://docs.snowflake.com/en/user-guide/snowflake-cortex/cortex-rest-api",
    notes="`SNOWFLAKE_ACCOUNT` makes the address; tools for Claude and OpenAI's models only",
)
