"""Runs that ended without an answer, as errors for those who see only the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llmstream.agent.records import is_empty
from llmstream.errors import ContentFiltered, InvalidOutput, LimitExceeded, LLMStreamError, RunSuspended

if TYPE_CHECKING:
    from llmstream.agent.run import AgentRun

__all__ = ["answer_of", "check_finished"]


def answer_of(run: AgentRun) -> Any:
    """What a run that was read to its end has come to: of an answer of a type its value, else the message.

    raises: as `check_finished`; InvalidOutput where the answer is not of the type
    """
    check_finished(run)
    return run.object if run.typed else run.message


def check_finished(run: AgentRun) -> None:
    """Makes sure that a run that was read to its end has come to an answer.

    What the application itself ends, by a hook, a tool or a stop condition of its own, is an end like
    any other, unless nothing at all was said and called.

    raises: the run's own error, however it was read; RunSuspended where it waits; LimitExceeded where a
            limit cut it short: `reason` names it;
            ContentFiltered where the vendor's filter did; InvalidOutput where the answer is empty or none
    """
    if run.error is not None:  # also where `errors="events"` keeps the run's own reader from it
        raise run.error
    error = _suspended(run) or _over_limit(run)
    if error is None:
        error = _no_answer(run) if run.stopped_by is None else _stopped(run)
    if error is not None:
        error.partial, error.usage = run.message, run.total_usage
        raise error


def _suspended(run: AgentRun) -> LLMStreamError | None:
    if run.suspended is None:
        return None
    waiting = ", ".join(map(str, run.suspended.pending))
    error = RunSuspended(
        f"the run waits for {waiting}, which nobody here decides. Give the agent approve=, or use "
        "stream() and its `suspended`; this error has that in `suspension`.",
        reason="suspended",
    )
    error.suspension = run.suspended
    return error


def _over_limit(run: AgentRun) -> LLMStreamError | None:
    match run.limit_reached:
        case None:
            return None
        case "max_steps":
            what = (
                f"the run was cut short at its limit of {len(run.steps)} steps, and the model was not done."
            )
            remedy = "Raise max_steps, or use stream() and its messages() to go on."
        case "invalid_calls":
            what = "the model made the same invalid calls again and again, although it could read why."
            remedy = "See the results in `partial` and messages(); max_invalid_calls= allows more of them."
        case _:
            what = f"the run was stopped by {run.stopped_by} before the model was done."
            remedy = "Raise the limit, or use stream() and its messages() to go on."
    return LimitExceeded(f"{what} {remedy}", reason=run.limit_reached)


def _stopped(run: AgentRun) -> LLMStreamError | None:
    message = run.message
    if message.tool_calls or not is_empty(message):
        return None
    return InvalidOutput(
        f"the run was ended before the model answered: {run.stopped_by}.",
        provider=run.model.provider.name,
        reason="stopped",
    )


def _no_answer(run: AgentRun) -> LLMStreamError | None:
    provider = run.model.provider.name
    if run.finish_reason == "content-filter":
        return ContentFiltered(
            "the vendor's filter withheld the answer; what came before is in `partial`.",
            provider=provider,
            reason="content-filter",
        )
    if is_empty(run.message):
        return InvalidOutput(
            "the answer is empty: the model gave neither text nor a file. empty_retries= asks again.",
            provider=provider,
            reason="empty",
        )
    return None
