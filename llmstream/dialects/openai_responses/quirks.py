"""What servers of the Responses API do differently, as data. Defaults are OpenAI's own."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from llmstream.model_rules import CACHED_MODELS, ModelQuirks, change, changed, changes_for, nearest_effort

__all__ = [
    "AnyQuirks",
    "DeliveryQuirks",
    "InputQuirks",
    "ModelQuirks",
    "OutputQuirks",
    "Quirks",
    "ThinkingQuirks",
    "ToolQuirks",
    "change",
]


class InputQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """What the input may hold.

    system:      where the first system message stands: in `instructions` (ChatGPT's backend
        wants them) or as the first message
    system_role: role of system messages in the input; "auto" is `developer` for OpenAI's
        reasoning models, which rank it above the user
    item_ids:    whether items go back with their ids (Copilot gives a new one in every event)
    calls_last:  an answer's calls go back behind its other items: one between two calls parts the
        first from its output (DeepSeek)
    urls:        whether images and files may stay at their addresses (Bedrock fetches from s3 alone)
    plain_items: the input holds messages of text and images, functions and outputs, and no field
        beyond theirs (Perplexity refuses those)
    audio:       whether audio may be sent
    """

    system: Literal["instructions", "message"] = "instructions"
    system_role: Literal["system", "developer", "auto"] = "auto"
    item_ids: bool = True
    calls_last: bool = False
    urls: bool = True
    plain_items: bool = False
    audio: bool = False


class ToolQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Tools.

    choice:         what may be requested (Meta: auto only)
    strict:         whether `strict` is known
    provider_tools: whether tools of the vendor's own are known
    """

    choice: frozenset[Literal["auto", "none", "required", "named"]] = frozenset(
        {"auto", "none", "required", "named"}
    )
    strict: bool = True
    provider_tools: bool = True


class ThinkingQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """How thinking is requested, and how reasoning goes back.

    supported:     False where a model refuses the field `reasoning` (Grok 4.20)
    known_efforts: the efforts that are known, in order; others become the next higher, else the
        highest. None where any may be sent
    efforts:       our effort to the vendor's word, where they differ
    encrypted:     whether to ask for encrypted reasoning, without which a conversation that is
        not stored cannot be continued: "auto" asks models that reason, others refuse
    plain:         whether reasoning goes back without being encrypted (LM Studio, DeepSeek,
        vLLM: open models)
    """

    supported: bool = True
    known_efforts: tuple[str, ...] | None = None
    efforts: Mapping[str, str] = {}
    encrypted: Literal["auto", "always", "never"] = "auto"
    plain: bool = False

    def effort_word(self, effort: str) -> str:
        """The vendor's word for an effort."""
        if effort not in self.efforts and self.known_efforts:
            effort = nearest_effort(effort, self.known_efforts)
        return self.efforts.get(effort, effort)


class OutputQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """Answers in JSON.

    chat_response_format: a schema goes into `response_format`, as in Chat Completions, not into `text`
    json_object:          False where JSON of any shape can be requested in the prompt only
    """

    chat_response_format: bool = False
    json_object: bool = True


class DeliveryQuirks(msgspec.Struct, frozen=True, kw_only=True):
    """How an answer can be made and read.

    background: whether answers can be made in the background, stored and read on
    websocket:  whether answers can come over a WebSocket (OpenAI, Azure, xAI; seen 2026-11)
    steering:   whether an answer over a WebSocket takes input while it comes (OpenAI alone)
    """

    background: bool = True
    websocket: bool = True
    steering: bool = True


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """How one vendor's Responses API differs from OpenAI's (all seen by 2026-08).

    path:                 of the endpoint below the base URL
    headers:              fixed headers of every request
    extra_body:           fixed fields of every request
    store:                what is sent as `store`. No conversation is stored at the vendor unless requested;
        None leaves the field out (OpenRouter refuses it)
    unsupported_settings: names of `Settings` fields the wire has no word for
    reasoning_model_rules: OpenAI's models refuse sampling and efforts that they do not know, see
        `model_rules/gpt.py`; these are left out with a warning. Text of their reasoning comes where a
        summary is asked for
    open_model_rules:     the model's name decides by `model_rules/open_models.py` which efforts it knows
    by_model:             what is different for some models; where several fit, later ones win
    """

    path: str = "/responses"
    headers: Mapping[str, str] = {}
    extra_body: Mapping[str, Any] = {}
    store: bool | None = False
    unsupported_settings: frozenset[str] = frozenset(
        {"top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}
    )

    input: InputQuirks = InputQuirks()
    tools: ToolQuirks = ToolQuirks()
    thinking: ThinkingQuirks = ThinkingQuirks()
    output: OutputQuirks = OutputQuirks()
    delivery: DeliveryQuirks = DeliveryQuirks()

    reasoning_model_rules: bool = True
    open_model_rules: bool = False
    by_model: tuple[ModelQuirks[AnyQuirks], ...] = ()

    def __hash__(self) -> int:
        # For the cache of `for_model`. Mappings have no hash, and few quirks meet for one model's name.
        return hash(self.path)

    def for_model(self, model: str) -> Quirks:
        """These quirks, with the differences for one model."""
        return _of_model(self, model)


AnyQuirks: TypeAlias = Quirks | InputQuirks | ToolQuirks | ThinkingQuirks | OutputQuirks | DeliveryQuirks
"""What a model may change."""


@functools.lru_cache(CACHED_MODELS)
def _of_model(quirks: Quirks, model: str) -> Quirks:
    changes = changes_for(model, quirks.by_model)
    if quirks.open_model_rules:
        from llmstream.model_rules.open_models import OPEN_MODELS  # 2 ms, only for hosts of open models

        rules = OPEN_MODELS.find(model)
        if not rules.thinks or not (rules.efforts or rules.can_stop_thinking):
            changes.insert(0, change(ThinkingQuirks, supported=False))
        elif rules.efforts:
            off = ("none",) if rules.can_stop_thinking else ()
            changes.insert(0, change(ThinkingQuirks, known_efforts=(*off, *rules.efforts)))
    return changed(quirks, changes)
