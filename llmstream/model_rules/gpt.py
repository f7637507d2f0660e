"""What OpenAI's models take and refuse, in Responses and in Chat Completions.

Sources, read 2026-11: developers.openai.com (pages of the models, guides "Reasoning" and "Using the latest
model"); openai 3.54 (names of models); pydantic-ai-slim 2.68 `profiles/openai.py` (tried live there);
@ai-sdk/openai 4.0.118 `openai-model-catalog.ts`; litellm 1.109 for sizes.
"""

from __future__ import annotations

from typing import Final, Literal

import msgspec

from llmstream.model_rules import Row, Table

__all__ = ["GPT", "GPTRules"]


class GPTRules(msgspec.Struct, frozen=True, kw_only=True):
    """One row. Defaults are the common ground: what a model of an unknown name is trusted with.

    reasons:           it is a reasoning model: system messages go as `developer`, reasoning comes back
                       encrypted
    efforts:           those it knows, () where it takes none; None where the name is not enough. Chat
                       Completions refuses `max` on every model (pydantic-ai-slim 2.68, litellm-docs#1173)
    sampling:          whether temperature, top_p and penalties may be set: always, at the effort none, never
    summaries:         whether Responses gives summaries of its reasoning (not: o1, o3-mini, computer-use)
    stop:              whether Chat Completions takes stop sequences (refused: gpt-6-astra, live,
                       bolna-ai/bolna#1019; o3 and o4-mini, openai 3.54; gpt-5 and later, litellm 1.109)
    chat:              whether Chat Completions serves it at all
    chat_tools:        when Chat Completions takes function tools: always, unless an effort is requested, at
                       the effort none, or never (BerriAI/litellm#34569, onyx-dot-app/onyx#15008,
                       can1357/oh-my-pi#11052, openai/openai-openapi#541)
    context_tokens:    of the input; None where unknown
    max_output_tokens: more is refused; None where unknown
    """

    reasons: bool = False
    efforts: tuple[str, ...] | None = None
    sampling: Literal["always", "at-none", "never"] = "always"
    summaries: bool = True
    stop: bool = True
    chat: bool = True
    chat_tools: Literal["always", "without-effort", "at-none", "never"] = "always"
    context_tokens: int | None = None
    max_output_tokens: int | None = None

    @property
    def chat_efforts(self) -> tuple[str, ...] | None:
        """The efforts that Chat Completions takes."""
        return None if self.efforts is None else tuple(e for e in self.efforts if e != "max")


_UP_TO_XHIGH: Final = ("none", "low", "medium", "high", "xhigh")
_PLAIN: Final = GPTRules(efforts=())
_REASONS: Final = GPTRules(
    reasons=True,
    efforts=("low", "medium", "high"),
    sampling="never",
    stop=False,
    context_tokens=272_000,
    max_output_tokens=128_000,
)
_GPT_5: Final = msgspec.structs.replace(_REASONS, efforts=("minimal", "low", "medium", "high"))
_O_SERIES: Final = msgspec.structs.replace(_REASONS, context_tokens=200_000, max_output_tokens=100_000)
_NEWEST: Final = msgspec.structs.replace(
    _REASONS,
    efforts=("low", "medium", "high", "xhigh", "max"),
    chat_tools="never",
    context_tokens=922_000,
)
_CAN_STOP_REASONING: Final = msgspec.structs.replace(
    _NEWEST, efforts=(*_UP_TO_XHIGH, "max"), sampling="at-none", chat_tools="at-none"
)
_AT_REQUEST: Final = msgspec.structs.replace(_REASONS, efforts=_UP_TO_XHIGH, sampling="at-none")
_WITHOUT_EFFORT: Final = msgspec.structs.replace(_AT_REQUEST, chat_tools="without-effort")
_PRO: Final = msgspec.structs.replace(_REASONS, efforts=("medium", "high", "xhigh"))
_CHAT_LATEST: Final = msgspec.structs.replace(
    _REASONS, efforts=("medium",), context_tokens=128_000, max_output_tokens=16_384
)

_LIVE: Final = "pydantic-ai-slim 2.68 (live 2026-07 to 2026-10), @ai-sdk/openai 4.0.118"
_PAGES: Final = "developers.openai.com: page of the model; @ai-sdk/openai 4.0.118"


