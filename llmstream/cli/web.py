"""`llmstream web`: a chat in the browser with any model."""

from __future__ import annotations

import argparse
import asyncio
import errno
import importlib.util
import os
import secrets
import socket
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from llmstream.agent import Agent
from llmstream.chats.content import write_whole
from llmstream.cli.arguments import add_tool_options
from llmstream.cli.config import MODEL_HELP, default_model
from llmstream.cli.dialects import base_url
from llmstream.cli.errors import INTERRUPTED, SUCCESS, USAGE
from llmstream.cli.key_store import api_key_for
from llmstream.cli.model_names import checked_model
from llmstream.cli.storage import state_file
from llmstream.cli.terminal import print_message
from llmstream.cli.tool_sources import ToolSources
from llmstream.log import open_logs
from llmstream.streams import Model
from llmstream.tools import Tool

__all__ = ["configure", "run"]

_PORT: Final = 8765
_LOCAL: Final = ("127.0.0.1", "localhost", "::1")
_DEMO: Final = "sim:demo"
_KEY: Final = "sim-key"

# How long after a crash a page goes on waiting for an answer; the process renews it itself.
_LEASE_S: Final = 4.0

# How long Ctrl-C waits for responses. A page that follows a run would hold it up until the run ends; one that
# is cut off connects again, and gets the end of the run from the next process.
_SHUTDOWN_S: Final = 0.1

_EPILOG: Final = """\
Opens a page in the browser: text as it arrives, reasoning, tool calls with their progress,
approvals, usage and cost. An answer goes on while the page is reloaded or closed; a second tab
shows it too, and can stop it. Without -m, a simulated model shows all of that, without a key.

--tools FILE.py offers the public functions of a Python file as tools, --mcp those of a server.
Each call of them waits for a click, unless --yes is given. The file is run, so pass only files
you trust.

By default the page is served to this machine only, and to those who have its address, which has
a random token. Conversations are stored in ~/.local/state/llmstream (or in $XDG_STATE_HOME),
readable only by you. LLMSTREAM_HISTORY=off stores nothing.

exit status: 0 stopped by Ctrl-C, 2 usage error, such as a port in use, 130 interrupted before it served

examples:
  llmstream web                                     no key, no network
  llmstream web -m anthropic:claude-sonnet-4-5
  llmstream web -m ollama:llama3.2 --tools tools.py --system "Be brief."
  llmstream web --mcp "uvx mcp-server-time"
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add(
        "-m",
        "--model",
        metavar="PROVIDER:MODEL",
        help=f"{MODEL_HELP[:-1]}, else {_DEMO})",
    )
    add_tool_options(parser)
    add("-s", "--system", metavar="TEXT", help="system prompt")
    add("--reasoning", metavar="EFFORT", help="none, minimal, low, medium, high, or a budget in tokens")
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    add(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="address to listen on (default: 127.0.0.1); 0.0.0.0 accepts other machines",
    )
    add("--port", type=_port, metavar="N", help=f"port (default: {_PORT}, or a free one if that is in use)")
    add("--no-open", dest="open", action="store_false", help="do not open a browser")


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    spec = checked_model(arguments.model or default_model() or _DEMO)
    sources = _sources(arguments, spec)
    try:
        asyncio.run(_serve(arguments, spec, sources))
    except socket.gaierror as error:
        print_message(f"cannot listen on {arguments.host!r}: {error.strerror}.")
        return USAGE
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL, None):
            raise
        print_message(f"cannot listen on {arguments.host} port {arguments.port or _PORT}: {_why(error)}.")
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


async def _serve(arguments: argparse.Namespace, spec: str, sources: ToolSources) -> None:
    """Serves the page until Ctrl-C."""
    from llmstream.web.app import make_app
    from llmstream.web.conversations import Conversations
    from llmstream.web.store import ConversationStore

    token = _token()
    folder = state_file("web")
    if folder is not None:
        folder.mkdir(mode=0o700, exist_ok=True)
    where = "memory:" if folder is None else f"sqlite:{folder / 'runs.db'}"
    store = ConversationStore(None if folder is None else folder / "conversations.db")
    async with AsyncExitStack() as stack:
        stack.callback(store.close)
        stack.push_async_callback(sources.aclose)
        await sources.connect()
        agent = await _agent(stack, arguments, spec, sources)
        shown = _settings(spec, sources.tools, demonstrates=_is_demonstration(spec, arguments))
        logs = open_logs(where, lease_s=_LEASE_S)
        conversations = Conversations(agent, logs, store, details=True)
        stack.push_async_callback(conversations.aclose)
        await stack.enter_async_context(logs)
        app = make_app(conversations, shown, token=token, local=arguments.host in _LOCAL)
        await _listen(stack, app, arguments, token)
        # Ctrl-C: the runs are closed and recorded below, in order; a second one ends the process at once.
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def _agent(
    stack: AsyncExitStack, arguments: argparse.Namespace, spec: str, sources: ToolSources
) -> Agent[Any, Any]:
    options: dict[str, Any] = {"instructions": arguments.system, "price": _price()}
    if arguments.reasoning is not None:
        effort = arguments.reasoning
        options["reasoning"] = int(effort) if effort.isdecimal() and len(effort) < 10 else effort
    if not _is_demonstration(spec, arguments):
        key = api_key_for(spec)
        model = Model(spec, base_url=arguments.base_url, api_key=key)
        # A missing key is reported now, not after the first prompt.
        model.provider.key(key)
        return Agent(model, tools=sources.offered, **options)
    from llmstream.simulator import Simulator
    from llmstream.web.demo import DEMO_TOOLS, DemoScript

    simulator = await stack.enter_async_context(Simulator(DemoScript(), api_keys=[_KEY]))
    model = Model("anthropic:demo", base_url=base_url(simulator.url, "anthropic"), api_key=_KEY)
    return Agent(model, **{"reasoning": "low", **options, "tools": DEMO_TOOLS, "price": None})


def _is_demonstration(spec: str, arguments: argparse.Namespace) -> bool:
    """Whether the simulated model has a part for it to play; with a user's tools it calls those."""
    return spec == _DEMO and not arguments.mcp and all(file == "demo" for file in arguments.tools)


