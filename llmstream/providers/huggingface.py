"""Hugging Face's router passes a request on to one of many inference providers.

- A model is named `org/model`, and `org/model:provider` where one inference provider is wanted:
  `huggingface:deepseek-ai/DeepSeek-R1:together`.
- An error inside a stream is `{error, error_type}` (huggingface/huggingface_hub#2558).
- The arguments of a tool call may be a JSON object instead of text; they are read as its text.
- What else is special depends on the provider behind the router; models without a reasoning parser leave
  `<think>` tags in the text.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://huggingface.co/docs/inference-providers/tasks/chat-completion> (seen 2026-11)
- <https://huggingface.co/docs/inference-providers/index> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import MediaQuirks, OpenAIChat, Quirks, ReasoningQuirks, SettingQuirks
from llmstream.providers.base import Provider

HUGGINGFACE = Provider(
    name="huggingface",
    title="Hugging Face Inference Providers",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(max_tokens_field="max_tokens"),
            media=MediaQuirks(
                files=False,  # no page documents `file` parts (seen 2026-11)
            ),
            open_model_rules=True,
            reasoning=ReasoningQuirks(field="reasoning_content"),
        )
    ),
    base_url="https://router.huggingface.co/v1",
    base_url_env=("HF_BASE_URL",),
    key_env=("HF_TOKEN", "HUGGINGFACE_API_KEY", "HUGGING_FACE_HUB_TOKEN", "HUGGINGFACEHUB_API_TOKEN"),
    aliases=("hf", "hugging-face"),
    docs="https://huggingface.co/docs/inference-providers/tasks/chat-completion",
    notes="`MODEL:PROVIDER` picks who runs the model",
)
