"""Finds what a run waits for, also while its other calls still run and it is not suspended yet."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from llmstream.durable.store import KeptStep, RunRecord
from llmstream.tools.approval import PendingCall

__all__ = ["pending_calls"]


class _Verdict(msgspec.Struct):
    """The part of a recorded verdict that says whether the call waits."""

    kind: str
    pending: PendingCall | None = None


_decode = msgspec.json.Decoder(_Verdict).decode


def pending_calls(record: RunRecord, steps: Mapping[str, KeptStep]) -> dict[str, int]:
    """The steps in which calls wait, by the last part of the key that others give: "decision/<approval>"."""
    waiting = record.waits_for
    found = {
        f"decision/{call.approval_id}" if call.approval_id else f"result/{call.call_id}": waiting.step
        for call in waiting.pending
    }
    for key, step in steps.items():
        if "/before_tool/" in key and step.data is not None:
            verdict = _decode(step.data)
            if verdict.kind == "wait" and verdict.pending is not None and verdict.pending.approval_id:
                # A sub-agent's stand below the step of the run itself, which waits for it.
                found.setdefault(f"decision/{verdict.pending.approval_id}", int(key.partition("/")[0]))
    return found
