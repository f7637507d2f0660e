"""OpenAI's Responses API: the wire of hosted tools (web search, file search, code interpreter, MCP), of
custom tools with plain input, and of reasoning that has to go back encrypted.

- An example is `openai-responses:gpt-5-mini`.
- Address and key are those of `openai`.
- `store` is sent as `false`: a conversation lives with the caller. Encrypted reasoning is requested from
  reasoning models, without which a conversation that is not stored cannot go on.
  `provider_options={"openai": {"store": True}}` changes that.
- Answers also come over a WebSocket (`Model(..., transport="websocket")`), where they can be steered.
- There are no stop sequences, seed, penalties or top_k on this wire; they are left out with a warning.
- Fields of the last event (`service_tier`, `tool_usage`, `prompt_cache_diagnostics`, `conversation` and the
  like) become metadata of the `finish`, without those that repeat the request. If `input_transformations`
  report that reasoning of earlier answers was not used, the log warns.
- `bio_policy`, `cyber_policy` and `misalignment_policy_violation` inside the stream are `ContentFiltered`,
  and not retried; the error's `details` have what the vendor reports.

Sources:

- <https://developers.openai.com/api/docs/guides/websocket-mode> (seen 2026-11)
- <https://platform.openai.com/docs/api-reference/responses> (seen 2026-11)
"""

from dataclasses import replace

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.providers.openai import OPENAI

OPENAI_RESPONSES = replace(
    OPENAI,
    name="openai-responses",
    title="OpenAI (Responses)",
    dialect=OpenAIResponses(),
    aliases=(),
    wire=None,
    docs="https://platform.openai.com/docs/api-reference/responses",
    notes="hosted tools, reasoning that goes back encrypted; nothing is stored at the vendor unless asked",
)
