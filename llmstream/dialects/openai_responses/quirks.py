"""What servers of the Responses API do differently, as data. Defaults are OpenAI's own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import msgspec

__all__ = ["Quirks"]


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
    reasoning_model_rules: OpenAI's reasoning models refuse temperature and top_p (gpt-5.1 and
        later take them at effort "none"); they are left out with a warning
    unsupported_settings: names of `Settings` fields the wire has no word for
    efforts:        our effort -> the vendor's word, where they differ
    item_ids:       whether items go back with their ids (Copilot gives a new one in every event)
    plain_reasoning: whether reasoning goes back without being encrypted (LM Studio, DeepSeek,
        vLLM: open models)
    strict_tools:   whether `strict` is known
    provider_tools: whether tools of the vendor's own are known
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
    reasoning_model_rules: bool = True
    unsupported_settings: frozenset[str] = frozenset(
        {"top_k", "stop", "seed", "presence_penalty", "frequency_penalty"}
    )
    efforts: Mapping[str, str] = msgspec.field(default_factory=lambda: {"max": "xhigh"})
    item_ids: bool = True
    plain_reasoning: bool = False
    strict_tools: bool = True
    provider_tools: bool = True
    audio: bool = False
    background: bool = True
    websocket: bool = True
    steering: bool = True
    extra_body: Mapping[str, Any] = {}
    headers: Mapping[str, str] = {}
