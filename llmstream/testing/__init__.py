"""Tools for testing applications, providers and dialects.

For an application: `ScriptedModel` answers in this process, `Simulator` over real HTTP on
loopback, and `record` stores a vendor's response for it; `cassette` records and replays the answers of
all models of a test. For a provider or dialect: `decode_body`,
`cuts`, `check_stream` and `assert_dialect_conforms`. `docs/guides/testing.md` has examples.

Names are loaded on first use, because pytest imports `pytest_plugin` in every run of a project.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from llmstream.simulator import (
        BatchFaults,
        Break,
        Call,
        Continue,
        Cut,
        Fault,
        Pace,
        Received,
        Recording,
        Refuse,
        Script,
        ScriptFunction,
        ScriptLike,
        Simulator,
        Stall,
        Turn,
        VendorLimits,
    )
    from llmstream.simulator.recording import record
    from llmstream.testing.cassettes import Cassette, CassetteWarning, UnrecordedRequest, cassette
    from llmstream.testing.clock import VirtualClock
    from llmstream.testing.conformance import assert_dialect_conforms, check_stream, cuts, decode_body
    from llmstream.testing.faults import (
        Chaos,
        Do,
        FaultServer,
        Flood,
        Step,
        Stepwise,
        Trickle,
        answered,
        chaos,
        chunked,
        comparable,
        gzipped,
        head,
    )
    from llmstream.testing.leaks import no_leaks
    from llmstream.testing.scripted import ScriptedModel, UnscriptedRequest
    from llmstream.transport.egress import requests_forbidden

_MODULES = {
    "llmstream.simulator": (
        "BatchFaults Break Call Continue Cut Fault Pace Received Recording Refuse Script ScriptFunction "
        "ScriptLike Simulator Stall Turn VendorLimits"
    ),
    "llmstream.testing.cassettes": "Cassette CassetteWarning UnrecordedRequest cassette",
    "llmstream.testing.clock": "VirtualClock",
    "llmstream.testing.conformance": "assert_dialect_conforms check_stream cuts decode_body",
    "llmstream.testing.faults": (
        "Chaos Do FaultServer Flood Step Stepwise Trickle answered chaos chunked comparable gzipped head"
    ),
    "llmstream.testing.leaks": "no_leaks",
    "llmstream.simulator.recording": "record",
    "llmstream.testing.scripted": "ScriptedModel UnscriptedRequest",
    "llmstream.transport.egress": "requests_forbidden",
}
_HOME = {name: module for module, names in _MODULES.items() for name in names.split()}

__all__ = [
    "BatchFaults",
    "Break",
    "Call",
    "Cassette",
    "CassetteWarning",
    "Chaos",
    "Continue",
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
    "ScriptFunction",
    "ScriptLike",
    "ScriptedModel",
    "Simulator",
    "Stall",
    "Step",
    "Stepwise",
    "Trickle",
    "Turn",
    "UnrecordedRequest",
    "UnscriptedRequest",
    "VendorLimits",
    "VirtualClock",
    "answered",
    "assert_dialect_conforms",
    "cassette",
    "chaos",
    "check_stream",
    "chunked",
    "comparable",
    "cuts",
    "decode_body",
    "gzipped",
    "head",
    "in_thread",
    "no_leaks",
    "record",
    "requests_forbidden",
]


_T = TypeVar("_T")


@contextmanager
def in_thread(server: AbstractAsyncContextManager[_T]) -> Iterator[_T]:
    """Enters an async context manager in a thread: `with in_thread(Simulator(script)) as simulator:`.

    The thread has an event loop of its own, for tests that are not async.

    server: a server on a port, so that its clients may be in any thread
    """
    from anyio.from_thread import start_blocking_portal

    with start_blocking_portal() as portal, portal.wrap_async_context_manager(server) as entered:
        yield entered


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'llmstream.testing' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME[name]), name)
    # The next look-up finds it there, without this function.
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
