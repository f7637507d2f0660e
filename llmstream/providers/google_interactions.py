"""Gemini by the Interactions API of AI Studio.

- An example is `google-interactions:gemini-2.5-flash`.
- Keys are those of `google`.
- This wire marks its blocks. Its signatures are not those of the other Gemini wire and do not travel there.
- Gemini 4 ends an answer after 65,536 tokens with `requires_continuation` and a token. The rest is
  requested within the same call; `provider_options={"google": {"automatic_continuation": False}}` switches
  that off. See "Long responses of Gemini" in the guide Resumable streams.
- The wire's revision is pinned: `Api-Revision: 2026-05-20`. `headers` of a request may name another.
- Audio without a file header carries its format in the media type: `audio/l16;rate=24000;channels=1`.
- Positions of citations in the text, and words and speakers of a transcription, are `annotations` in the
  metadata of `text-end`.

Sources:

- <https://ai.google.dev/gemini-api/docs/interactions> (seen 2026-11)
- <https://ai.google.dev/gemini-api/docs/api-errors> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.providers.google import GOOGLE

GOOGLE_INTERACTIONS = replace(
    GOOGLE,
    name="google-interactions",
    title="Google AI Studio (Interactions)",
    dialect=GeminiInteractions(),
    aliases=("gemini-interactions",),
    docs="https://ai.google.dev/gemini-api/docs/interactions",
    notes="the newer wire of the same models, with blocks and steps of its own",
)