def _settings(spec: str, tools: Sequence[Tool], *, demonstrates: bool) -> Any:
    from llmstream.web.app import Settings
    from llmstream.web.demo import DEMO_TOOLS, SUGGESTIONS

    shown = DEMO_TOOLS if demonstrates else tools
    return Settings(
        model=spec,
        tools={one.name: (one.spec.description or "").partition("\n")[0] for one in shown},
        suggestions=list(SUGGESTIONS) if demonstrates else [],
    )


def _price() -> Any:
    """The price list, if it is installed."""
    if importlib.util.find_spec("genai_prices") is None:
        return None
    from llmstream.prices import price

    return price


async def _listen(stack: AsyncExitStack, app: Any, arguments: argparse.Namespace, token: str) -> None:
    """Listens, prints the address, and opens the browser."""
    from aiohttp import web

    runner = web.AppRunner(app, access_log=None, shutdown_timeout=_SHUTDOWN_S)
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    wanted = _PORT if arguments.port is None else arguments.port
    try:
        await web.TCPSite(runner, arguments.host, wanted).start()
    except OSError as error:
        if arguments.port is not None or error.errno != errno.EADDRINUSE:
            raise
        await web.TCPSite(runner, arguments.host, 0).start()
    port = runner.addresses[0][1]
    host = "127.0.0.1" if arguments.host in ("0.0.0.0", "::") else arguments.host  # noqa: S104
    shown = f"[{host}]" if ":" in host else host
    # In the fragment, which browsers do not send and servers do not log.
    url = f"http://{shown}:{port}/#token={token}"
    print(f"The chat is at {url}\nCtrl-C stops it.", flush=True)
    if arguments.open and _has_screen():
        await asyncio.to_thread(webbrowser.open, url)


def _has_screen() -> bool:
    """Whether a browser would open a window; without one, Python may start a browser in this terminal."""
    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    return sys.platform in ("win32", "darwin") or any(map(os.environ.get, screens))


def _token() -> str:
    """The token of the address: random, and the same after a restart, so that an open page goes on."""
    path = state_file("web-token")
    if path is None:
        return secrets.token_urlsafe(24)
    with suppress(OSError, UnicodeDecodeError):
        stored = path.read_text("ascii").strip()
        if len(stored) >= 32:
            return stored
    token = secrets.token_urlsafe(24)
    with suppress(OSError):
        write_whole(path, token.encode())
    return token


def _sources(arguments: argparse.Namespace, spec: str) -> ToolSources:
    """The tools of files and servers; those of the demonstration come with its model."""
    files = [] if _is_demonstration(spec, arguments) else arguments.tools
    return ToolSources(files, arguments.mcp, ask=not arguments.yes)


def _port(text: str) -> int:
    port = int(text)
    if not 0 <= port <= 65535:
        raise argparse.ArgumentTypeError(f"a port is a number from 0 to 65535, not {port}")
    return port
