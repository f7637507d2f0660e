"""Commands that serve a page on this machine: their options, the address with its token, the browser."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Coroutine
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from llmstream.cli.arguments import number
from llmstream.cli.errors import INTERRUPTED, SUCCESS, USAGE
from llmstream.cli.storage import state_file
from llmstream.cli.terminal import print_message
from llmstream.files import replace_file

__all__ = ["add_page_options", "listen", "page_token", "serve_page"]


# How long Ctrl-C waits for responses. A page that follows a run would delay it until the run ends; a
# disconnected page reconnects, and gets the rest of the run from the next process.
_SHUTDOWN_S: Final = 0.1


def add_page_options(parser: argparse.ArgumentParser, port: int) -> None:
    """Adds the options for the page's address, and for opening a browser."""
    add = parser.add_argument
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1); 0.0.0.0 accepts other machines",
    )
    add(
        "--port",
        type=number(0, 65535),
        metavar="N",
        help=f"port (default: {port}, or a free one if that is in use)",
    )
    add("--no-open", dest="open", action="store_false", help="do not open a browser")


def serve_page(serving: Coroutine[Any, Any, None], arguments: argparse.Namespace, port: int) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    try:
        asyncio.run(serving)
    except socket.gaierror as error:
        print_message(f"cannot listen on {arguments.host!r}: {error.strerror}.")
        return USAGE
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL, None):
            raise
        print_message(f"cannot listen on {arguments.host} port {arguments.port or port}: {_why(error)}.")
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return SUCCESS


def _why(error: OSError) -> str:
    match error.errno:
        case errno.EADDRINUSE:
            return "it is in use. Pass another --port, or --port 0 for a free one"
        case errno.EACCES:
            return "it is not permitted. Pass another --port"
        case _:
            return "it is not an address of this machine. Pass another with --host"


async def listen(
    stack: AsyncExitStack, app: Any, arguments: argparse.Namespace, token: str, *, port: int, what: str
) -> None:
    """Listens, prints the address, and opens the browser.

    port: the default port; if it is in use, a free one
    what: content at the address
    """
    from aiohttp import web

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    wanted = port if arguments.port is None else arguments.port
    try:
        await web.TCPSite(runner, arguments.host, wanted).start()
    except OSError as error:
        if arguments.port is not None or error.errno != errno.EADDRINUSE:
            raise
        await web.TCPSite(runner, arguments.host, 0).start()
    listening = runner.addresses[0][1]
    host = "127.0.0.1" if arguments.host in ("0.0.0.0", "::") else arguments.host  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    # In the fragment, which browsers do not send and servers do not log.
    url = f"http://{shown}:{listening}/#token={token}"
    print(f"{what} is at {url}\nCtrl-C stops it.", flush=True)
    if arguments.open and _has_screen():
        # It waits for a program to start.
        await asyncio.to_thread(webbrowser.open, url)


def _has_screen() -> bool:
    """Whether a browser would open a window; without one, Python may start a browser in this terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, screens))


def page_token(name: str) -> str:
    """The token of the address: random, and the same after a restart, so that an open page continues to work.

    name: of the file where it is
    """
    path = state_file(name)
    if path is None:
        return secrets.token_urlsafe(24)
    with suppress(OSError, UnicodeDecodeError):
        stored = path.read_text("ascii").strip()
        # 24 bytes in base64; a shorter text is not one of our tokens.
        if len(stored) >= 32:
            return stored
    token = secrets.token_urlsafe(24)
    with suppress(OSError):
        replace_file(path, token.encode())
    return token