def _row(models: str, rules: GPTRules, source: str = _LIVE) -> Row[GPTRules]:
    """A row for names that begin so, after "vendor/", "ft:" or "vendor."."""
    return Row(rf"(?:^|[/:.])(?:{models})", rules, "2026-11", source)


def _responses_only(rules: GPTRules, efforts: str) -> GPTRules:
    return msgspec.structs.replace(rules, efforts=tuple(efforts.split()), chat=False)


# Rules by name, such as `gpt-6-astra`, `openai/gpt-5-mini` or `ft:gpt-4.1-2025-04-14:acme`.
GPT: Final = Table(
    _row(r"gpt-5\.[123]-pro", _PRO),
    _row(r"gpt-5\.\d+-pro", msgspec.structs.replace(_PRO, chat_tools="never", context_tokens=1_050_000)),
    _row(r"gpt-6-(?:sol|luna)|gpt-6\.1-terra|gpt-5\.(?:[6-9]|\d\d)", _CAN_STOP_REASONING),
    _row(r"gpt-5\.[123]-chat", _CHAT_LATEST),
    _row(r"gpt-5-chat", msgspec.structs.replace(_PLAIN, context_tokens=128_000, max_output_tokens=16_384)),
    _row(r"gpt-5-pro", msgspec.structs.replace(_responses_only(_REASONS, "high"), max_output_tokens=272_000)),
    _row(r"gpt-5-codex", _responses_only(_REASONS, "low medium high"), _PAGES),
    _row(r"gpt-5\.1-codex-max", _responses_only(_REASONS, "medium high xhigh"), _PAGES),
    _row(r"gpt-5\.1-codex", _responses_only(_REASONS, "low medium high"), _PAGES),
    _row(r"gpt-5\.\d+-codex", _responses_only(_AT_REQUEST, "none low medium high xhigh"), _PAGES),
    # 5.5 reasons by default, as 5.6 does; whether Chat Completions accepts tools then is not known.
    _row(r"gpt-5\.5", msgspec.structs.replace(_AT_REQUEST, chat_tools="at-none", context_tokens=1_050_000)),
    _row(r"gpt-5\.4-(?:mini|nano)", _WITHOUT_EFFORT),
    _row(r"gpt-5\.4", msgspec.structs.replace(_WITHOUT_EFFORT, context_tokens=1_050_000)),
    _row(r"gpt-5\.1", msgspec.structs.replace(_AT_REQUEST, efforts=("none", "low", "medium", "high"))),
    _row(r"gpt-5\.[23]", _AT_REQUEST),
    _row(r"gpt-5(?!\d|\.\d)", _GPT_5),
    _row(r"o1-(?:mini|preview)", msgspec.structs.replace(_O_SERIES, efforts=()), _PAGES),
    _row(r"o1-pro", msgspec.structs.replace(_responses_only(_O_SERIES, "low medium high"), summaries=False)),
    _row(r"o\d-pro|o\d(?:-mini)?-deep-research", _responses_only(_O_SERIES, "low medium high"), _PAGES),
    _row(r"o1|o3-mini", msgspec.structs.replace(_O_SERIES, stop=True, summaries=False)),
    _row(r"o\d", _O_SERIES),
    # "Model incompatible request argument supplied: temperature" (@ai-sdk/openai 4.0.118).
    _row(r"gpt-4o(?:-mini)?-search-preview", msgspec.structs.replace(_PLAIN, sampling="never"), _PAGES),
    _row(
        r"gpt-4\.1",
        msgspec.structs.replace(_PLAIN, context_tokens=1_047_576, max_output_tokens=32_768),
        _PAGES,
    ),
    _row(
        r"gpt-4o|chatgpt-4o|gpt-audio",
        msgspec.structs.replace(_PLAIN, context_tokens=128_000, max_output_tokens=16_384),
        _PAGES,
    ),
    _row(r"gpt-[34](?!\d)", _PLAIN, _PAGES),
    _row(r"computer-use|codex-mini", msgspec.structs.replace(_REASONS, chat=False, summaries=False), _PAGES),
    # gpt-6-astra, gpt-6.1-sol and gpt-6.2-* by their pages; others are newer than this table.
    _row(r"gpt-(?:[5-9]|\d\d)|gpt-(?:daybreak|rosalind)", _NEWEST),
    unknown=GPTRules(),
)
