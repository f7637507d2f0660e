"""Databricks serves open and closed models behind the gateway of a workspace.

- Examples are `databricks:system.ai.claude-sonnet-4-5` and the name of a serving endpoint.
- `DATABRICKS_HOST` is a workspace such as `https://adb-1.2.azuredatabricks.net`, below which
  `/ai-gateway/mlflow/v1` is called. An address with a path is used as it is:
  `https://HOST/serving-endpoints` is the older one,
  `https://WORKSPACE-ID.ai-gateway.cloud.databricks.com/mlflow/v1` one of the gateway's own.
- The key is a personal access token or an OAuth token. A client id and secret are not exchanged for one.
- Claude takes a budget as `thinking{type, budget_tokens}`, others an effort; whether Claude takes an effort
  too was not found, and it is sent. Claude is held to no schema here: for a typed answer a tool is forced.
- The older endpoints refuse several results of tools behind one message with calls (litellm parts them);
  the setting `parallel_tool_calls=False` avoids that.
- Thoughts come as parts of the content, which are read; their signatures do not go back.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.databricks.com/aws/en/generative-ai/foundation-models/query-by-type> (seen 2026-11)
- <https://learn.microsoft.com/azure/databricks/ai-gateway/query-endpoints-beta> (seen 2026-11):
  `/mlflow/v1`
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/databricks> (seen 2026-11): litellm 1.109.1,
  address, keys
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    SchemaQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider, with_path

DATABRICKS = Provider(
    name="databricks",
    title="Databricks",
    dialect=OpenAIChat(
        hosted(
            # Its API of Claude is Anthropic's in part: thinking is requested by a budget (seen 2026-11).
            by_model=(
                ModelQuirks(
                    "claude",
                    change(ThinkingQuirks, style="effort-or-budget", off_unasked=True),
                    # Claude is held to no schema here, so a tool is forced for a typed answer.
                    change(SchemaQuirks, output="none"),
                ),
            )
        )
    ),
    base_url="",  # every workspace has its own
    base_url_env=("DATABRICKS_HOST", "DATABRICKS_BASE_URL", "DATABRICKS_API_BASE"),
    normalize=with_path("/ai-gateway/mlflow/v1"),
    key_env=("DATABRICKS_TOKEN", "DATABRICKS_API_KEY"),
    docs="https://docs.databricks.com/aws/en/generative-ai/foundation-models/query-by-type",
    notes="`DATABRICKS_HOST` is the workspace; MODEL is a model service or an endpoint",
)
