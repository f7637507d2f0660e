"""A server on loopback that serves all dialects from scripts, recordings or a demo script.

It serves `Model("sim:...")`, `llmstream demo`, `llmstream simulate` and tests.
"""

from llmstream.simulator.admission import VendorLimits
from llmstream.simulator.batches import BatchFaults
from llmstream.simulator.demo import Demo, Obedient
from llmstream.simulator.recording import Received, Recording
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
    "BatchFaults",
    "Break",
    "Call",
    "Continue",
    "Cut",
    "Demo",
    "Fault",
    "Obedient",
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
    "VendorLimits",
]
