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
from llmstream.testing.conformance import assert_dialect_conforms
from llmstream.testing.recorder import record
from llmstream.testing.scripted import ScriptedModel

__all__ = [
    "Break",
    "Call",
    "Cut",
    "Fault",
    "Pace",
    "Received",
    "Recording",
    "Refuse",
    "Script",
    "ScriptLike",
    "ScriptedModel",
    "Simulator",
    "Stall",
    "Turn",
    "assert_dialect_conforms",
    "check_stream",
    "cuts",
    "decode_body",
    "record",
]
