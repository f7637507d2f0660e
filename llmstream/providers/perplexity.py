"""Perplexity's Agent API: models of several vendors behind the Responses wire, with a search of the web.

- An example is `perplexity:perplexity/sonar`.
- An address without a path gets `/v1`.

What became of Sonar:

Chat Completions with `sonar`, `sonar-pro` and the rest ended on 2026-09-27. `perplexity/sonar` is the one
name that is left; the others became presets, which bring tools and a system prompt of their own:

| then | now | | --- | --- | | `sonar` | the model `perplexity/sonar` with the tool `web_search`, or the
preset `fast` | | `sonar-pro`, `sonar-reasoning`, `sonar-reasoning-pro` | the preset `low` | |
`sonar-deep-research` | the preset `medium` |

A preset is requested by options, and None takes the model out of the request:

provider_options={"perplexity": {"preset": "low", "model": None}}

A preset without a model may be answered by another vendor's; the metadata of the answer name it. Beside a
model it keeps the model.

- A model does not search unless it has the tool `web_search` (`ProviderTool("web_search",
  options={"search_context_size": "low"})`), and then the model decides; a search is forced with
  `tool_choice=NamedTool("web_search")`. There are `fetch_url`, `people_search`, `finance_search`, `sandbox`
  and `mcp` as well. Functions of the caller's work.
- Each page of a `search_results` or `fetch_url_results` item is a source event, once; so are the addresses
  that the text cites. The complete item is a custom event, since the numbers in the text (`[1]`) are those
  of its results.
- What the model thinks while it searches comes as reasoning.
- Unknown fields are refused: items go back without ids, the model's text as one string, and what its own
  tools did not at all, with a warning.
- Efforts are `minimal` to `max`; `none` becomes `minimal`, with a warning. Neither `stop`, `top_k`, `seed`
  nor the penalties are known.
- A schema goes into `response_format`; JSON of any shape can be requested in the prompt only.
- Models of Anthropic want `max_output_tokens`.
- Images may be given, PDFs and audio are refused before anything is sent; text documents are sent as text.
- `usage.raw` holds `cost` and the calls of the vendor's tools.

Sources:

- <https://docs.perplexity.ai/docs/agent-api/openai-compatibility> (seen 2026-11)
- <https://docs.perplexity.ai/docs/agent-api/migrate-from-sonar/how-to> (seen 2026-11)
- <https://github.com/perplexityai/api-platform-developers/tree/main/skills/migrate-sonar-to-agent-api>
  (seen 2026-11)
- the Python package `perplexityai` 0.46.1 (seen 2026-11)
"""

from collections.abc import Mapping

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    InputQuirks,
    OpenAIResponses,
    OutputQuirks,
    Quirks,
    ThinkingQuirks,
)
from llmstream.errors import InvalidRequest
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Provider, join, versioned_host

# Models that ended, and what the migration guide puts in their place (seen 2026-11).
_PRESETS = {
    "sonar": "fast",
    "sonar-pro": "low",
    "sonar-reasoning": "low",
    "sonar-reasoning-pro": "low",
    "sonar-deep-research": "medium",
}


def _route(base_url: str, http: HttpRequest, model: str, env: Mapping[str, str]) -> HttpRequest:
    """The usual route; a model that ended is refused here, since the vendor only answers "invalid model".

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
            input=InputQuirks(
                # With a preset, instructions would replace its own (migration guide, seen 2026-11).
                system="message",
                system_role="system",
                # A field that it does not know is a 400, nested ones too.
                plain_items=True,
            ),
            reasoning_model_rules=False,
            thinking=ThinkingQuirks(
                encrypted="never",
                known_efforts=("minimal", "low", "medium", "high", "xhigh", "max"),
                efforts={},
            ),
            # A schema stands in `response_format`; JSON of any shape cannot be asked for (seen 2026-11).
            output=OutputQuirks(chat_response_format=True, json_object=False),
            delivery=DeliveryQuirks(background=False),
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
