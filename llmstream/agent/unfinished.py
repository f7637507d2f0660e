"""Runs that ended without an answer, as errors for those who see only the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llmstream.agent.suspension import Suspension
from llmstream.errors import InvalidRequest, LimitExceeded

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["RunSuspended", "check_finished"]


class RunSuspended(InvalidRequest):
    """A run waits for a decision, or for results, where nobody can give them; `suspension` is the run."""

    def __init__(self, message: str, suspension: Suspension) -> None:
        super().__init__(message, reason="suspended")
        self.suspension = suspension


def check_finished(run: AgentRun) -> None:
    """Makes sure that a run that was read to its end has come to an answer.

    raises: RunSuspended where it waits; LimitExceeded where its limit of steps cut it short
    """
    if run.error is not None:  # said, or raised, by the run itself
        return
    if run.suspended is not None:
        waiting = ", ".join(map(str, run.suspended.pending))
        waits = RunSuspended(
            f"the run waits for {waiting}, which nobody here decides. Give the agent approve=, or use "
            "stream() and its `suspended`; this error has that in `suspension`.",
            run.suspended,
        )
        waits.partial, waits.usage = run.message, run.usage
        raise waits
    if run.cut_short:
        limit = LimitExceeded(
            f"the run was cut short at its limit of {len(run.steps)} steps, and the model was not done. "
            "Raise max_steps, or use stream() and its messages() to go on.",
            reason="max_steps",
        )
        limit.partial, limit.usage = run.message, run.usage
        raise limit
