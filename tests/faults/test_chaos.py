"""A good body made bad by `chaos`: typed, or harmless."""

from __future__ import annotations

import pytest
from faultmatrix.asking import PATIENT, QUICK_IDLE, answered, ask
from faultmatrix.wires import WIRES

import llmstream as ls
from llmstream.testing import chaos

EXPECTED = {
    "cut": ls.IncompleteStream,
    "reset": ls.ConnectionLost,
    "stall": ls.DeadlineExceeded,
    "overloaded": (ls.Overloaded, ls.ServerError),
    "doubled": type(None),
    "split": type(None),
}


@pytest.mark.parametrize("wire", WIRES.values(), ids=str)
@pytest.mark.parametrize("kind", EXPECTED)
async def test_chaos_is_typed_or_harmless(wire, kind) -> None:
    body = wire.half + wire.text("ö") + wire.rest
    if wire.framing == "aws" and kind in ("overloaded", "doubled"):
        with pytest.raises(ls.InvalidRequest):
            chaos(body, kind, dialect=wire.dialect)
        return
    steps = chaos(body, kind, dialect=wire.dialect, at=len(wire.half))
    # Only where silence is the fault: elsewhere a busy machine can be silent for 0.1 s.
    deadlines = QUICK_IDLE if kind == "stall" else PATIENT
    got = await ask(wire, answered(wire, *steps, end=kind != "reset"), deadlines=deadlines)
    assert isinstance(got.error, EXPECTED[kind])
    assert got.text.startswith("Hel")
