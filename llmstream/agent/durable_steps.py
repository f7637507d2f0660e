"""The port by which a run survives its process: `Steps`, steps that are recorded under keys.

An engine has to do no more than to call a function again after a crash. The run then starts from its
beginning, and whatever is recorded under its key is not done again. Nothing is found by counting, so parallel
calls may end in any order, and a newer version of the agent may have one tool, hook or step more.

    await steps.step("3/model", do, again=True)       # what is recorded; else does it, and records it
    await steps.wait("3/decision/approval_1f", None)  # what others gave: a decision, a message, a result

Keys of a run (3 is the number of the step; the first is 0):

    3/history               what a context effect made of the history
    3/effects               the tokens of effects that changed what the model sees, and not the history;
                            3/effects/2 those of the next process, if one died before the response
    3/inbox                 the messages that were sent to the run and delivered before step 3; 3/inbox/2 is
                            number 2 and later ones, which came while the run was about to end
    3/before_model          decision of the hook; the same for 3/after_model
    3/model                 the response, as its events with neighbouring deltas joined
    3/model/stored          where the vendor stores the response, once it has an id; the second one of a step,
                            after a first that could not be read, 3/model/stored/2
    3/before_tool/<call>    the verdict on a call: of the hook, of `repair`, of the approver
    3/approval/<call>       the request for a decision; its id is random, so it is recorded before it is shown
    3/call/<call>           the call; the second time it runs, such as after a decision, 3/call/<call>/2
    3/after_tool/<call>     decision of the hook
    3/suspension            the suspended run; its id is random, so it is recorded before anybody is asked
    3/resumption            the decisions and results with which the run went on
    3/decision/<approval>   given by others: a decision of a person; 3/result/<call> is an external result
    inbox/2                 given by others: message number 2 that was sent to the run. At its end the run
                            itself records nothing, as b"", under the number of the next message
    3/call/<call>/0/model   the steps of a sub-agent stand below the call that runs it

Rules for an implementation, which `llmstream.durable.conformance` checks:

- `step` returns what is recorded under the key, or was given under it. Otherwise it records that the step
  has *begun*, awaits `do`, records the bytes as *done*, and returns them. Both records are durable before it
  continues. With `again=True` the first one may be left out, since no one has to know of it.
- A step that has begun in a process which is dead, and is not done, is done again with `again=True`; with
  `again=False` it raises `Interrupted`, each time.
- What `do` raises passes unchanged, and nothing is recorded as done. Cancellation too.
- Steps of one run are in progress side by side.
- `wait` returns what was given or recorded under the key. With `timeout_s=0` it only looks. With a time it
  returns None after that; with None it waits as long as the engine lets a run wait. An engine that frees the
  process of a waiting run returns None at once: the run is then suspended, and starts again when something
  was given.
- A process that has lost the run to another one gets `Lost` from its next `step`.

`llmstream.durable.Runs` is such an engine; adapters for others are some lines each.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeAlias

from llmstream.errors import Lost

__all__ = ["Do", "RunOver", "Steps", "SubAgentSteps", "no_nul", "result_key"]

Do: TypeAlias = Callable[[], Awaitable[bytes]]


class RunOver(Lost):
    """The run has ended without this step; hooks that have not decided are no longer called."""


class Steps(Protocol):
    """Where a run records its steps; see the module.

    run: id of the run, unique among all runs; `ToolContext.key` begins with it. That of a sub-agent's run
         is the key of the call that runs it
    """

    run: str

    async def step(self, key: str, do: Do, *, again: bool) -> bytes:
        """Returns what is recorded under the key, or does the step and records it.

        do:     does the step and returns what to record: UTF-8 text, JSON
        again:  whether a step that broke off may be done again
        raises: Interrupted if it may not; Lost if another process has the run; RunOver if it has ended; what
                `do` raises
        """

    async def wait(self, key: str, timeout_s: float | None) -> bytes | None:
        """Returns what is recorded or was given under the key; None if there is nothing in time.

        timeout_s: 0 looks and does not wait; None is as long as the engine lets a run wait
        raises:    Lost
        """


def result_key(call_id: str) -> str:
    """The last part of the key of an external result."""
    return f"result/{no_nul(call_id)}"


def no_nul(call_id: str) -> str:
    """The id of a call in a key: PostgreSQL has no text with NUL, and a vendor may send anything."""
    return call_id.replace("\0", "%00")


class SubAgentSteps:
    """The steps of a sub-agent: those of its parent, below a key."""

    def __init__(self, steps: Steps, key: str) -> None:
        self.run = f"{steps.run}/{key}"
        self._steps = steps
        self._below = key

    async def step(self, key: str, do: Do, *, again: bool) -> bytes:
        """As in `Steps`."""
        return await self._steps.step(f"{self._below}/{key}", do, again=again)

    async def wait(self, key: str, timeout_s: float | None) -> bytes | None:
        """As in `Steps`."""
        return await self._steps.wait(f"{self._below}/{key}", timeout_s)
