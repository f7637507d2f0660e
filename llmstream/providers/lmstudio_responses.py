"""The Responses API of LM Studio's server.

- An example is `lmstudio-responses:qwen3-8b`.
- Address and key are those of `lmstudio`; no key is needed.
- Reasoning of open models is plain text and is sent back unchanged.

Sources:

- <https://lmstudio.ai/docs/developer/openai-compat> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import (
    DeliveryQuirks,
    InputQuirks,
    OpenAIResponses,
    Quirks,
    ThinkingQuirks,
)
from llmstream.providers.lmstudio import LMSTUDIO

LMSTUDIO_RESPONSES = replace(
    LMSTUDIO,
    name="lmstudio-responses",
    title="LM Studio (Responses)",
    dialect=OpenAIResponses(
        Quirks(
            delivery=DeliveryQuirks(background=False, websocket=False),
            # Open models: reasoning is plain text, and is sent back unchanged.
            thinking=ThinkingQuirks(encrypted="never", plain=True),
            input=InputQuirks(system_role="system"),
            reasoning_model_rules=False,
            unsupported_settings=frozenset({"stop", "seed", "presence_penalty", "frequency_penalty"}),
        )
    ),
    aliases=("lm-studio-responses",),
    notes="a server of your own; reasoning is plain text",
)
