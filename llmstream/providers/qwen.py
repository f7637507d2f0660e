"""Alibaba Cloud serves the Qwen models in its compatible mode.

- In China the address is without `-intl`; keys belong to a region.
- Continuations of a tool call carry the id ""; they belong to the call of their index.
- Thinking is requested by `enable_thinking` and `thinking_budget`; Qwen3.8 takes `reasoning_effort` as
  well: `low`, `medium` and `xhigh`. Reasoning arrives as `reasoning_content`.
- The addresses of `dashscope` are called legacy since 2026-10; newer ones are of a workspace and a region,
  `https://WORKSPACE.REGION.maas.aliyuncs.com/compatible-mode/v1`. There are also `dashscope-us` and
  `cn-hongkong`. A key of another region is a 401.
- Recordings go as URLs, also such as hold the data (`data:;base64,...`), as Qwen-Omni wants them. PDFs are
  refused before anything is sent; text documents are sent as text.
- Usage counts tokens written to the cache as `cache_creation_input_tokens` in the details. At most four
  parts may carry `cache_control`.
- `tool_choice: required` is not known everywhere and is left out with a warning; a named tool cannot be
  forced while the model thinks.
- Some models stream only, which is all we do.

Sources:

- <https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference> (seen 2026-11)
- <https://www.alibabacloud.com/help/en/model-studio/deep-thinking> (seen 2026-11)
- <https://www.alibabacloud.com/help/en/model-studio/base-url> (seen 2026-11)
- <https://www.alibabacloud.com/help/en/model-studio/qwen-omni> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    OPENAI_AUDIO,
    MediaQuirks,
    OpenAIChat,
    ThinkingQuirks,
    ToolQuirks,
    change,
    hosted,
)
from llmstream.providers.base import Provider

QWEN = Provider(
    name="qwen",
    title="Alibaba Cloud Model Studio (Qwen)",
    dialect=OpenAIChat(
        hosted(
            # "required" is not known everywhere, and thinking excludes a named tool (seen 2026-11).
            change(ToolQuirks, choice=frozenset({"auto", "none", "named"}), choice_while_thinking=False),
            change(
                MediaQuirks,
                # "type: file" is refused; Qwen-Omni takes audio as URLs, also as data URIs
                # (pydantic-ai-slim 2.68.0, the page on Qwen-Omni, seen 2026-11).
                audio_urls=True,
                audio_formats=OPENAI_AUDIO,
            ),
            # Qwen3.8 knows low, medium and xhigh beside the switch (its page on deep thinking, seen 2026-11).
            change(ThinkingQuirks, style="enable-thinking", effort_beside_switch=True),
        )
    ),
    base_url="https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    base_url_env=("DASHSCOPE_BASE_URL", "DASHSCOPE_API_BASE", "QWENCLOUD_API_BASE"),
    key_env=("DASHSCOPE_API_KEY", "ALIBABA_API_KEY", "QWEN_API_KEY", "QWENCLOUD_API_KEY"),
    aliases=("alibaba", "dashscope", "aliyun"),
    docs="https://www.alibabacloud.com/help/en/model-studio/qwen-api-reference",
    notes="newer: `https://WORKSPACE.REGION.maas.aliyuncs.com/compatible-mode/v1`; keys belong to a region",
)
