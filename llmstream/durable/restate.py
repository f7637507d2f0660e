"""Durable runs as workflows of Restate (extra `restate`): its server restarts them, llmstream has the steps.

    app = restate.app([workflow(agent, runs)])                # serve it, and register it with the server
    POST /llmstream.clerk/order-4711/run  "Ship it."          # at the server: the key is the id of the run

Producing the run until it is over or waits is one entry of Restate's journal, which is found by counting. The
steps of the run stay under their keys in the database of `Runs`, so their order does not matter and tools
run at most once. While a run waits, Restate suspends the workflow, and no process has it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Mapping
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Final, TypedDict

from llmstream.agent.agent import Agent
from llmstream.agent.recorder import decision_from
from llmstream.durable.durable_run import RunInfo
from llmstream.durable.runs import Runs
from llmstream.errors import InvalidRequest, LLMStreamError, LogUnavailable, RunNotFound, Unsupported

if TYPE_CHECKING:
    from restate import Workflow, WorkflowContext

__all__ = ["workflow"]

_MISSING: Final = "durable runs on Restate need the extra `restate`: pip install 'llmstream-sdk[restate]'"

# How long a workflow sleeps before it checks for input to its run. Each check adds two entries to Restate's
# journal, so the interval grows.
_FIRST_LOOK_S: Final = 1.0
_LAST_LOOK_S: Final = 900.0

# Restate cuts the connection to a handler that is silent for this long after a minute of inactivity, and
# calls it again. A response and its tools are one entry, and may take long.
_ABORT: Final = timedelta(days=1)

# Status of the error by which Restate's SDK reports that an invocation was cancelled.
_CANCELLED: Final = 409


class _Found(TypedDict):
    """The status of a run that Restate stores.

    error:   code and message of one that ended without an answer
    waits:   the approval or call id of each call that it waits for; None if it is over
    """

    text: str
    error: tuple[str, str] | None
    waits: list[str] | None


class DecideInput(TypedDict, total=False):
    """The body of a request to `decide`.

    decisions: by `approval_id`: a bool, or {"approve": bool, "reason": ..., "arguments": ...}
    results:   of external calls, by `call_id`
    """

    decisions: dict[str, bool | dict[str, Any]]
    results: dict[str, Any]


def workflow(agent: Agent[Any, Any], runs: Runs) -> Workflow:
    """The Restate workflow "llmstream.NAME" for `restate.app`; its key is the id of the run.

    Its handlers: `run` takes the prompt and returns the text of the answer; `decide` takes `DecideInput`,
    records it as `Runs.decide` does, and wakes the workflow. A decision made through `Runs.decide` is noticed
    later: at first after a second, at most after a quarter of an hour. Cancelling the workflow stops the run.

    agent:  needs a name
    runs:   used by the event loop that serves the app
    raises: InvalidRequest for an agent without a name; Unsupported without the extra. The workflow raises
            `restate.TerminalError` for a run that failed or was stopped; its message begins with the code
    """
    try:
        from restate import TerminalError, Workflow
    except ImportError:
        raise Unsupported(_MISSING) from None
    if not agent.name:
        raise InvalidRequest("an agent of durable runs needs a name: Agent(model, name='clerk')")
    made = Workflow(f"llmstream.{agent.name}", abort_timeout=_ABORT)

    # Restate evaluates the annotations in the globals of this module, which has no `WorkflowContext`.
    async def run(context: Any, prompt: str) -> str:
        produce = functools.partial(_produced, agent, runs, context.key(), prompt)
        look_s = _FIRST_LOOK_S
        try:
            found: _Found = await context.run_typed("llmstream.run", produce)
            while (waits := found["waits"]) is not None:
                look_s = await _woken(context, waits, look_s)
                found = await context.run_typed("llmstream.run", produce)
        except TerminalError as error:
            if error.status_code == _CANCELLED:
                with contextlib.suppress(RunNotFound):  # cancelled before it began
                    await runs.stop(context.key())
            raise
        if found["error"] is not None:
            raise TerminalError(": ".join(found["error"]))
        return found["text"]

    async def decide(context: Any, given: DecideInput) -> None:
        decisions, results = given.get("decisions", {}), given.get("results", {})
        try:
            await runs.decide(context.key(), _decisions(decisions), results=results)
        except (InvalidRequest, RunNotFound) as error:
            raise TerminalError(f"{error.code}: {error.message}", 400) from None
        for name in [*decisions, *results]:
            await context.promise(name).resolve(True)

    made.main()(run)
    made.handler()(decide)
    return made


def _decisions(given: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: decision_from(value) if isinstance(value, Mapping) else value for name, value in given.items()
    }


async def _produced(agent: Agent[Any, Any], runs: Runs, run_id: str, prompt: str) -> _Found:
    """Produces a run, or follows the process that does, until it has ended, or waits without new input.

    raises: LogUnavailable for an unreachable database; Restate then retries
    """
    try:
        while not (info := await runs.run(agent, run_id, prompt)).is_over:
            if info.state == "waiting" and not info.ready:
                return _Found(text=info.text, error=None, waits=_waits(info))
    except LogUnavailable:
        raise
    except LLMStreamError as error:  # such as an id used by another agent
        return _Found(text="", error=(error.code, error.message), waits=None)
    return _Found(text=info.text, error=info.failure, waits=None)


def _waits(info: RunInfo) -> list[str]:
    return [call.approval_id or call.call_id for call in info.pending]


async def _woken(context: WorkflowContext, waits: list[str], look_s: float) -> float:
    """Waits for input or the next check; returns how long to wait the next time."""
    from restate import wait_completed

    given = [context.promise(name).value() for name in waits]
    await wait_completed(context.sleep(timedelta(seconds=look_s)), *given)
    return min(2 * look_s, _LAST_LOOK_S)
