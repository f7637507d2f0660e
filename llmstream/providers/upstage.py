"""Upstage serves its Solar models.

- `low` switches the thinking of solar-pro3 off, so `none` and `minimal` are sent as `low`, with a warning;
  medium is the default. solar-pro2 thinks at `high` only.
- PDFs and audio are refused before anything is sent; text documents are sent as text.
- models.dev is the only source for address and key.

Sources:

- <https://developers.upstage.ai/docs/capabilities/generate/reasoning> (not read)
- <https://github.com/anomalyco/models.dev/blob/dev/providers/upstage/provider.toml> (seen 2026-11):
  address, key, efforts; cites the page on reasoning
"""

from llmstream.dialects.openai_chat import (
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

UPSTAGE = Provider(
    name="upstage",
    title="Upstage",
    dialect=OpenAIChat(
        hosted(
            change(
                ThinkingQuirks,
                # Its page on reasoning (seen 2026-11): low is off, medium and high are more and more.
                efforts={"none": "low", "minimal": "low", "xhigh": "high", "max": "high"},
            ),
            change(ReasoningQuirks, field="reasoning"),
            change(Quirks, open_model_rules=False),
            by_model=(ModelQuirks("solar-pro-?2", change(ThinkingQuirks, off_unasked=True)),),
        )
    ),
    base_url="https://api.upstage.ai/v1/solar",
    base_url_env=("UPSTAGE_BASE_URL", "UPSTAGE_API_BASE"),
    key_env=("UPSTAGE_API_KEY",),
    aliases=("solar",),
    docs="https://developers.upstage.ai/docs/capabilities/generate/reasoning",
    notes="the effort `low` switches thinking off",
)
