"""Every fault and drill, in the order of the rows."""

from __future__ import annotations

from faultmatrix import answers, codings, leaving, payloads, sockets, tools, work
from faultmatrix.faults import Drill, Fault

FAULTS: list[Fault | Drill] = sorted(
    [
        *sockets.FAULTS,
        *codings.FAULTS,
        *answers.FAULTS,
        *payloads.FAULTS,
        *tools.DRILLS,
        *leaving.DRILLS,
        *work.FAULTS,
        *work.DRILLS,
    ],
    key=lambda fault: fault.row,
)
