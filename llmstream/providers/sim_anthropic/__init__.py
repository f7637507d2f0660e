"""The simulator in Anthropic's dialect; see the folder `sim`."""

from llmstream.dialects.anthropic import Anthropic
from llmstream.providers.sim import SimProvider

SIM_ANTHROPIC = SimProvider(
    name="sim-anthropic",
    title="Simulator (anthropic)",
    dialect=Anthropic(),
    base_url="http://127.0.0.1",
    key_required=False,
)
