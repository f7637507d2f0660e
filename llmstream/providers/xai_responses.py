"""xAI's Responses API, where its live searches are hosted tools (`web_search`, `x_search`).

- An example is `xai-responses:grok-4.7`.
- Address and key are those of `xai`.
- Efforts are those of `xai`: grok-4.20 is sent no `reasoning`, and `none` becomes `low` from 4.5 on.
- Deltas of a second call may be missing; what the final event of the item adds is given as one delta.
- Answers also come over a WebSocket (`Model(..., transport="websocket")`); steering is not documented.

Sources:

- <https://docs.x.ai/developers/advanced-api-usage/websocket-mode> (seen 2026-11)
- <https://docs.x.ai/developers/model-capabilities/text/comparison> (seen 2026-11)
- <https://docs.x.ai/developers/model-capabilities/text/reasoning> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    InputQuirks,
    ModelQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
    change,
)
from llmstream.providers.xai import RETIRED_SLUGS, XAI

XAI_RESPONSES = replace(
    XAI,
    name="xai-responses",
    title="xAI (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            delivery=DeliveryQuirks(background=False, steering=False),
            input=InputQuirks(system="message", system_role="system"),
            reasoning_model_rules=False,
            thinking=ThinkingQuirks(
                # Grok 4.20 refuses `reasoning`, 4.5 and later refuse none (seen 2026-11, @ai-sdk/xai 5.0.12).
                known_efforts=("none", "low", "medium", "high"),
                efforts={},
            ),
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    RETIRED_SLUGS.pattern,
                    change(ThinkingQuirks, supported=True, known_efforts=("none", "low", "medium", "high")),
                ),
                ModelQuirks(r"grok-4(?:$|\.20)", change(ThinkingQuirks, supported=False)),
            ),
        )
    ),
    aliases=("grok-responses",),
    docs="https://docs.x.ai/developers/model-capabilities/text/comparison",
    notes="`web_search` and `x_search` run at the vendor",
)
