"""OpenAI's Chat Completions, and Responses for what OpenAI takes only there."""

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
"""OpenAI itself, and with another address any server that speaks the same."""
