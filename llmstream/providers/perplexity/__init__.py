"""Perplexity's Agent API: models of several vendors, and a search of the web."""

from collections.abc import Mapping

from llmstream.dialects.openai_responses import OpenAIResponses, Quirks
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.address import versioned_host
from llmstream.providers.base import Provider, join

_PRESETS = {
    "sonar": "fast",
    "sonar-pro": "low",
    "sonar-reasoning": "low",
    "sonar-reasoning-pro": "low",
    "sonar-deep-research": "medium",
}
"""Models that ended, and what the migration guide puts in their place (seen 2026-11)."""


def _route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The usual route; a model that ended is refused here, since the vendor only says "invalid model".

    raises: InvalidRequest
    """
    if model in _PRESETS and http.json().get("model") == model:
        options = {"perplexity": {"preset": _PRESETS[model], "model": None}}
        raise InvalidRequest(
            f"Perplexity ended the model {model!r} on 2026-09-27. Use perplexity:perplexity/sonar with the "
            f"tool web_search, or a preset by provider_options={options}.",
            provider="perplexity",
        )
    return join(base_url, http, model, env)


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
    route=_route,
    aliases=("pplx", "sonar"),
    docs="https://docs.perplexity.ai/docs/agent-api/openai-compatibility",
    notes="models are named `vendor/model`, such as `perplexity/sonar`; searches with the tool `web_search`",
)
"""The Agent API, which took the place of Sonar's Chat Completions on 2026-09-27."""
