"""The simulator in the dialect cohere; see the folder `sim`."""

from llmstream.dialects.cohere import Cohere
from llmstream.providers.sim import SimProvider

SIM_COHERE = SimProvider(
    name="sim-cohere",
    title="Simulator (cohere)",
    dialect=Cohere(),
    base_url="http://127.0.0.1",
    key_required=False,
)
