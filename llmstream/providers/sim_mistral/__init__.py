"""The simulator in the dialect mistral; see the folder `sim`."""

from llmstream.dialects.mistral import Mistral
from llmstream.providers.sim import SimProvider

SIM_MISTRAL = SimProvider(
    name="sim-mistral",
    title="Simulator (mistral)",
    dialect=Mistral(),
    base_url="http://127.0.0.1",
    key_required=False,
)
