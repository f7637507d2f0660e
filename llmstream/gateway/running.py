"""Runs a gateway from a file: settings to a gateway, reload, and a server that drains before it stops."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import logging
import os
import signal
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llmstream.errors import InvalidRequest, LLMStreamError
from llmstream.gateway.admission import tag_budgets
from llmstream.gateway.gateway import Gateway
from llmstream.gateway.ledger import Ledger, open_ledger
from llmstream.gateway.recordings import Recordings
from llmstream.gateway.routes import Settings, load_settings
from llmstream.gateway.telemetry import telemetry_of
from llmstream.server_side.local_only import is_loopback

if TYPE_CHECKING:
    from llmstream.serve.asgi import Receive, Scope, Send

__all__ = ["asgi", "gateway_of", "ledger_of", "reload", "running"]

_log: Final = logging.getLogger("llmstream.gateway")

_FILE_VARIABLE: Final = "LLMSTREAM_GATEWAY"


def gateway_of(settings: Settings, *, allow_remote: bool | None = None) -> Gateway:
    """Returns the gateway of a file; opens its store, and marks calls of gateways that died as lost.

    allow_remote: by default whether `listen` names an address that other machines reach
    raises:       InvalidRequest if keys are needed and switched off; as `open_ledger`
    """
    remote = not is_loopback(settings.address[0]) if allow_remote is None else allow_remote
    ledger = ledger_of(settings)
    # Only at the start; `recover` checks whether other gateways on the store are alive.
    ledger.recover()
    return Gateway(
        settings.routes,
        keys=ledger,
        require_keys=settings.keys,
        allow_remote=remote,
        limits=settings.limits,
        tags=settings.tags,
        recordings=_recordings_of(settings),
        max_body_bytes=settings.max_body_bytes,
        metrics=_has_metrics() if settings.metrics is None else settings.metrics,
        telemetry=telemetry_of(settings.telemetry),
    )


def ledger_of(settings: Settings) -> Ledger:
    """Opens the store of a gateway's file.

    raises: as `open_ledger`
    """
    return open_ledger(settings.store, keep_s=settings.keep_log_s)


def _recordings_of(settings: Settings) -> Recordings | None:
    if not any(route.record for route in settings.routes.all):
        return None
    found = settings.recordings
    return Recordings(found.folder, max_call_bytes=found.max_call_bytes, max_bytes=found.max_bytes)


def _has_metrics() -> bool:
    return importlib.util.find_spec("prometheus_client") is not None


def reload(gateway: Gateway, path: str | os.PathLike[str]) -> None:
    """Reads routes, limits and budgets of tags again. Calls in progress continue with the old ones.

    raises: InvalidRequest, OSError; the gateway then keeps the current ones
    """
    settings = load_settings(path)
    # One assignment: a request sees all of the old routes or all of the new ones.
    gateway.routes = settings.routes
    gateway.recordings = gateway.recordings or _recordings_of(settings)
    gateway.admission.limits = settings.limits
    gateway.admission.tags = tag_budgets(settings.tags)
    gateway.max_body_bytes = settings.max_body_bytes


def asgi() -> Callable[[Scope, Receive, Send], Awaitable[None]]:
    """Returns the application of the file that LLMSTREAM_GATEWAY names, by default `gateway.toml`.

    For servers with workers: `uvicorn --factory llmstream.gateway:asgi --workers 4`. Workers share keys,
    budgets and the log by the store. SIGHUP reloads a worker's routes where the server leaves that signal.

    `listen` in the file is not what the server listens on, but who may call: if it is a loopback address,
    requests from other machines are refused.
    """
    path = Path(os.environ.get(_FILE_VARIABLE, "gateway.toml"))
    try:
        gateway = gateway_of(load_settings(path))
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror}. Set {_FILE_VARIABLE}.") from None
    # `signal.signal` raises anywhere else, such as in the workers of a threaded server.
    if threading.current_thread() is threading.main_thread() and hasattr(signal, "SIGHUP"):
        signal.signal(signal.SIGHUP, lambda *_: _reload_logged(gateway, path))
    return gateway.asgi


def _reload_logged(gateway: Gateway, path: Path) -> None:
    try:
        reload(gateway, path)
    except (LLMStreamError, OSError) as error:
        _log.error("the routes stay as they are: %s", error)
    else:
        _log.warning("reloaded %s: %d routes", path, len(gateway.routes.all))


@contextlib.asynccontextmanager
async def running(
    gateway: Gateway, host: str, port: int, *, path: Path | None = None, drain_s: float = 30.0
) -> AsyncGenerator[tuple[str, asyncio.Event]]:
    """Serves on aiohttp.web; yields the address, and an event that is set when the server should stop.

    At the end the port closes, and calls in progress have `drain_s` to finish. SIGTERM and SIGINT set the
    event; a second one of them ends the drain. SIGHUP reloads the file.

    path:   of the file to reload
    raises: OSError if the port is not free
    """
    from aiohttp import web

    app = gateway.aiohttp()
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=drain_s)
    await runner.setup()
    stop = asyncio.Event()
    try:
        await web.TCPSite(runner, host, port).start()
        with _signals(gateway, stop, path):
            shown = f"[{host}]" if ":" in host else host
            yield f"http://{shown}:{runner.addresses[0][1]}", stop
            await _drained(runner, gateway)
    finally:
        await runner.cleanup()


async def _drained(runner: object, gateway: Gateway) -> None:
    """Closes the port and waits for the calls; a second signal cancels them."""
    from aiohttp import web

    assert isinstance(runner, web.AppRunner)
    gateway.draining = True
    # First the port, so that a balancer sends nothing new; open connections stay.
    for site in list(runner.sites):
        await site.stop()
    hurry = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, hurry.set)
    cleaning = asyncio.create_task(runner.cleanup())
    hurrying = asyncio.create_task(hurry.wait())
    await asyncio.wait((cleaning, hurrying), return_when=asyncio.FIRST_COMPLETED)
    hurrying.cancel()
    if not cleaning.done():
        cleaning.cancel()
    await asyncio.wait((cleaning, hurrying))


@contextlib.contextmanager
def _signals(gateway: Gateway, stop: asyncio.Event, path: Path | None) -> Generator[None]:
    loop = asyncio.get_running_loop()
    handlers: dict[int, Callable[[], object]] = {signal.SIGTERM: stop.set, signal.SIGINT: stop.set}
    if path is not None and hasattr(signal, "SIGHUP"):
        handlers[signal.SIGHUP] = lambda: _reload_logged(gateway, path)
    added = []
    for number, handler in handlers.items():
        # Not in other threads, nor on Windows, where Ctrl-C raises KeyboardInterrupt.
        with contextlib.suppress(NotImplementedError, ValueError, RuntimeError):
            loop.add_signal_handler(number, handler)
            added.append(number)
    try:
        yield
    finally:
        for number in added:
            loop.remove_signal_handler(number)
