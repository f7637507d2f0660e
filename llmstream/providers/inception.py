"""Inception serves its Mercury models, which write by diffusion.

- The efforts are `instant`, `low`, `medium` and `high`: `none` and `minimal` are sent as `instant`, `xhigh`
  and `max` as `high`, with a warning.
- No difference beyond `max_tokens` and the role `system` is known.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.inceptionlabs.ai/> (seen 2026-11)
- <https://docs.litellm.ai/docs/providers/inception> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import MediaQuirks, OpenAIChat, Quirks, SettingQuirks, ThinkingQuirks
from llmstream.providers.base import Provider

INCEPTION = Provider(
    name="inception",
    title="Inception",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            settings=SettingQuirks(max_tokens_field="max_tokens"),
            thinking=ThinkingQuirks(
                # docs.litellm.ai/docs/providers/inception and pipecat's Inception service (seen 2026-11).
                known_efforts=("none", "low", "medium", "high"),
                efforts={"none": "instant", "minimal": "instant"},
            ),
        )
    ),
    base_url="https://api.inceptionlabs.ai/v1",
    base_url_env=("INCEPTION_BASE_URL", "INCEPTION_API_BASE"),
    key_env=("INCEPTION_API_KEY",),
    aliases=("inceptionlabs", "mercury"),
    docs="https://docs.inceptionlabs.ai/",
    notes="diffusion models",
)
