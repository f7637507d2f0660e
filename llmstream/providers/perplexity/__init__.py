"""Perplexity's Agent API: models of several vendors, and a search of the web."""

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.providers.address import versioned_host
from llmstream.providers.base import Provider

PERPLEXITY = Provider(
    name="perplexity",
    title="Perplexity",
    dialect=OpenAIResponses(
        Quirks(
            # With a preset, instructions would replace its own (migration guide, seen 2026-11).
            system="message",
            system_role="system",
            reasoning_model_rules=False,
            encrypted="never",
            # A field that it does not know is a 400, nested ones too.
            plain_items=True,
            chat_response_format=True,
            json_object=False,
            known_efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
            efforts={},
            background=False,
        )
    ),
    base_url="https://api.perplexity.ai/v1",
    base_url_env=("PERPLEXITY_BASE_URL", "PERPLEXITY_API_BASE"),
    normalize=versioned_host,
    key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY", "PERPLEXITYAI_API_KEY"),
    aliases=("pplx", "sonar"),
    docs="https://docs.perplexity.ai/docs/agent-api/openai-compatibility",
    notes="models are named `vendor/model`, such as `perplexity/sonar`; searches with the tool `web_search`",
)
"""The Agent API, which took the place of Sonar's Chat Completions on 2026-09-27."""
