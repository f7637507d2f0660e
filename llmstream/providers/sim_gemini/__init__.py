"""The simulator in the dialect gemini; see the folder `sim`."""

from llmstream.dialects.gemini import Gemini
from llmstream.providers.sim import SimProvider

SIM_GEMINI = SimProvider(
    name="sim-gemini",
    title="Simulator (gemini)",
    dialect=Gemini(),
    base_url="http://127.0.0.1",
    key_required=False,
)
