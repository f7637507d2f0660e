"""xAI serves the Grok models behind the Chat Completions wire.

- Tool calls come complete, and their index carries no information; the key `finish_reason` may be missing
  altogether.
- A delta of `reasoning_content` may be repeated word for word; the repetition is dropped.
- `completion_tokens` leave reasoning out, so it is added; cached tokens may exceed `prompt_tokens`, and
  then come on top.
- `citations` come on the last chunk and become sources.
- An overloaded server answers 200 with the JSON object `{code, error}`; a wrong key is a 400.
- Reasoning models refuse `stop` and the penalties. They are left out with a warning;
  `provider_options={"xai": {...}}` sends them all the same. grok-2 and grok-4.20-non-reasoning take them.
- `reasoning_effort`: grok-4.3 knows `none` to `high`, 4.5 `low` to `high`, 4.6 and later also `xhigh`;
  these always think. grok-3-mini knows `none`, `low` and `high`, grok-4.20 refuses it.
- Names of 2025 (grok-3, grok-4-0709, grok-4-fast, grok-4-1-fast) are answered by grok-4.3, with its
  efforts.
- Live search by `search_parameters` is gone; web and X search are tools of xAI's Responses API.
- Tool results have to be in the order of their calls.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.x.ai/docs/api-reference> (seen 2026-11)
- <https://docs.x.ai/developers/model-capabilities/text/reasoning> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    AnyQuirks,
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    SettingQuirks,
    ThinkingQuirks,
    UsageQuirks,
    change,
)
from llmstream.providers.base import Provider

# Names of 2025 that grok-4.3 answers for since 2026-05-15, with its efforts.
#
# source: docs.x.ai "May 15 retirement"; pydantic-ai-slim 2.68.0 profiles/grok.py (grok-latest tried live)
RETIRED_SLUGS: ModelQuirks[AnyQuirks] = ModelQuirks(
    r"grok-3(?!-mini)|grok-4-0709|grok-4-(?:1-)?fast|grok-latest",
    change(ThinkingQuirks, style="effort", known_efforts=("none", "low", "medium", "high"), always=False),
    change(SettingQuirks, unsupported=frozenset({"top_k", "stop", "presence_penalty", "frequency_penalty"})),
)

XAI = Provider(
    name="xai",
    title="xAI",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=False,
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            settings=SettingQuirks(
                # Its reasoning models, by now nearly all, refuse stop and penalties (seen 2026-07).
                unsupported=frozenset({"top_k", "stop", "presence_penalty", "frequency_penalty"}),
            ),
            thinking=ThinkingQuirks(
                # Its page on reasoning (seen 2026-11): grok-4.3 takes none to high, 4.5 and later always
                # think.
                known_efforts=("none", "low", "medium", "high"),
            ),
            open_model_rules=True,
            by_model=(
                ModelQuirks(
                    r"grok-[12]|grok-4.*non-reasoning",
                    change(SettingQuirks, unsupported=frozenset({"top_k"})),
                ),
                RETIRED_SLUGS,
                # "This model does not support parameter reasoningEffort" (seen 2026-11, @ai-sdk/xai 5.0.12).
                ModelQuirks(r"grok-4(?:$|\.20)", change(ThinkingQuirks, style="none")),
            ),
            reasoning=ReasoningQuirks(
                field="reasoning_content",
                # Deltas of reasoning may come twice, word for word (seen 2026-07, vercel/ai drops them too).
                dedupe=True,
            ),
            # completion_tokens lack reasoning, and cached tokens may exceed prompt_tokens (seen 2026-11).
            usage=UsageQuirks(output_excludes_reasoning=True, input_may_exclude_cached=True),
        )
    ),
    base_url="https://api.x.ai/v1",
    base_url_env=("XAI_BASE_URL", "XAI_API_BASE"),
    key_env=("XAI_API_KEY", "GROK_API_KEY"),
    aliases=("grok", "x-ai"),
    docs="https://docs.x.ai/docs/api-reference",
    notes="completion tokens leave reasoning out on the wire; we add it",
)
