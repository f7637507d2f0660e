"""`llmstream web`: a chat in the browser with any model."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from typing import Any, Final

from llmstream import Agent
from llmstream.cli.arguments import REASONING_HELP, add_tool_options, effort
from llmstream.cli.config import MODEL_HELP, base_url, checked_model, default_model
from llmstream.cli.keys import api_key_for
from llmstream.cli.local_page import add_page_options, listen, page_token, serve_page
from llmstream.cli.storage import state_file
from llmstream.cli.tool_sources import ToolSources
from llmstream.log import open_logs
from llmstream.prices import installed_price
from llmstream.streams import Model
from llmstream.tools import Tool
from llmstream.warming import try_to_warm_up

__all__ = ["configure", "run"]

_PORT: Final = 8765
_DEMO: Final = "sim:demo"
_KEY: Final = "sim-key"

# How long after a crash a page waits for an answer; a running process renews it.
_LEASE_S: Final = 4.0

_EPILOG: Final = """\
Opens a page in the browser: text as it arrives, reasoning, tool calls with their progress,
approvals, usage and cost. An answer continues while the page is reloaded or closed; a second tab
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
    add("--reasoning", metavar="EFFORT", type=effort, help=REASONING_HELP)
    add("--base-url", metavar="URL", help="base URL of the API, in place of the provider's")
    add_page_options(parser, _PORT)


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    spec = checked_model(arguments.model or default_model() or _DEMO)
    sources = _sources(arguments, spec)
    return serve_page(_serve(arguments, spec, sources), arguments, _PORT)


async def _serve(arguments: argparse.Namespace, spec: str, sources: ToolSources) -> None:
    """Serves the page until Ctrl-C."""
    from llmstream.server_side.local_only import is_loopback
    from llmstream.web.app import make_app
    from llmstream.web.conversations import Conversations
    from llmstream.web.store import ConversationStore

    token = page_token("web-token")
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
        app = make_app(conversations, shown, token=token, local=is_loopback(arguments.host))
        await listen(stack, app, arguments, token, port=_PORT, what="The chat")
        # Connects in advance, while the user writes the first prompt.
        warming = asyncio.create_task(try_to_warm_up(agent.model))
        stack.callback(warming.cancel)
        # After Ctrl-C the runs are closed and recorded below; a second one ends the process at once.
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()


async def _agent(
    stack: AsyncExitStack, arguments: argparse.Namespace, spec: str, sources: ToolSources
) -> Agent[Any, Any]:
    options: dict[str, Any] = {"instructions": arguments.system, "price": installed_price()}
    if arguments.reasoning is not None:
        options["reasoning"] = arguments.reasoning
    if not _is_demonstration(spec, arguments):
        key = api_key_for(spec)
        model = Model(spec, base_url=arguments.base_url, api_key=key)
        # A missing key is reported now, not after the first prompt.
        model.provider.key(key)
        return Agent(model, tools=sources.offered, **options)
    from llmstream.simulator.server import Simulator
    from llmstream.web.demo import DEMO_TOOLS, DemoScript

    simulator = await stack.enter_async_context(Simulator(DemoScript(), api_keys=[_KEY]))
    model = Model("anthropic:demo", base_url=base_url(simulator.url, "anthropic"), api_key=_KEY)
    # Its demonstration shows reasoning, and costs nothing.
    return Agent(model, **{"reasoning": "low", **options, "tools": DEMO_TOOLS, "price": None})


def _is_demonstration(spec: str, arguments: argparse.Namespace) -> bool:
    """Whether the simulated model runs its script; with a user's tools it calls those."""
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


def _sources(arguments: argparse.Namespace, spec: str) -> ToolSources:
    """The tools of files and servers; those of the demonstration come with its model."""
    files = [] if _is_demonstration(spec, arguments) else arguments.tools
    return ToolSources(files, arguments.mcp, ask=not arguments.yes)
