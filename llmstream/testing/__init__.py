"""What tests of applications, providers and dialects are made of.

Of an application: `ScriptedModel` answers in this process, `Simulator` over real HTTP on loopback,
`record` keeps a vendor's answer for it. Of a provider or dialect: `decode_body`, `cuts`,
`check_stream` and `assert_dialect_conforms`. `docs/testing.md` shows them at work.
"""

from llmstream.simulator import (
    Break,
    Call,
    Cut,
    Fault,
    Pace,
    Received,
    Recording,
    Refuse,
    Script,
    ScriptLike,
    Simulator,
    Stall,
    Turn,
)
from llmstream.testing.bodies import check_stream, cuts, decode_body
from llmstream.testing.chaos import Chaos, chaos
from llmstream.testing.conformance import assert_dialect_conforms
from llmstream.testing.faults import Do, FaultServer, Flood, Step, Trickle, answered, chunked, gzipped, head
from llmstream.testing.leaks import no_leaks
from llmstream.testing.recorder import record
from llmstream.testing.scripted import ScriptedModel

__all__ = [
    "Break",
    "Call",
    "Chaos",
    "Cut",
    "Do",
    "Fault",
    "FaultServer",
    "Flood",
    "Pace",
    "Received",
    "Recording",
    "Refuse",
    "Script",
    "ScriptLike",
    "ScriptedModel",
    "Simulator",
    "Stall",
    "Step",
    "Trickle",
    "Turn",
    "answered",
    "assert_dialect_conforms",
    "chaos",
    "check_stream",
    "chunked",
    "cuts",
    "decode_body",
    "gzipped",
    "head",
    "no_leaks",
    "record",
]
