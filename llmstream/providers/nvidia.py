"""NVIDIA NIM serves open models, at NVIDIA or on machines of your own.

- For a NIM of your own, pass `base_url=` or set a variable; a missing `/v1` is added.
- Vision models refuse `stream_options`, so it is not sent to models with such names; usage is then missing.
  NVIDIA's own LangChain package does the same; according to one report the hosted service hung on it
  (HKUDS/DeepTutor#420).
- Thinking is switched by a variable of the model's template, `chat_template_kwargs{enable_thinking}` or
  `{thinking}`; DeepSeek V4 and gpt-oss take `reasoning_effort`. Older Nemotrons are switched by the system
  prompt (`detailed thinking on`, `/no_think`): asking them by an effort is a warning.
- Reasoning arrives as `reasoning_content`.
- PDFs are refused before anything is sent, because no page documents them; text documents are sent as text.

Sources:

- <https://docs.api.nvidia.com/nim/reference/llm-apis> (seen 2026-11)
- <https://docs.nvidia.com/nim/large-language-models/latest/api-reference.html> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
    ThinkingQuirks,
    change,
)
from llmstream.providers.base import Provider, versioned

NVIDIA = Provider(
    name="nvidia",
    title="NVIDIA NIM",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            settings=SettingQuirks(max_tokens_field="max_tokens"),
            media=MediaQuirks(files=False),
            thinking=ThinkingQuirks(
                # Model pages of build.nvidia.com (seen 2026-11): a switch of the template; DeepSeek V4 and
                # gpt-oss take an effort. Older Nemotrons are switched by the system prompt.
                style="chat-template",
                effort_beside_switch=True,
            ),
            open_model_rules=True,
            # "vlm endpoints do not accept standard stream_options" (langchain-nvidia-ai-endpoints, seen
            # 2026-11); the others take them.
            by_model=(
                ModelQuirks(
                    r"vlm|vision|vila|fuyu|neva|kosmos|paligemma|deplot|-vl\b",
                    change(SettingQuirks, stream_options=False),
                ),
            ),
            reasoning=ReasoningQuirks(field="reasoning_content"),
        )
    ),
    base_url="https://integrate.api.nvidia.com/v1",
    base_url_env=("NVIDIA_BASE_URL", "NVIDIA_NIM_API_BASE"),
    normalize=versioned,
    key_env=("NVIDIA_API_KEY", "NVIDIA_NIM_API_KEY", "NIM_API_KEY"),
    aliases=("nim", "nvidia-nim"),
    docs="https://docs.api.nvidia.com/nim/reference/llm-apis",
    notes="hosted, or a NIM of your own",
)
