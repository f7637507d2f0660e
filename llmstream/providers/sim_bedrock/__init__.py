"""The simulator in the dialect bedrock-converse; see the folder `sim`."""

from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.providers.sim import SimProvider

SIM_BEDROCK = SimProvider(
    name="sim-bedrock",
    title="Simulator (bedrock-converse)",
    dialect=BedrockConverse(),
    base_url="http://127.0.0.1",
    key_required=False,
)
