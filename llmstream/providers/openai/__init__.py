"""OpenAI's own models over Chat Completions; with another address, any server that speaks the same.

- `OPENAI_ORG_ID` and `OPENAI_PROJECT_ID` become headers.

The quirks of other providers are differences from this API.

- The o-series and gpt-5 and later rank a system prompt as role `developer`, require `max_completion_tokens`,
  and refuse temperature, top_p and the penalties (some take them at effort `none`) and stop sequences. Each
  knows some efforts only. The rules, with sources, are in `llmstream/model_rules/gpt.py`. What is refused
  is left out, or the nearest is sent, with a warning.
- Reasoning stays hidden and does not go back; that takes the Responses API.
- OpenAI takes function tools of its newest models beside reasoning in Responses only, and serves some
  models (gpt-5-pro, codex, o3-pro) only there. Such a request goes to Responses, with a warning, unless it
  holds what only Chat Completions takes (audio, options such as `logit_bias`). `openai-chat:MODEL` and
  `openai-responses:MODEL` choose the API. With `openai:`, other servers behind
  `base_url=` always get Chat Completions.
- Usage comes in a chunk without choices, after the finish reason, because it is requested.
- `refusal` is reported as text and the finish reason content-filter.
- `logprobs` are metadata of the deltas and of the end of the text; `service_tier`, `system_fingerprint` and
  `moderation` of the `finish`. The input of custom tools is plain text, and their calls are sent back
  unchanged.
- `bio_policy`, `cyber_policy`, `misalignment_policy_violation` and `content_policy_violation` are
  `ContentFiltered`, and not retried.
- Documents have to be sent as data; an address raises `Unsupported`.

Sources:

- <https://platform.openai.com/docs/api-reference/chat> (seen 2026-11)
- <https://platform.openai.com/docs/guides/reasoning> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.providers.base import Provider
from llmstream.providers.openai.wire import openai_wire, responses

OPENAI = Provider(
    name="openai",
    title="OpenAI",
    dialect=OpenAIChat(),
    base_url="https://api.openai.com/v1",
    base_url_env=("OPENAI_BASE_URL", "OPENAI_API_BASE"),
    key_env=("OPENAI_API_KEY",),
    header_env={"openai-organization": "OPENAI_ORG_ID", "openai-project": "OPENAI_PROJECT_ID"},
    idempotency_header="idempotency-key",
    wire=openai_wire,
    counter=responses,
    docs="https://platform.openai.com/docs/api-reference/chat",
    notes="with `base_url=` any server that speaks the same",
)
