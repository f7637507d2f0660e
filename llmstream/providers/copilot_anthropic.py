"""Claude at GitHub Copilot by Anthropic's own wire: signed thinking, prompt caching, beta features.

- An example is `copilot-anthropic:claude-sonnet-4.5`.
- Address and key are those of `copilot`.
- `web_search` does not run there. Images and documents are sent as bytes.
- The headers `openai-intent`, `x-interaction-type` and `x-github-api-version` are those of litellm's
  client; one source.

Sources:

- <https://docs.github.com/en/copilot> (does not document the API)
- <https://github.com/BerriAI/litellm/tree/main/litellm/llms/github_copilot/messages> (seen 2026-11):
  litellm 1.109.1, path, headers
"""

from dataclasses import replace

from llmstream.dialects.anthropic import Anthropic, Quirks
from llmstream.providers.base import without_version
from llmstream.providers.copilot import COPILOT

COPILOT_ANTHROPIC = replace(
    COPILOT,
    name="copilot-anthropic",
    title="Claude at GitHub Copilot",
    # Images and documents are sent as bytes.
    dialect=Anthropic(quirks=Quirks(url_sources=False)),
    normalize=without_version,
    # As other clients of this path identify themselves (litellm 1.109.1, seen 2026-11).
    headers={
        **COPILOT.headers,
        "openai-intent": "messages-proxy",
        "x-interaction-type": "messages-proxy",
        "x-github-api-version": "2026-06-01",
    },
    aliases=("github-copilot-anthropic",),
    notes="Claude with its own thoughts and signatures; key as for `copilot`",
)
