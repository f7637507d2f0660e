"""Simulators in this process for the `sim` providers: one for each event loop, dialect and script."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Final

from llmstream.dialects.base import Dialect
from llmstream.errors import InvalidRequest
from llmstream.simulator.demo import Demo
from llmstream.simulator.obedient import Obedient
from llmstream.simulator.script import Script, ScriptLike
from llmstream.simulator.server import Simulator
from llmstream.transport.sessions import LoopBound

__all__ = ["address"]

_BUILT_IN: Final[dict[str, Callable[[], ScriptLike]]] = {"demo": Demo, "probe": Obedient}


@dataclass(frozen=True)
class _Part:
    """Key of one server: a script and a provider's dialect."""

    script: str
    provider: str
    dialect: Dialect = field(compare=False)


async def _running(part: _Part) -> AsyncGenerator[Simulator]:
    built_in = _BUILT_IN.get(part.script)
    if built_in is None and not part.script.endswith(".json"):
        raise InvalidRequest(
            f"the simulator has no model {part.script!r}. Use {part.provider}:demo, {part.provider}:probe, "
            f"or {part.provider}:PATH.json for a script."
        )
    script = Script.load(part.script) if built_in is None else built_in()
    async with Simulator(script, dialects=[part.dialect], models=(part.script,)) as simulator:
        yield simulator


_servers: Final = LoopBound(_running)


async def address(script: str, provider: str, dialect: Dialect) -> str:
    """Returns the base URL of a script's server in the running loop; starts it if needed."""
    return (await _servers.get(_Part(script, provider, dialect))).url
