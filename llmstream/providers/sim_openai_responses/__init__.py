"""The simulator in the dialect openai-responses; see the folder `sim`."""

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.providers.sim import SimProvider

SIM_OPENAI_RESPONSES = SimProvider(
    name="sim-openai-responses",
    title="Simulator (openai-responses)",
    dialect=OpenAIResponses(),
    base_url="http://127.0.0.1",
    key_required=False,
    path="/v1",
)
