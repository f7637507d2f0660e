"""The Responses API of an Azure OpenAI resource.

- An example is `azure-responses:my-deployment`.
- Address, key and Entra token are those of `azure`. The model is the name of a deployment.
- Azure serves it below `/openai/v1`; the older, dated addresses of single deployments do not have it.
- Answers also come over a WebSocket (`Model(..., transport="websocket")`); steering is not documented.

Sources:

- <https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/responses> (seen 2026-11)
- <https://learn.microsoft.com/en-us/azure/foundry/openai/how-to/websockets> (seen 2026-11)
- <https://learn.microsoft.com/en-us/azure/foundry/openai/reference> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import DeliveryQuirks, OpenAIResponses, Quirks
from llmstream.providers.azure import AZURE

AZURE_RESPONSES = replace(
    AZURE,
    name="azure-responses",
    title="Azure OpenAI (Responses)",
    # Microsoft's page on WebSockets has no steering (seen 2026-11).
    dialect=OpenAIResponses(Quirks(delivery=DeliveryQuirks(steering=False))),
    aliases=(),
    wire=None,
    notes="MODEL is the deployment; only below `/openai/v1`, so leave `OPENAI_API_VERSION` unset",
)
