"""Snowflake Cortex: open and closed models inside an account."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, Quirks
from llmstream.providers.address_forms import filled
from llmstream.providers.base import Provider

SNOWFLAKE = Provider(
    name="snowflake",
    title="Snowflake Cortex",
    # What its families of models take (pydantic-ai-slim 2.68.0, which cites the reference; seen 2026-11).
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            strict_tools=False,
            # Others than Claude and OpenAI's refuse tools and ignore a format and efforts.
            tools=False,
            response_format="none",
            reasoning_style="none",
            by_model=(
                ModelQuirks(
                    "^openai-",
                    {
                        "tools": True,
                        "response_format": "json_schema",
                        "reasoning_style": "effort",
                        "known_efforts": ("none", "minimal", "low", "medium", "high"),
                    },
                ),
                ModelQuirks(
                    "^claude",
                    {
                        "tools": True,
                        "response_format": "json_schema",
                        "json_object": False,
                        "reasoning_style": "openrouter",
                        "off_unasked": True,
                        "efforts": {"minimal": "low", "xhigh": "high", "max": "high"},
                        "reasoning_field": "reasoning_details",
                        "echo": "all",
                    },
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
"""Snowflake serves open and closed models inside an account."""
