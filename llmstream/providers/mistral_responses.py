"""Mistral's Responses API, a public preview.

- An example is `mistral-responses:mistral-large-latest`.
- Address and key are those of `mistral`.
- The API is stateless: `store` is false, and there are neither `previous_response_id` nor background
  responses.
- Reasoning is plain text and is sent back unchanged. Efforts differ by model and are sent as given.
- Tools are functions. Of tools of its own the API has only namespaces of functions, by
  `provider_options={"mistral-responses": {"tools": [...]}}`.

Sources:

- <https://docs.mistral.ai/studio/conversations/responses> (seen 2026-11)
- <https://github.com/mistralai/client-python> (seen 2026-11): mistralai 3.7.0, fields of the request
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    InputQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
    ToolQuirks,
)
from llmstream.providers.mistral import MISTRAL

MISTRAL_RESPONSES = replace(
    MISTRAL,
    name="mistral-responses",
    title="Mistral AI (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            path="/v1/responses",
            # Plain reasoning goes back; efforts differ by model and are sent as they are (seen 2026-11).
            thinking=ThinkingQuirks(encrypted="never", plain=True, efforts={}),
            input=InputQuirks(system_role="system"),
            reasoning_model_rules=False,
            # Of tools of its own it has only namespaces of functions (mistralai 3.7.0, seen 2026-11).
            tools=ToolQuirks(provider_tools=False),
            delivery=DeliveryQuirks(background=False),
        )
    ),
    aliases=(),
    docs="https://docs.mistral.ai/studio/conversations/responses",
    notes="a public preview; reasoning is plain text, nothing is stored",
)
