"""GitHub Copilot serves models of several vendors to its subscribers.

- The address has no `/v1`.
- `GITHUB_COPILOT_API_KEY` and `GITHUB_COPILOT_API_TOKEN` hold a Copilot token; `COPILOT_GITHUB_TOKEN` holds
  a GitHub token that may make Copilot requests (a fine-grained one with that permission, or an OAuth
  token). `GITHUB_TOKEN` is not read: a token for all of GitHub's API should not be sent here.
- `max_tokens` is refused in favour of `max_completion_tokens`.
- `reasoning_effort` is refused for Claude up to 4.5 and left out, with a warning; Claude 4.6 knows `low` to
  `max`, Opus from 4.7 on also `xhigh` (charmbracelet/crush#2902, anomalyco/opencode#34438).
- `copilot-integration-id` (`GITHUB_COPILOT_INTEGRATION_ID`, else `vscode-chat`) decides which models are
  listed and on whose account they count; hosts of companies may ask for `editor-version`. Both are sent,
  `headers=` replaces them.
- Only models whose entry in `/models` lists `/chat/completions` answer here: Grok and the codex models are
  at `/responses` only, Claude is also at `/v1/messages`.
- Some programs exchange a GitHub token for a Copilot token first
  (`api.github.com/copilot_internal/v2/token`); the service takes the GitHub token as it is.
- Claude's and Gemini's reasoning comes as `reasoning_text`, its signature as `reasoning_opaque`; both are
  sent back with the message. Reasoning without a signature is left out with a warning (pydantic-ai's probe
  of 2026-09).
- The API is not documented by GitHub as a public one; what is here was seen in public clients.
- PDFs and audio are refused before anything is sent; text documents are sent as text.

Sources:

- <https://docs.github.com/en/copilot> (seen 2026-11)
"""

from llmstream.dialects.openai_chat import (
    MediaQuirks,
    ModelQuirks,
    OpenAIChat,
    Quirks,
    ReasoningQuirks,
    ThinkingQuirks,
    change,
)
from llmstream.providers.base import Provider

COPILOT = Provider(
    name="copilot",
    title="GitHub Copilot",
    dialect=OpenAIChat(
        Quirks(
            system_role="system",
            reasoning_model_rules=True,
            wire_rules=False,  # its own lists say what a model takes (seen 2026-11, pydantic-ai 2.68.0)
            media=MediaQuirks(files=False, audio_formats=frozenset()),
            reasoning=ReasoningQuirks(
                # Claude's and Gemini's thoughts; Gemini refuses tool results whose call lost its signature
                # (probed by pydantic-ai 2026-09; karthink/gptel#1384, anomalyco/opencode#8900).
                field="reasoning_text",
                echo="all",
            ),
            by_model=(
                # "model claude-sonnet-4.5 does not support reasoning effort"; 4.6 takes low to max and
                # only Opus from 4.7 xhigh (seen 2026-06, charmbracelet/crush#2902, anomalyco/opencode#34438).
                ModelQuirks(
                    "claude",
                    change(ThinkingQuirks, known_efforts=("low", "medium", "high", "max")),
                    change(Quirks, reasoning_model_rules=False),
                ),
                ModelQuirks(
                    r"claude-opus-4\.[7-9]",
                    change(ThinkingQuirks, known_efforts=("low", "medium", "high", "xhigh", "max")),
                ),
                ModelQuirks(
                    r"claude-(?:3|\w+-4(?:$|-|\.[0-5]))|gpt-4|gemini|grok",
                    change(ThinkingQuirks, style="none"),
                ),
            ),
        )
    ),
    base_url="https://api.githubcopilot.com",
    base_url_env=("GITHUB_COPILOT_BASE_URL", "COPILOT_API_URL", "GITHUB_COPILOT_API_BASE"),
    key_env=("GITHUB_COPILOT_API_KEY", "GITHUB_COPILOT_API_TOKEN", "COPILOT_GITHUB_TOKEN"),
    # Which program asks decides quota and models; hosts of companies may want to know the editor (seen
    # 2026-09: pydantic-ai's and litellm's Copilot providers). The plain api.githubcopilot.com needs neither.
    headers={"copilot-integration-id": "vscode-chat", "editor-version": "vscode/1.95.0"},
    header_env={"copilot-integration-id": "GITHUB_COPILOT_INTEGRATION_ID"},
    aliases=("github-copilot",),
    docs="https://docs.github.com/en/copilot",
    notes="a GitHub token that may make Copilot requests, or a Copilot token",
)
