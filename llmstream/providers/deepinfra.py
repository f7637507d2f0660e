"""DeepInfra hosts open models behind the Chat Completions wire.

- `reasoning_effort` is all it needs: `none` switches thinking off, any other effort on, `xhigh` and `max`
  are the same (a developer of theirs in can1357/oh-my-pi#9522, seen 2026-11).
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.
- With Gemini models `reasoning_tokens` may exceed `completion_tokens`: then they come on top of them, and
  of the total.

Sources:

- <https://deepinfra.com/docs/openai_api> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OPENAI_AUDIO, MediaQuirks, OpenAIChat, UsageQuirks, change, hosted
from llmstream.providers.base import Provider

DEEPINFRA = Provider(
    name="deepinfra",
    title="DeepInfra",
    dialect=OpenAIChat(
        hosted(
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            # Of Gemini models it counts reasoning beside completion_tokens (vercel/ai, seen 2026-11).
            change(UsageQuirks, output_may_exclude_reasoning=True),
        )
    ),
    base_url="https://api.deepinfra.com/v1/openai",
    base_url_env=("DEEPINFRA_BASE_URL", "DEEPINFRA_API_BASE"),
    key_env=("DEEPINFRA_API_KEY", "DEEPINFRA_TOKEN", "DEEPINFRA_API_TOKEN"),
    aliases=("deep-infra",),
    docs="https://deepinfra.com/docs/openai_api",
    notes="open models, hosted",
)
