"""Prepares for the first call: imports, name lookup and connection, which it would otherwise wait for.

It imports nothing itself, so that importing this module does not block a loop either.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
from typing import Final, Protocol, cast

__all__ = ["Warmable", "load_transport", "transport_is_loaded", "try_to_warm_up", "warm_up"]

_log: Final = logging.getLogger("llmstream")

# Set at the end: a module is in sys.modules while another thread still imports it.
_loaded = False


class Warmable(Protocol):
    """A `Model`, which is in a much higher layer."""

    async def warm_up(self) -> None:
        """Imports and connects."""


async def warm_up(*models: str | Warmable) -> None:
    """Prepares models for their first call: imports in a thread, then connects to each vendor, TLS included.

        await ls.warm_up("anthropic:claude-sonnet-4-5")   # where a server starts, for example

    Sends no request and needs no key. A connection waits in the pool for the next request to its host, at
    most 15 s, or until the vendor closes it; what is imported stays. Models of one host share a connection.

    models: each a `Model`, or "provider:model"
    raises: InvalidRequest for an invalid spec or address; TransportError if there is no connection
    """
    await load_transport()
    made = [await asyncio.to_thread(_model, each) if isinstance(each, str) else each for each in models]
    for model in made:  # one after the other: those of one host share the connection of the first
        await model.warm_up()


async def try_to_warm_up(model: Warmable) -> None:
    """Warms up a model at the start of a server; logs a vendor that cannot be reached, and does not raise."""
    from llmstream.errors import LLMStreamError

    try:
        await model.warm_up()
    except LLMStreamError as error:
        _log.info("%r has no connection yet: %s", model, error)


def transport_is_loaded() -> bool:
    """Whether a call has nothing large left to import."""
    return _loaded


async def load_transport() -> None:
    """Imports aiohttp and the other modules of a call, in a thread: it would block the loop for 0.1 s."""
    if not _loaded:
        await asyncio.to_thread(_load)


def _load() -> None:
    global _loaded
    importlib.import_module("llmstream.streams.http_call")
    importlib.import_module("llmstream.transport.sessions").trust()  # reads a bundle of certificates
    _loaded = True


def _model(spec: str) -> Warmable:
    # With its provider and its wire.
    return cast(Warmable, importlib.import_module("llmstream.streams.model").Model(spec))
