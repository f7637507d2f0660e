"""OpenRouter's Responses API.

- An example is `openrouter-responses:openai/gpt-5-mini`.
- Address and key are those of `openrouter`.
- It keeps no state: `store` and `previous_response_id` are refused, so they are not sent.

Sources:

- <https://openrouter.ai/docs/api/reference/responses/overview> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import DeliveryQuirks, InputQuirks, OpenAIResponses, Quirks
from llmstream.providers.base import join
from llmstream.providers.openrouter import OPENROUTER

OPENROUTER_RESPONSES = replace(
    OPENROUTER,
    name="openrouter-responses",
    title="OpenRouter (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            # It refuses the field (openrouter.ai/docs, seen 2026-11).
            store=None,
            input=InputQuirks(system="message", system_role="system"),
            reasoning_model_rules=False,
            delivery=DeliveryQuirks(background=False, websocket=False),
        )
    ),
    route=join,
    aliases=(),
    docs="https://openrouter.ai/docs/api/reference/responses/overview",
    notes="stores nothing, and refuses `store` and `previous_response_id`",
)
