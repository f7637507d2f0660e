"""An agent: a model, its instructions and its tools; and an agent as a tool of another."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Generic, Unpack, overload

from llmstream.agent.config import (
    MAX_STEPS,
    TOOL_LIMIT,
    AgentArguments,
    AgentConfig,
    RunOptions,
    at_least_one,
    at_least_zero,
    check_names,
    effects_of,
    extended,
    function_or_none,
    hooks_of,
    instructions_of,
    journal_of,
    key_or_none,
    overridden,
    seconds_or_none,
    text_or_none,
    when_interrupted,
)
from llmstream.agent.context import ContextEffect
from llmstream.agent.durable_steps import Steps
from llmstream.agent.history import ChatHistory, own_view, settled, shared_message
from llmstream.agent.hooks import Hooks, Instructions, PrepareStep, Repair
from llmstream.agent.journal import Journal, recovered
from llmstream.agent.loop import Loop
from llmstream.agent.nested import Nested, Spent, Waits
from llmstream.agent.observing import ObserveRun
from llmstream.agent.recorder import WhenInterrupted
from llmstream.agent.run import AgentRun, answer_of, check_finished
from llmstream.agent.state import MAX_INVALID_CALLS, Price, RunState, StopCondition, as_conditions
from llmstream.agent.suspension import Continuation, Results, Resumption, Suspension
from llmstream.chats.chat import Chat
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest, LLMStreamError, ToolError
from llmstream.events import Finish, Raw, StreamStart
from llmstream.other_sdks import AGENT, suggests
from llmstream.streams.model import Model
from llmstream.streams.options import (
    CallOptions,
    Options,
    Prompt,
    as_messages,
    asked_settings,
    checked_chat,
    make_request,
    with_defaults,
    with_output,
    with_system,
)
from llmstream.structured import Output, as_output
from llmstream.tools.approval import Approve, Approver, Deny
from llmstream.tools.outcome import ToolOutput
from llmstream.tools.signature import ToolContext
from llmstream.tools.tool import Tool, tool_from_function
from llmstream.tools.toolset import ToolSet

if TYPE_CHECKING:
    from typing_extensions import TypeVar  # a default (PEP 696) is what type checkers know

    Deps = TypeVar("Deps", default=Any)
    T = TypeVar("T", default=Any)
    V = TypeVar("V")
else:
    from typing import TypeVar

    Deps, T = TypeVar("Deps"), TypeVar("T")

__all__ = ["Agent"]


@suggests(AGENT)
class Agent(Generic[Deps, T]):
    """Runs a model and its tools until no calls remain, or until a stop condition holds.

    `Agent[Shop, City]` has a Shop as `deps` and answers of type City (`output=City`); without `output`,
    T is Message.

    output:       the type of the answer of a run, or an `Output`; see `run`
    name:         the sender of its messages; also identifies its events and suspensions
    instructions: the system prompt; or a sync or async function of the `RunState` that returns the one
                  of each step, which is not added to the history
    max_steps:    maximum number of steps in one run; 20 by default
    max_invalid_calls: the run stops after this many steps with invalid calls of one tool, which have
                  arguments that do not fit or a name that no tool has; a valid call resets the count.
                  3 by default; None for no limit
    empty_retries: how many empty answers a run may retry
    stop_when:    sync or async conditions, called after each step and its tools; see `llmstream.agent.state`
    prepare_step: may change model, tools, messages and so on for one step; see `StepPlan`
    context_effects: select the messages of a long conversation that are sent, after `prepare_step`; see
                  `llmstream.agent.context`. The history stays complete, unless an effect replaces it
    hooks:        called before and after each response and call; see `Hooks`
    approve:      decides about calls that need approval; without it, or if it returns None, the run
                  is suspended
    approval_key: signs suspensions by HMAC, so that they cannot be forged without the key
    approval_ttl_s: how long a suspension may be resumed; None for no limit
    repair:       receives a call that cannot run, and may return one that can
    deps:         the application's object, for tools that take a `ToolContext`
    price:        returns the cost of tokens, for `cost_estimate` and `cost_over`
    tool_limit:   maximum number of concurrent calls
    tool_timeout_s: for each call of a tool without its own `timeout_s`
    journal:      a `Journal` or the path of one: each call is written to it before it runs, and its result
                  afterwards; see `recover`
    interrupted:  in a durable run, for a call that a crash interrupted and whose tool is not `idempotent`:
                  "report" to the model that it may have had effects; "ask" a person, which suspends the
                  run; or run it "again"
    observe:      called with an `AgentObservation` when a run, a model call or a tool begins or ends
    options:      as for `stream` (tools, settings and so on), used in every step; a `tool_choice` that
                  forces a call applies until one was made, or with `stop_when` in each step

    raises: InvalidRequest for invalid arguments; None means not given
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
        interrupted: WhenInterrupted = "report",
        observe: ObserveRun | None = None,
        **arguments: Unpack[CallOptions],
    ) -> None:
        check_names(arguments.keys(), _OWN_OPTIONS)
        self.model = model if isinstance(model, Model) else Model(model)
        self.name = text_or_none("name", name) or ""
        self.max_steps = at_least_one("max_steps", max_steps, MAX_STEPS)
        self.deps = deps
        # The model's options apply where the agent sets none.
        options = with_defaults(self.model.options, with_output(output, arguments))
        options["output"] = as_output(options.get("output"))
        inherited = options.get("instructions")
        options["instructions"] = ""  # the agent adds them itself; the model's default must not come first
        given = instructions_of(inherited if instructions is None else instructions)
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
            else at_least_one("max_invalid_calls", max_invalid_calls, MAX_INVALID_CALLS),
            empty_retries=at_least_zero("empty_retries", empty_retries),
            stop_when=as_conditions(stop_when),
            prepare_step=function_or_none("prepare_step", prepare_step, "state"),
            context_effects=effects_of(context_effects),
            hooks=hooks_of(hooks),
            approve=function_or_none("approve", approve, "pending"),
            repair=function_or_none("repair", repair, "call", "error"),
            price=function_or_none("price", price, "model", "usage"),
            approval_key=key_or_none(approval_key),
            approval_ttl_s=seconds_or_none("approval_ttl_s", approval_ttl_s),
            tool_limit=at_least_one("tool_limit", tool_limit, TOOL_LIMIT),
            tool_timeout_s=seconds_or_none("tool_timeout_s", tool_timeout_s),
            journal=journal_of(journal),
            interrupted=when_interrupted(interrupted),
            observe=function_or_none("observe", observe, "observation"),
        )
        make_request(self.model.name, [Message.user("?")], options)  # invalid options fail at once

    def __repr__(self) -> str:
        return f"Agent({self.model!r})" if not self.name else f"Agent({self.model!r}, name={self.name!r})"

    @property
    def output(self) -> Output | None:
        """The type of its answers, if it has one."""
        return as_output(self._config.options.get("output"))

    @property
    def observe(self) -> ObserveRun | None:
        """The observer of its runs; a new one applies from the next run on."""
        return self._config.observe

    @observe.setter
    def observe(self, observe: ObserveRun | None) -> None:
        # Runs in progress share the old configuration and its observer.
        self._config = replace(self._config, observe=observe)

    @overload
    def stream(
        self, prompt: Prompt, *, output: None = None, deps: Deps | None = None, **options: Unpack[RunOptions]
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
        chat: Chat | None = None,
        steps: Steps | None = None,
        **options: Unpack[CallOptions],
    ) -> AgentRun[Any]:
        """Starts a run as one event stream over all steps; nothing is sent until it is read.

        prompt:    as for `ls.stream`; a Chat is not changed. Calls in it without a result get a
                   "cancelled" result
        output:    the type of the answer, instead of the agent's
        deps:      instead of the agent's
        observe:   an observer of this run, in addition to the agent's
        chat:      a `Chat` that the prompt goes on with: it gets the prompt, and each response and the
                   results of its calls as they come
        steps:     where the run records its steps, so that it survives its process; see
                   `llmstream.durable`, whose `Runs` pass it
        extra_instructions: added after the instructions, for this run
        model, instructions, max_steps, stop_when, options: instead of the agent's, for this run: tools,
                   settings, deadlines and so on
        raises:    InvalidRequest for invalid options
        """
        changed = with_output(output, options)
        config = overridden(
            self._config, changed, model=model, max_steps=max_steps, stop_when=stop_when, observe=observe
        )
        given = instructions_of(instructions)
        given = config.instructions or config.system if given is None else given
        given = extended(given, text_or_none("extra_instructions", extra_instructions))
        own = given if isinstance(given, str) else ""
        unchecked = Options() if config is self._config else config.options  # the agent's are checked
        if instructions is not None or extra_instructions is not None:
            config = replace(config, instructions=None if isinstance(given, str) else given, system=own)
        asked = as_messages(prompt)
        earlier = [] if chat is None else checked_chat(chat).messages()
        # Vendors refuse a conversation in which a call has no result.
        conversation = settled(with_system(own, [*earlier, *asked]))
        make_request(config.model.name, conversation, unchecked)  # an invalid prompt fails at once
        state = self._state(conversation, deps)
        history = _chat_history(chat, config, asked, state.conversation)
        return AgentRun(Loop(config, state, total_s=_total_s(config), chat=history, steps=steps))

    @overload
    async def run(
        self, prompt: Prompt, *, output: None = None, deps: Deps | None = None, **options: Unpack[RunOptions]
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
        """Runs to the end and returns the answer: the last message with content, as a `Message`.

        With `output=T` it is the validated value of that type; the model repairs an answer that does
        not fit, as in `AgentRun.objects`.

        A run that waits for a decision, reached a limit or has no content raises an error, with the
        content so far in `.partial` and the cause in `.reason`. `stream` returns the run itself, with
        `suspended`, `limit_reached` and `finish_reason`. A run that the application ends by a hook, a
        tool or its own stop condition raises no error.

        raises: LLMStreamError if a step failed; LimitExceeded if `max_steps`, `max_invalid_calls` or a
                limit of `llmstream.agent.state` was reached before the model had finished;
                ContentFiltered; InvalidOutput if the answer is empty or does not fit the type;
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
        chat: Chat | None = None,
        steps: Steps | None = None,
        **options: Unpack[CallOptions],
    ) -> AgentRun[T]:
        """Continues a suspended run, of this agent or an equal one in another process.

        Approved calls run with the arguments that were shown, or with those in `Approve`; the hook
        `before_tool` is called again. Finished calls do not run again. Undecided calls suspend the run
        again. Suspended sub-agents are part of the suspension and continue too: pass the decisions
        about their calls here.

        decisions: by `approval_id`; True and False for `Approve()` and `Deny()`
        results:   of external calls: ToolResults, or values by the `call_id` of the pending call; or by the
                   id that the call has in the events, if an earlier step used it
        chat:      the one that was passed to `stream`
        model, max_steps, stop_when, observe, options: as for `stream`; a suspension does not store them
        raises:    InvalidRequest if the suspension was altered, has expired or was resumed before, for
                   decisions that belong to no call of it, and for approved arguments that do not fit
        """
        changed = with_output(output, options)
        config = overridden(
            self._config, changed, model=model, max_steps=max_steps, stop_when=stop_when, observe=observe
        )
        # A durable run records its steps, so the record prevents a second use of the suspension.
        resumption = self.check(suspension, decisions, results=results, again=steps is not None)
        state = self._state(suspension.messages, deps)
        state.step = suspension.step
        # A copy: a suspension is a value that may be saved or shown again.
        state.usage_by_model = dict(suspension.usage_by_model)
        state.cost_estimate = suspension.cost_estimate
        history = _chat_history(chat, config, [], state.conversation)
        total_s = _total_s(config)
        return AgentRun(
            Loop(config, state, total_s=total_s, resumption=resumption, chat=history, steps=steps)
        )

    def check(
        self,
        suspension: Suspension,
        decisions: Mapping[str, Approve | Deny | bool] = {},
        *,
        results: Results = (),
        again: bool = False,
    ) -> Resumption:
        """Checks the arguments of `resume` without resuming.

        again: whether the suspension may have been resumed before, with the same decisions
        raises: InvalidRequest as `resume`
        """
        if not isinstance(suspension, Suspension):
            raise InvalidRequest(f"a run can only be resumed from a Suspension, got {suspension!r}")
        found = Resumption.of(
            suspension, decisions, results, agent=self.name, key=self._config.approval_key, again=again
        )
        # Checked before anything runs: invalid edited arguments are the approver's mistake, not the model's.
        found.check_edits(ToolSet.of(self._config.options.get("tools") or ()).current())
        return found

    def recover(self, journal: Journal | str | os.PathLike[str]) -> list[Message]:
        """The history of this agent's last run in a journal, for example after a crash; pass it to `stream`.

        Finished calls keep their results, and nothing runs. A call that the crash interrupted gets an
        error result for the model: it may have had effects, or, if its tool is `idempotent` or `eager`,
        it may be repeated. A call that had not begun gets the error that it has not run.

        raises: InvalidRequest if it contains no run of an agent of this name; DecodeError if it is
                damaged otherwise than by a crash; OSError if it cannot be read
        """
        return recovered(journal, self.name)

    async def respond(self, chat: Chat, *, deps: Deps | None = None) -> Message:
        """Runs the agent in a chat of several agents and appends its answer, with its name as the sender.

        Messages of other agents are sent as user messages with the sender's name in front. Tool calls and
        results are not added to the chat.

        raises: InvalidRequest if the agent has no name; LLMStreamError as `run`, and then nothing
                is appended
        """
        if not self.name:
            raise InvalidRequest("an agent in a chat needs a name: Agent(model, name='critic')")
        async with self.stream(own_view(chat.messages(), self.name), deps=deps) as run:
            await run.collect()
        # Before reading the message: a run without an answer adds nothing to the chat.
        check_finished(run)
        message = shared_message(run.message, self.name)
        chat.append(message)
        return message

    def as_tool(self, name: str | None = None, description: str = "", **options: Any) -> Tool:
        """This agent as a tool of another: the argument is a prompt, the result its answer.

        Its events are preliminary results in the parent run; `nested_event` decodes them. Its tokens and
        their cost count in the parent run too; without a `price` of its own it has that of the parent.

        name:    by default the agent's
        options: of `Tool`, such as `timeout_s` or `needs_approval`
        raises:  InvalidRequest if neither tool nor agent has a name
        """
        own = name or self.name
        if not own:
            raise InvalidRequest("an agent used as a tool needs a name: agent.as_tool('research', ...)")
        text = description or f"Ask the agent {own}."
        return tool_from_function(_SubAgent(self, own), name=own, description=text, **options)

    def _state(self, conversation: list[Message], deps: Any) -> RunState:
        config = self._config
        given = self.deps if deps is None else deps
        return RunState(given, config.clock, config.price, conversation=conversation)


def _chat_history(
    chat: Chat | None, config: AgentConfig, prompt: list[Message], history: list[Message]
) -> ChatHistory | None:
    """Creates the object that adds a run to its chat."""
    if chat is None:
        return None
    model = config.model
    asked = asked_settings(with_defaults(model.options, config.options))
    return ChatHistory(chat.turn(f"{model.provider.name}:{model.name}", asked), prompt, history)


def _total_s(config: AgentConfig) -> float | None:
    return (config.options.get("deadlines") or config.model.deadlines).total_s


class _SubAgent:
    """An agent as the function of a tool: starts a run of it, or resumes a suspended one."""

    def __init__(self, agent: Agent, name: str) -> None:
        self.agent = agent
        self._name = name

    def check_continuation(self, continuation: Continuation) -> None:
        """See `Continues`."""
        self.agent.check(continuation.suspension, continuation.decisions, results=continuation.results)

    async def __call__(self, prompt: str, context: ToolContext) -> ToolOutput:
        async with self._run(prompt, context) as run:
            try:
                await _report_events(run, self.agent.name or self._name, context)
            except LLMStreamError as error:
                # For the model of the parent run, which may continue without the sub-agent.
                raise ToolError(f"The agent {self._name} failed: {error}") from error
            finally:
                # Also for a failed run: its tokens are billed.
                await context.report(Spent(tuple(run.state.spent)))
            if run.suspended is not None:
                # Reported before the error: a caller that can wait uses the report, and ignores the error.
                await context.report(Waits(run.suspended))
                # A caller that cannot wait reads this error.
                waiting = ", ".join(map(str, run.suspended.pending))
                raise ToolError(f"The agent {self._name} cannot continue without a decision about {waiting}.")
            return ToolOutput(run.text, value=self._value(run))

    def _value(self, run: AgentRun[Any]) -> Any:
        """The answer for the application: the value if it has an output type, else the message.

        raises: ToolError if the run has no answer, or one that does not fit its type
        """
        try:
            return answer_of(run)
        except LLMStreamError as error:
            raise ToolError(f"The agent {self._name} returned no answer: {error}") from error

    def _run(self, prompt: str, context: ToolContext) -> AgentRun[Any]:
        found = context.continued
        if isinstance(found, Continuation):
            run = self.agent.resume(
                found.suspension,
                found.decisions,
                results=found.results,
                deps=context.deps,
                steps=context.steps,
            )
        else:
            run = self.agent.stream(prompt, deps=context.deps, steps=context.steps)
        # The parent's deadline applies to all its sub-runs.
        run._limit(context.remaining_s)
        run.state.price = run.state.price or context.price
        return run


async def _report_events(run: AgentRun[Any], name: str, context: ToolContext) -> None:
    """Reports the events of the run, without start and finish: the call itself marks these."""
    async for event in run:
        # A run has one start and one finish: the sub-agent's would end the parent's run.
        if not isinstance(event, StreamStart | Finish | Raw):
            await context.report(Nested(name, event))


_OWN_OPTIONS: Final = signature(Agent).parameters.keys() - {"model", "arguments"}
