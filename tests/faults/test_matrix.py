"""Every fault of the catalogue by every wire it applies to; `docs/faults.md` shows the table."""

from __future__ import annotations

import pytest
from faultmatrix.catalogue import FAULTS
from faultmatrix.wires import WIRES

from llmstream.streams import answer
from llmstream.transport import http

CELLS = [
    pytest.param(fault, wire, id=f"{fault.row}: {fault.name}-{wire.name}", marks=pytest.mark.row(fault.row))
    for fault in FAULTS
    for wire in WIRES.values()
    if wire.name not in fault.not_for
]


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for after a complete answer is waited for less, as nothing but time comes of it."""
    monkeypatch.setattr(http, "_DRAIN_S", 0.05)
    monkeypatch.setattr(answer, "_TRAILER_S", 0.2)


@pytest.mark.parametrize(("fault", "wire"), CELLS)
async def test_a_fault_leads_to_what_is_promised(fault, wire) -> None:
    await fault.check(wire)
