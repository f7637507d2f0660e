"""The simulator in the dialect gemini-interactions; see the folder `sim`."""

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.providers.sim import SimProvider

SIM_GEMINI_INTERACTIONS = SimProvider(
    name="sim-gemini-interactions",
    title="Simulator (gemini-interactions)",
    dialect=GeminiInteractions(),
    base_url="http://127.0.0.1",
    key_required=False,
)
