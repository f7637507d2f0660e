"""An agent: a model, its instructions and its tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Unpack

from llmstream.agent import option_checks as checks
from llmstream.agent.config import AgentConfig
from llmstream.agent.context.effects import ContextEffect
from llmstream.agent.decisions import Approve, Deny
from llmstream.agent.history import settled
from llmstream.agent.hooks import Hooks, Repair
from llmstream.agent.journal import Journal
from llmstream.agent.loop import Loop
from llmstream.agent.option_checks import MAX_STEPS, TOOL_LIMIT
from llmstream.agent.plan import PrepareStep
from llmstream.agent.recovery import recovered
from llmstream.agent.resumption import Resumption
from llmstream.agent.run import AgentRun
from llmstream.agent.sharing import own_view, shared_message
from llmstream.agent.state import Price, RunState
from llmstream.agent.stop import StopCondition, as_conditions
from llmstream.agent.sub_agent import sub_agent_tool
from llmstream.agent.suspension import Suspension
from llmstream.agent.unfinished import check_finished
from llmstream.agent.watching import ObserveRun
from llmstream.chats.chat import Chat
from llmstream.chats.content import ToolResult
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.model import Model
from llmstream.streams.options import Options, Prompt, as_messages, make_request, with_defaults, with_system
from llmstream.tools import Approver, Tool, wrapped

__all__ = ["Agent"]


class Agent:
    """Runs a model and its tools until no calls remain, or until a stop condition holds.

    name:         the sender of its messages, and what its events and suspensions say whose they are
    instructions: the system prompt
    max_steps:    how often the model may be asked in one run: 20, if nothing else is said
    stop_when:    conditions, sync or async, asked after each step and its tools; see `llmstream.agent.stop`
    prepare_step: may change model, tools, messages and so on for one step; see `StepPlan`
    context_effects: what of a long conversation the model is shown, after `prepare_step`; see
                  `llmstream.agent.context`. The history keeps everything, but for effects that replace
    hooks:        asked before and after each answer and call; see `Hooks`
    approve:      asked about calls that need approval; without, or where it gives None, the run
                  is suspended
    approval_key: makes the digests of a suspension HMACs, so that nobody without it can forge one
    approval_ttl_s: how long a suspension may be resumed; None for ever
    repair:       given a call that cannot run, may give one that can
    context:      the application's own object, for tools that take a `ToolContext`
    price:        what a model's tokens cost, for `cost_estimate` and `cost_over`
    tool_limit:   how many calls run at once
    journal:      the file that each call is written to before it runs and its result after, as a
                  `Journal` or its path; see `recover`
    observe_run:  called with an `AgentObservation` where a run, a call of a model or a tool begins or ends
    options:      as for `stream` (tools, settings and so on), used at every step

    raises: InvalidRequest for what cannot be meant; None is as if it were not given
    """

    def __init__(
        self,
        model: str | Model,
        *,
        name: str = "",
        instructions: str | None = None,
        max_steps: int | None = MAX_STEPS,
        stop_when: StopCondition | Iterable[StopCondition] | None = (),
        prepare_step: PrepareStep | None = None,
        context_effects: ContextEffect | Iterable[ContextEffect] | None = (),
        hooks: Hooks | None = None,
        approve: Approver | None = None,
        approval_key: bytes | None = None,
        approval_ttl_s: float | None = None,
        repair: Repair | None = None,
        context: Any = None,
        price: Price | None = None,
        tool_limit: int | None = TOOL_LIMIT,
        journal: Journal | str | os.PathLike[str] | None = None,
        observe_run: ObserveRun | None = None,
        **options: Unpack[Options],
    ) -> None:
        self.model = model if isinstance(model, Model) else Model(model)
        self.name = checks.text_or_none("name", name) or ""
        self.max_steps = checks.at_least_one("max_steps", max_steps, MAX_STEPS)
        self.context = context
        options = with_defaults(self.model.options, options)
        system = options.get("system")
        options["system"] = ""  # it is in the instructions, and the model's own is not put before them
        self._instructions = checks.text_or_none(
            "instructions", system if instructions is None else instructions
        )
        options["tools"] = wrapped(options.get("tools") or ())
        self._config = AgentConfig(
            model=self.model,
            name=self.name,
            options=options,
            max_steps=self.max_steps,
            stop_when=as_conditions(stop_when),
            prepare_step=checks.function_or_none("prepare_step", prepare_step),
            context_effects=checks.effects_of(context_effects),
            hooks=checks.hooks_of(hooks),
            approve=checks.function_or_none("approve", approve),
            repair=checks.function_or_none("repair", repair),
            price=checks.function_or_none("price", price),
            approval_key=checks.key_or_none(approval_key),
            approval_ttl_s=checks.seconds_or_none("approval_ttl_s", approval_ttl_s),
            tool_limit=checks.at_least_one("tool_limit", tool_limit, TOOL_LIMIT),
            journal=checks.journal_of(journal),
            observe_run=checks.function_or_none("observe_run", observe_run),
        )
        make_request(self.model.name, [Message.user("?")], options)  # wrong options fail here and now

    def __repr__(self) -> str:
        return f"Agent({self.model!r})" if not self.name else f"Agent({self.model!r}, name={self.name!r})"

    @property
    def observe_run(self) -> ObserveRun | None:
        """The observer of its runs; one that is set counts from the next run on."""
        return self._config.observe_run

    @observe_run.setter
    def observe_run(self, observe: ObserveRun | None) -> None:
        self._config = replace(self._config, observe_run=observe)

    def stream(self, prompt: Prompt, *, context: Any = None, within_s: float | None = None) -> AgentRun:
        """One run as one stream of events over all its steps; nothing is sent until it is read.

        prompt:   as for `ls.stream`; nothing is appended to a Chat. Calls in it that nobody answered get a
                  result that says that they were cancelled
        context:  in place of the agent's
        within_s: seconds after which the run ends in DeadlineExceeded, if `Deadlines.total_s` is longer
        raises:   InvalidRequest for an option that cannot mean anything
        """
        conversation = settled(with_system(self._instructions, as_messages(prompt)))
        make_request(self.model.name, conversation, self._config.options)  # and a wrong prompt here
        return AgentRun(
            Loop(self._config, self._state(conversation, context), total_s=self._total_s(within_s))
        )

    async def run(self, prompt: Prompt, *, context: Any = None) -> Message:
        """Runs to the end and gives the last message that says something.

        A run that `max_steps` cut short, or that waits for a decision, has no answer to give, so both
        are errors here. `stream` gives the run itself, which says so in `stopped_by` and `suspended`.

        raises: LLMStreamError where a step failed, with what came in `.partial`; LimitExceeded where
                the model still wanted tools at the last step; RunSuspended, with the `.suspension`
        """
        async with self.stream(prompt, context=context) as run:
            message = await run.collect()
        check_finished(run)
        return message

    def resume(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Iterable[ToolResult] = (),
        context: Any = None,
        within_s: float | None = None,
    ) -> AgentRun:
        """Goes on with a run that was suspended, by this agent or its like in another process.

        The calls that were approved run now, with just the arguments that were shown; calls that
        were done before do not run again. What is left undecided suspends the run anew. Sub-agents
        that wait are in it and go on where they were: decisions about their calls are given here too.

        decisions: by `approval_id`; True and False for `Approve()` and `Deny()`
        results:   of calls that ran elsewhere, by the `call_id` of what is pending
        within_s:  as for `stream`
        raises:    InvalidRequest where the suspension is not genuine, has expired or was resumed
                   before, and for decisions that belong to no call of it
        """
        resumption = self.check(suspension, decisions, results=results)
        state = self._state(suspension.messages, context)
        state.step = suspension.step
        state.usage_by_model = dict(suspension.usage_by_model)
        state.cost_estimate = suspension.cost_estimate
        return AgentRun(Loop(self._config, state, total_s=self._total_s(within_s), resumption=resumption))

    def check(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Iterable[ToolResult] = (),
    ) -> Resumption:
        """Whether `resume` would take these, without resuming anything.

        raises: InvalidRequest as `resume`
        """
        if not isinstance(suspension, Suspension):
            raise InvalidRequest(f"a run is resumed from its Suspension, got {suspension!r}")
        return Resumption.of(suspension, decisions, results, agent=self.name, key=self._config.approval_key)

    def recover(self, journal: Journal | str | os.PathLike[str]) -> list[Message]:
        """The history of this agent's last run in a journal, after a crash or not; `stream` goes on with it.

        Calls that were done keep their results, and nothing runs. A call that the crash interrupted
        gets an error as its result, for the model to read: that it may have had effects, or that it
        may be repeated, where its tool is `idempotent` or `eager`; one that had not begun, that it
        has not run.

        raises: InvalidRequest where no run of an agent of this name is in it; DecodeError where it is
                damaged in other ways than by a crash; OSError where it cannot be read
        """
        return recovered(journal, self.name)

    async def respond(self, chat: Chat, *, context: Any = None) -> Message:
        """Answers in a conversation of several: its message is appended, with its name as the sender.

        It sees what other agents said as users' messages with their names before them. Its tool
        work stays its own: only the answer joins the chat.

        raises: InvalidRequest where the agent has no name; LLMStreamError as `run`, and then nothing
                is appended
        """
        if not self.name:
            raise InvalidRequest("an agent in a chat needs a name: Agent(model, name='critic')")
        said = await self.run(own_view(chat.messages(), self.name), context=context)
        message = shared_message(said, self.name)
        chat.append(message)
        return message

    def as_tool(self, name: str | None = None, description: str = "", **options: Any) -> Tool:
        """This agent as a tool of another: the model gives it a prompt, and its answer is the result.

        Its events reach the run above as preliminary results; `nested_event` takes them out. Its
        tokens count there too.

        name:    by default the agent's
        options: of `Tool`, such as `timeout_s` or `needs_approval`
        """
        return sub_agent_tool(self, name or self.name, description, **options)

    def _state(self, conversation: list[Message], context: Any) -> RunState:
        config = self._config
        app = self.context if context is None else context
        return RunState(app, config.clock, config.price, conversation=conversation)

    def _total_s(self, within_s: float | None) -> float | None:
        total_s = (self._config.options.get("deadlines") or self.model.deadlines).total_s
        given = checks.seconds_or_none("within_s", within_s)
        limits = [limit for limit in (total_s, given) if limit is not None]
        return min(limits, default=None)
