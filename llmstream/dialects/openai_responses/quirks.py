"""What servers of the Responses API do differently, as data. Defaults are OpenAI's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

from llmstream.dialects.requests import ModelQuirks, changes_for
from llmstream.model_rules.table import nearest_effort

__all__ = ["ModelQuirks", "Quirks"]


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """How one vendor's Responses API differs from OpenAI's (all seen by 2026-08).

    path:           of the endpoint below the base URL
    store:          what is sent as `store`. We keep no conversation at the vendor unless asked;
        None leaves the field out (OpenRouter refuses it)
    encrypted:      whether to ask for encrypted reasoning, without which a conversation that is
        not stored cannot go on: "auto" asks models that reason, others refuse
    system:         where the first system message stands: in `instructions` (ChatGPT's backend
        wants them) or as the first message
    system_role:    role of system messages in the input; "auto" says `developer` to OpenAI's
        reasoning models, which rank it above the user
    by_model:       what is different for some models; where several fit, later ones win
    reasoning_model_rules: OpenAI's models refuse sampling and efforts that they do not know, see
        `model_rules/gpt.py`; these are left out with a warning. Text of their reasoning comes where a
        summary is asked for
    unsupported_settings: names of `Settings` fields the wire has no word for
    reasoning:      False where a model refuses the field (Grok 4.20)
    known_efforts:  the efforts that are known, in order; others become the next higher, else the
        highest. None where any may be sent
    efforts:        our effort -> the vendor's word, where they differ
    open_model_rules: the model's name says by `model_rules/open_models.py` which efforts it knows
    item_ids:       whether items go back with their ids (Copilot gives a new one in every event)
    plain_reasoning: whether reasoning goes back without being encrypted (LM Studio, DeepSeek,
        vLLM: open models)
    calls_last:     an answer's calls go back behind its other items: one between two calls parts the
        first from its output (DeepSeek)
    tool_choice:    what may be asked for (Meta: auto only)
    strict_tools:   whether `strict` is known
    provider_tools: whether tools of the vendor's own are known
    urls:           whether images and files may stay at their addresses (Bedrock fetches from s3 alone)
    plain_items:    the input holds messages of text and images, functions and outputs, and no field
        beyond theirs (Perplexity refuses those)
    chat_response_format: a schema goes into `response_format`, as in Chat Completions, not into `text`
    json_object:    False where JSON of any shape can be asked for in words only
    audio:          whether recordings may be sent
    background:     whether answers can be made in the background, kept and read on
    websocket:      whether answers can come over a WebSocket (OpenAI, Azure, xAI; read 2026-11)
    steering:       whether an answer over a WebSocket takes input while it comes (OpenAI alone)
    extra_body:     fixed fields of every request
    headers:        fixed headers of every request
    """

    path: str = "/responses"
    store: bool | None = False
    encrypted: Literal["auto", "always", "never"] = "auto"
    system: Literal["instructions", "message"] = "instructions"
    system_role: Literal["system", "developer", "auto"] = "auto"
    by_model: tuple[ModelQuirks, ...] = ()
    reasoning_model_rules: bool = True
    unsupported_settings: frozenset[str] = frozenset(
        {"top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}
    )
    reasoning: bool = True
    known_efforts: tuple[str, ...] | None = None
    efforts: Mapping[str, str] = {}
    open_model_rules: bool = False
    item_ids: bool = True
    plain_reasoning: bool = False
    calls_last: bool = False
    tool_choice: frozenset[Literal["auto", "none", "required", "named"]] = frozenset(
        {"auto", "none", "required", "named"}
    )
    strict_tools: bool = True
    provider_tools: bool = True
    urls: bool = True
    plain_items: bool = False
    chat_response_format: bool = False
    json_object: bool = True
    audio: bool = False
    background: bool = True
    websocket: bool = True
    steering: bool = True
    extra_body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}

    def for_model(self, model: str) -> Quirks:
        """These quirks, with what is different for one model."""
        changes = changes_for(model, self.by_model)
        if self.open_model_rules:
            from llmstream.model_rules.open_models import OPEN_MODELS  # 2 ms, for hosts of open models alone

            rules = OPEN_MODELS.find(model)
            if not rules.thinks or not (rules.efforts or rules.can_stop_thinking):
                changes = {"reasoning": False, **changes}
            elif rules.efforts:
                off = ("none",) if rules.can_stop_thinking else ()
                changes = {"known_efforts": (*off, *rules.efforts), **changes}
        return msgspec.structs.replace(self, **changes) if changes else self

    def effort_word(self, effort: str) -> str:
        """The vendor's word for an effort."""
        if effort not in self.efforts and self.known_efforts:
            effort = nearest_effort(effort, self.known_efforts)
        return self.efforts.get(effort, effort)
