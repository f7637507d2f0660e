"""Databricks: open and closed models behind the gateway of a workspace."""

from llmstream.dialects.openai_chat import ModelQuirks, OpenAIChat, hosted
from llmstream.providers.address_forms import with_path
from llmstream.providers.base import Provider

DATABRICKS = Provider(
    name="databricks",
    title="Databricks",
    dialect=OpenAIChat(
        hosted(
            # Its API of Claude is Anthropic's in part: thinking is asked for by a budget (seen 2026-11).
            by_model=(
                ModelQuirks(
                    "claude",
                    {
                        "reasoning_style": "effort-or-budget",
                        "off_unasked": True,
                        "response_format": "none",
                    },
                ),
            ),
        )
    ),
    base_url="",  # every workspace has its own
    base_url_env=("DATABRICKS_HOST", "DATABRICKS_BASE_URL", "DATABRICKS_API_BASE"),
    normalize=with_path("/ai-gateway/mlflow/v1"),
    key_env=("DATABRICKS_TOKEN", "DATABRICKS_API_KEY"),
    docs="https://docs.databricks.com/aws/en/generative-ai/foundation-models/query-by-type",
    notes="`DATABRICKS_HOST` is the workspace; MODEL is a model service or an endpoint",
)
"""Databricks serves open and closed models behind the gateway of a workspace."""
