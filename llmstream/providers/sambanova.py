"""SambaNova hosts open models on its own chips behind the Chat Completions wire.

- Older models write their reasoning into the text between `<think>` tags, which are split off; gpt-oss and
  newer ones send `reasoning`, which goes back with the calls it led to.
- Thinking is switched by `chat_template_kwargs{enable_thinking}`, gpt-oss takes efforts.
- Models of text want a string as content, so an image for one of them is refused before anything is sent.
- The penalties are taken and have no effect.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://docs.sambanova.ai/docs/en/api-reference/chat-completions/create-chat-based-completion>
  (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

SAMBANOVA = Provider(
    name="sambanova",
    title="SambaNova Cloud",
    dialect=OpenAIChat(
        hosted(
            # By `chat_template_kwargs{enable_thinking}`, DeepSeek too; gpt-oss by effort (SambaNova's
            # launch guides, by anomalyco/models.dev#2133, seen 2026-11).
            change(ThinkingQuirks, style="chat-template"),
            # Older models write reasoning between tags, newer ones send and take `reasoning`
            # (langchain-sambanova, seen 2026-11).
            change(ReasoningQuirks, tags="tags", field="reasoning", echo="current-turn"),
            change(MediaQuirks, audio_formats=OPENAI_AUDIO),
            by_model=(
                ModelQuirks("deepseek", change(ThinkingQuirks, switch="enable_thinking")),
                # Models of text want a string (litellm 1.109.1, seen 2026-11).
                ModelQuirks(r"gpt-oss|deepseek|llama-3|minimax-m2", change(MediaQuirks, string_only=True)),
            ),
        )
    ),
    base_url="https://api.sambanova.ai/v1",
    base_url_env=("SAMBANOVA_BASE_URL", "SAMBANOVA_API_BASE"),
    key_env=("SAMBANOVA_API_KEY",),
    docs="https://docs.sambanova.ai/docs/en/api-reference/chat-completions/create-chat-based-completion",
    notes="older models write thoughts between `<think>` tags; penalties have no effect",
)
