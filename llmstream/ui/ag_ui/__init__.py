"""AG-UI 1.0, the protocol between agents and user interfaces: what `HttpAgent` sends and reads. No I/O.

source: https://docs.ag-ui.com, the schema of version 1.0, and npm `@ag-ui/client` 1.0.0, read 2026-11
"""

from llmstream.ui.ag_ui.application import activity, custom, state, state_delta
from llmstream.ui.ag_ui.loading import dump, interrupts
from llmstream.ui.ag_ui.reader import Context, Limits, RunInput, read
from llmstream.ui.ag_ui.writer import PROTOCOL_VERSION, Writer

__all__ = [
    "PROTOCOL_VERSION",
    "Context",
    "Limits",
    "RunInput",
    "Writer",
    "activity",
    "custom",
    "dump",
    "interrupts",
    "read",
    "state",
    "state_delta",
]
