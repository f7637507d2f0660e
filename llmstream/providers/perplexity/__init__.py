"""Perplexity's Sonar models, which search the web."""

from llmstream.dialects.openai_chat import OpenAIChat, Quirks
from llmstream.providers.base import Provider

PERPLEXITY = Provider(
    name="perplexity",
    title="Perplexity",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            files=False,
            audio_formats=frozenset(),
            max_tokens_field="max_tokens",
            unsupported_settings=frozenset({"top_k", "stop", "seed"}),
            tools=False,
            parallel_tool_calls=False,
            strict_tools=False,
            bare_json_schema=True,
            json_object=False,
            alternating_roles=True,
            efforts={"none": "minimal", "xhigh": "high", "max": "high"},
            think_tags="tags",
        )
    ),
    base_url="https://api.perplexity.ai",
    base_url_env=("PERPLEXITY_BASE_URL",),
    key_env=("PERPLEXITY_API_KEY", "PPLX_API_KEY"),
    aliases=("pplx", "sonar"),
    docs="https://docs.perplexity.ai/docs/sonar/openai-compatibility",
    notes="answers with sources; no tools",
)
"""Perplexity's Sonar models search the web and answer with sources."""
