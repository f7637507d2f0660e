"""The simulator in Ollama's dialect; see the folder `sim`."""

from llmstream.dialects.ollama import Ollama
from llmstream.providers.sim import SimProvider

SIM_OLLAMA = SimProvider(
    name="sim-ollama",
    title="Simulator (ollama)",
    dialect=Ollama(),
    base_url="http://127.0.0.1",
    key_required=False,
)
