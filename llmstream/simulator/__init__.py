"""A server on loopback that speaks every dialect: from scripts, from recordings, or by itself.

It is the embedded default (`Model("sim:...")`, `llmstream demo`) and what tests talk to.
"""

from llmstream.simulator.demo import Demo
from llmstream.simulator.received import Received
from llmstream.simulator.recording import Recording
from llmstream.simulator.script import (
    Break,
    Call,
    Continue,
    Cut,
    Fault,
    Pace,
    Refuse,
    Script,
    ScriptFunction,
    ScriptLike,
    Stall,
    Turn,
)
from llmstream.simulator.server import Simulator

__all__ = [
    "Break",
    "Call",
    "Continue",
    "Cut",
    "Demo",
    "Fault",
    "Pace",
    "Received",
    "Recording",
    "Refuse",
    "Script",
    "ScriptFunction",
    "ScriptLike",
    "Simulator",
    "Stall",
    "Turn",
]
