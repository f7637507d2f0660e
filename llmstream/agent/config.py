"""What an agent is made of, as a value that its runs share."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from llmstream.agent.context.effects import ContextEffect
from llmstream.agent.hooks import Hooks, Repair
from llmstream.agent.journal import Journal
from llmstream.agent.misses import MAX_INVALID_CALLS
from llmstream.agent.option_checks import MAX_STEPS, TOOL_LIMIT
from llmstream.agent.plan import Instructions, PrepareStep
from llmstream.agent.state import Price
from llmstream.agent.stop import StopCondition
from llmstream.agent.watching import ObserveRun
from llmstream.streams.model import Model
from llmstream.streams.options import Options
from llmstream.tools.approval import Approver

__all__ = ["AgentConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """See `Agent` for what each field means. `clock` gives seconds, for timings and limits of time.

    instructions: those that are asked for at each step
    system:       those that are a text, which stands in the conversation
    """

    model: Model
    name: str = ""
    options: Options = field(default_factory=Options)
    instructions: Instructions | None = None
    system: str = ""
    max_steps: int = MAX_STEPS
    max_invalid_calls: int | None = MAX_INVALID_CALLS
    empty_retries: int = 0
    stop_when: tuple[StopCondition, ...] = ()
    prepare_step: PrepareStep | None = None
    context_effects: tuple[ContextEffect, ...] = ()
    hooks: Hooks = field(default_factory=Hooks)
    approve: Approver | None = None
    repair: Repair | None = None
    price: Price | None = None
    approval_key: bytes | None = None
    approval_ttl_s: float | None = None
    tool_limit: int = TOOL_LIMIT
    tool_timeout_s: float | None = None
    journal: Journal | None = None
    observe: ObserveRun | None = None
    clock: Callable[[], float] = time.monotonic
