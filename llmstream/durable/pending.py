"""Finds what a run waits for, also while its other calls still run and it is not suspended yet."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from llmstream.durable.store import KeptStep, RunRecord
from llmstream.tools.approval import PendingCall

__all__ = ["pending_calls"]

_decode = msgspec.json.Decoder(PendingCall).decode


def pending_calls(record: RunRecord, steps: Mapping[str, KeptStep]) -> dict[str, int]:
    """The steps in which calls wait, by the last part of the key that others give: "decision/<approval>"."""
    waiting = record.waits_for
    found = {
        f"decision/{call.approval_id}" if call.approval_id else f"result/{call.call_id}": waiting.step
        for call in waiting.pending
    }
    for key, step in steps.items():
        if "/approval/" in key and step.data is not None:
            # A sub-agent's stand below the step of the run itself, which waits for it.
            number = int(key.partition("/")[0])
            found.setdefault(f"decision/{_decode(step.data).approval_id}", number)
    return found
