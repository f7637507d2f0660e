"""An agent: a model, its instructions and its tools."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack, overload

from llmstream.agent import option_checks as checks
from llmstream.agent.config import AgentConfig
from llmstream.agent.context.effects import ContextEffect
from llmstream.agent.decisions import Approve, Deny
from llmstream.agent.history import settled
from llmstream.agent.hooks import Hooks, Repair
from llmstream.agent.journal import Journal
from llmstream.agent.loop import Loop
from llmstream.agent.misses import MAX_INVALID_CALLS
from llmstream.agent.option_checks import MAX_STEPS, TOOL_LIMIT
from llmstream.agent.overriding import extended, overridden
from llmstream.agent.plan import Instructions, PrepareStep
from llmstream.agent.recovery import recovered
from llmstream.agent.resumption import Results, Resumption
from llmstream.agent.run import AgentRun
from llmstream.agent.sharing import own_view, shared_message
from llmstream.agent.state import Price, RunState
from llmstream.agent.stop import StopCondition, as_conditions
from llmstream.agent.sub_agent import sub_agent_tool
from llmstream.agent.suspension import Suspension
from llmstream.agent.unfinished import answer_of, check_finished
from llmstream.agent.watching import ObserveRun
from llmstream.chats.chat import Chat
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.streams.model import Model
from llmstream.streams.options import (
    CallOptions,
    Prompt,
    as_messages,
    make_request,
    with_defaults,
    with_output,
    with_system,
)
from llmstream.structured import Output, as_output
from llmstream.tools import Approver, Tool, ToolSet

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    Deps = TypeVar("Deps", default=Any)
    T = TypeVar("T", default=Any)
    V = TypeVar("V")
else:
    from typing import TypeVar

    Deps, T = TypeVar("Deps"), TypeVar("T")

__all__ = ["Agent", "AgentArguments", "RunOptions"]

_FOREIGN: Final = {
    "run_sync": "asyncio.run(agent.run(prompt))",
    **dict.fromkeys(("invoke", "ainvoke", "arun", "generate", "kickoff"), "await agent.run(prompt)"),
    **dict.fromkeys(("run_stream", "run_streamed", "iter", "astream"), "agent.stream(prompt)"),
}
"""What we have for methods of other SDKs; an AttributeError says so."""


class RunOptions(CallOptions, total=False):
    """What `Agent.stream` and `Agent.run` take by name beside `output` and `deps`; see there."""

    model: str | Model | None
    instructions: str | Instructions | None
    extra_instructions: str | None
    max_steps: int | None
    stop_when: StopCondition | Iterable[StopCondition] | None
    observe: ObserveRun | None


class AgentArguments(CallOptions, total=False):
    """What `Agent` takes by name beside `output` and `deps`; see there."""

    name: str
    instructions: str | Instructions | None
    max_steps: int | None
    max_invalid_calls: int | None
    empty_retries: int
    stop_when: StopCondition | Iterable[StopCondition] | None
    prepare_step: PrepareStep | None
    context_effects: ContextEffect | Iterable[ContextEffect] | None
    hooks: Hooks | None
    approve: Approver | None
    approval_key: bytes | None
    approval_ttl_s: float | None
    repair: Repair | None
    price: Price | None
    tool_limit: int | None
    tool_timeout_s: float | None
    journal: Journal | str | os.PathLike[str] | None
    observe: ObserveRun | None


class Agent(Generic[Deps, T]):
    """Runs a model and its tools until no calls remain, or until a stop condition holds.

    `Agent[Shop, City]` is one whose `deps` is a Shop and whose answers are a City (`output=City`);
    without `output`, T is Message.

    output:       what the answer of a run is to be, a type for one; see `run`
    name:         the sender of its messages, and what its events and suspensions say whose they are
    instructions: the system prompt; or a function of the `RunState`, sync or async, asked for that of each
                  step, which then is no part of the history
    max_steps:    how often the model may be asked in one run: 20, if nothing else is said
    max_invalid_calls: steps in which a tool may be called in vain, with arguments that do not fit or by a
                  name that is no tool's, before the run is stopped; a call that runs begins the count
                  anew. 3, if nothing else is said; None for no limit but that of steps
    empty_retries: how often a run may ask again after an answer that gives nothing
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
    deps:         the application's own object, for tools that take a `ToolContext`
    price:        what a model's tokens cost, for `cost_estimate` and `cost_over`
    tool_limit:   how many calls run at once
    tool_timeout_s: for each call of a tool that has no `timeout_s` of its own
    journal:      the file that each call is written to before it runs and its result after, as a
                  `Journal` or its path; see `recover`
    observe:      called with an `AgentObservation` where a run, a call of a model or a tool begins or ends
    options:      as for `stream` (tools, settings and so on), used at every step; a `tool_choice` that
                  forces a call holds until one was made, or where there is `stop_when`, at each step

    raises: InvalidRequest for what cannot be meant; None is as if it were not given
    """

    @overload
    def __init__(
        self,
        model: Model[T],
        *,
        output: None = None,
        deps: Deps | None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...

    @overload
    def __init__(
        self,
        model: str | Model,
        *,
        output: type[T] | Output[T],
        deps: Deps | None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any, Message], model: str, *, output: None = None, **arguments: Unpack[AgentArguments]
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Deps, Message],
        model: str,
        *,
        deps: Deps,
        output: None = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...

    @overload
    def __init__(
        self: Agent[Any, Any],
        model: str | Model,
        *,
        output: Any,
        deps: Any = None,
        **arguments: Unpack[AgentArguments],
    ) -> None: ...

    def __init__(
        self,
        model: str | Model,
        *,
        output: Any = None,
        name: str = "",
        instructions: str | Instructions | None = None,
        max_steps: int | None = MAX_STEPS,
        max_invalid_calls: int | None = MAX_INVALID_CALLS,
        empty_retries: int = 0,
        stop_when: StopCondition | Iterable[StopCondition] | None = (),
        prepare_step: PrepareStep | None = None,
        context_effects: ContextEffect | Iterable[ContextEffect] | None = (),
        hooks: Hooks | None = None,
        approve: Approver | None = None,
        approval_key: bytes | None = None,
        approval_ttl_s: float | None = None,
        repair: Repair | None = None,
        deps: Deps | None = None,
        price: Price | None = None,
        tool_limit: int | None = TOOL_LIMIT,
        tool_timeout_s: float | None = None,
        journal: Journal | str | os.PathLike[str] | None = None,
        observe: ObserveRun | None = None,
        **arguments: Unpack[CallOptions],
    ) -> None:
        checks.check_names(arguments.keys(), _OWN_OPTIONS)
        self.model = model if isinstance(model, Model) else Model(model)
        self.name = checks.text_or_none("name", name) or ""
        self.max_steps = checks.at_least_one("max_steps", max_steps, MAX_STEPS)
        self.deps = deps
        options = with_defaults(self.model.options, with_output(output, arguments))
        options["output"] = as_output(options.get("output"))
        inherited = options.get("instructions")
        options["instructions"] = ""  # it is in the instructions, and the model's own is not put before them
        given = checks.instructions_of(inherited if instructions is None else instructions)
        self._instructions = given if isinstance(given, str) else None
        options["tools"] = ToolSet.of(options.get("tools") or ())
        self._config = AgentConfig(
            model=self.model,
            name=self.name,
            options=options,
            instructions=None if isinstance(given, str) else given,
            system=self._instructions or "",
            max_steps=self.max_steps,
            max_invalid_calls=None
            if max_invalid_calls is None
            else checks.at_least_one("max_invalid_calls", max_invalid_calls, MAX_INVALID_CALLS),
            empty_retries=checks.whole_number("empty_retries", empty_retries),
            stop_when=as_conditions(stop_when),
            prepare_step=checks.function_or_none("prepare_step", prepare_step, "state"),
            context_effects=checks.effects_of(context_effects),
            hooks=checks.hooks_of(hooks),
            approve=checks.function_or_none("approve", approve),
            repair=checks.function_or_none("repair", repair, "call", "error"),
            price=checks.function_or_none("price", price, "model", "usage"),
            approval_key=checks.key_or_none(approval_key),
            approval_ttl_s=checks.seconds_or_none("approval_ttl_s", approval_ttl_s),
            tool_limit=checks.at_least_one("tool_limit", tool_limit, TOOL_LIMIT),
            tool_timeout_s=checks.seconds_or_none("tool_timeout_s", tool_timeout_s),
            journal=checks.journal_of(journal),
            observe=checks.function_or_none("observe", observe, "observation"),
        )
        make_request(self.model.name, [Message.user("?")], options)  # wrong options fail here and now

    def __repr__(self) -> str:
        return f"Agent({self.model!r})" if not self.name else f"Agent({self.model!r}, name={self.name!r})"

    @property
    def observe(self) -> ObserveRun | None:
        """The observer of its runs; one that is set counts from the next run on."""
        return self._config.observe

    @observe.setter
    def observe(self, observe: ObserveRun | None) -> None:
        self._config = replace(self._config, observe=observe)

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        output: None = None,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentRun[T]: ...

    @overload
    def stream(
        self,
        prompt: Prompt,
        *,
        output: type[V] | Output[V],
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> AgentRun[V]: ...

    @overload
    def stream(
        self, prompt: Prompt, *, output: Any, deps: Deps | None = None, **options: Unpack[RunOptions]
    ) -> AgentRun[Any]: ...

    def stream(
        self,
        prompt: Prompt,
        *,
        output: Any = None,
        deps: Deps | None = None,
        model: str | Model | None = None,
        instructions: str | Instructions | None = None,
        extra_instructions: str | None = None,
        max_steps: int | None = None,
        stop_when: StopCondition | Iterable[StopCondition] | None = None,
        observe: ObserveRun | None = None,
        **options: Unpack[CallOptions],
    ) -> AgentRun[Any]:
        """One run as one stream of events over all its steps; nothing is sent until it is read.

        prompt:    as for `ls.stream`; nothing is appended to a Chat. Calls in it that nobody answered get
                   a result that says that they were cancelled
        output:    what the answer is to be, in place of the agent's
        deps:      in place of the agent's
        observe:   told of this run as the agent's own observer is, which it does not replace
        extra_instructions: behind the instructions, for this run
        model, instructions, max_steps, stop_when, options: in place of the agent's, for this run: tools,
                   settings, deadlines and so on
        raises:    InvalidRequest for an option that cannot mean anything
        """
        changed = with_output(output, options)
        config = overridden(
            self._config, changed, model=model, max_steps=max_steps, stop_when=stop_when, observe=observe
        )
        given = checks.instructions_of(instructions)
        given = config.instructions or config.system if given is None else given
        given = extended(given, checks.text_or_none("extra_instructions", extra_instructions))
        own = given if isinstance(given, str) else ""
        config = replace(config, instructions=None if isinstance(given, str) else given, system=own)
        conversation = settled(with_system(own, as_messages(prompt)))
        make_request(config.model.name, conversation, config.options)  # and a wrong prompt here
        state = self._state(conversation, deps)
        return AgentRun(Loop(config, state, total_s=_total_s(config)))

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output: None = None,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> T: ...

    @overload
    async def run(
        self,
        prompt: Prompt,
        *,
        output: type[V] | Output[V],
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> V: ...

    @overload
    async def run(
        self, prompt: Prompt, *, output: Any, deps: Deps | None = None, **options: Unpack[RunOptions]
    ) -> Any: ...

    async def run(
        self,
        prompt: Prompt,
        *,
        output: Any = None,
        deps: Deps | None = None,
        **options: Unpack[RunOptions],
    ) -> Any:
        """Runs to the end and gives the answer: the last message that says something, as a `Message`.

        With `output=T` it is the value of that type, validated; an answer that does not fit is
        shown to the model, which repairs it, as in `AgentRun.objects`.

        A run that waits for a decision, that a limit cut short or that says nothing has no answer to
        give, so these are errors here, with what came in `.partial` and why in `.reason`. `stream` gives
        the run itself, which says so in `suspended`, `limit_reached` and `finish_reason`. A run that
        the application ends itself, by a hook, a tool or a stop condition of its own, is none.

        raises: LLMStreamError where a step failed; LimitExceeded where `max_steps`, `max_invalid_calls`
                or a condition of `llmstream.agent.stop` that is a budget came before the model was done;
                ContentFiltered; InvalidOutput where the answer is empty or not of the type;
                RunSuspended, with the `.suspension`
        """
        run = self.stream(prompt, output=output, deps=deps, **options)
        async with run:
            await run.collect()
        return answer_of(run)

    def resume(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
        output: Any = None,
        deps: Deps | None = None,
        model: str | Model | None = None,
        max_steps: int | None = None,
        stop_when: StopCondition | Iterable[StopCondition] | None = None,
        observe: ObserveRun | None = None,
        **options: Unpack[CallOptions],
    ) -> AgentRun[T]:
        """Goes on with a run that was suspended, by this agent or its like in another process.

        The calls that were approved run now, with just the arguments that were shown, or those that
        `Approve` has in their place; a hook `before_tool` is asked again. Calls that were done before
        do not run again. What is left undecided suspends the run anew. Sub-agents
        that wait are in it and go on where they were: decisions about their calls are given here too.

        decisions: by `approval_id`; True and False for `Approve()` and `Deny()`
        results:   of calls that ran elsewhere: ToolResults, or values by the `call_id` of what is pending
        model, max_steps, stop_when, observe, options: as for `stream`; they are in no suspension
        raises:    InvalidRequest where the suspension is not genuine, has expired or was resumed
                   before, for decisions that belong to no call of it, and for approved arguments
                   that do not fit
        """
        changed = with_output(output, options)
        config = overridden(
            self._config, changed, model=model, max_steps=max_steps, stop_when=stop_when, observe=observe
        )
        resumption = self.check(suspension, decisions, results=results)
        state = self._state(suspension.messages, deps)
        state.step = suspension.step
        state.usage_by_model = dict(suspension.usage_by_model)
        state.cost_estimate = suspension.cost_estimate
        return AgentRun(Loop(config, state, total_s=_total_s(config), resumption=resumption))

    def check(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
    ) -> Resumption:
        """Whether `resume` would take these, without resuming anything.

        raises: InvalidRequest as `resume`
        """
        if not isinstance(suspension, Suspension):
            raise InvalidRequest(f"a run is resumed from its Suspension, got {suspension!r}")
        found = Resumption.of(suspension, decisions, results, agent=self.name, key=self._config.approval_key)
        found.check_edits(ToolSet.of(self._config.options.get("tools") or ()).current())
        return found

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

    async def respond(self, chat: Chat, *, deps: Deps | None = None) -> Message:
        """Answers in a conversation of several: its message is appended, with its name as the sender.

        It sees what other agents said as users' messages with their names before them. Its tool
        work stays its own: only the answer joins the chat.

        raises: InvalidRequest where the agent has no name; LLMStreamError as `run`, and then nothing
                is appended
        """
        if not self.name:
            raise InvalidRequest("an agent in a chat needs a name: Agent(model, name='critic')")
        async with self.stream(own_view(chat.messages(), self.name), deps=deps) as run:
            await run.collect()
        check_finished(run)
        message = shared_message(run.message, self.name)
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

    if not TYPE_CHECKING:  # a type checker knows better

        def __getattr__(self, name: str) -> Any:
            hint = _FOREIGN.get(name, "")
            raise AttributeError(f"an Agent has no attribute {name!r}{hint and '. Write ' + hint}")

    def _state(self, conversation: list[Message], deps: Any) -> RunState:
        config = self._config
        given = self.deps if deps is None else deps
        return RunState(given, config.clock, config.price, conversation=conversation)


def _total_s(config: AgentConfig) -> float | None:
    return (config.options.get("deadlines") or config.model.deadlines).total_s


_OWN_OPTIONS: Final = signature(Agent).parameters.keys() - {"model", "arguments"}
