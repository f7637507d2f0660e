"""`llmstream gateway`: serves models to clients of every vendor's API; keys, budgets and the log."""

from __future__ import annotations

import argparse
import asyncio
import errno
import logging
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import msgspec

from llmstream.cli.arguments import count, decimal
from llmstream.cli.errors import INTERRUPTED, SUCCESS, USAGE
from llmstream.cli.terminal import print_message
from llmstream.errors import InvalidRequest, LLMStreamError, MissingKey
from llmstream.gateway.gateway import Gateway
from llmstream.gateway.routes import Route, Settings, Target, load_settings, read_address
from llmstream.gateway.running import gateway_of, ledger_of, running
from llmstream.providers.registry import find_provider
from llmstream.server_side.local_only import is_loopback

__all__ = ["configure", "run", "settings_of"]

_FILE: Final = "gateway.toml"
_ACTIONS: Final = ("check", "keys", "log")
_DEMO_PORT: Final = 4000

_EPILOG: Final = """\
FILE, by default gateway.toml, names the models that clients ask for, and those that answer:

  listen = "127.0.0.1:4000"
  [models."claude-sonnet"]
  use = ["anthropic:claude-sonnet-4-5", "openai:gpt-5"]   # next if one fails
  [models."gpt-*"]
  use = "openai:*"

Where a client speaks the vendor's own API, bytes pass unchanged; else they are translated.
Vendors' keys come from the environment. As soon as there is a key of the gateway itself, each
client needs one. SIGHUP reads the file again, SIGTERM lets calls finish; no stream is dropped.

exit status: 0 success or stopped by Ctrl-C, 2 usage error, such as a port in use, 130 interrupted
before it served, 141 the reader of the pipe closed it

examples:
  llmstream gateway --demo                          no key, no network
  llmstream gateway gateway.toml
  llmstream gateway check gateway.toml
  llmstream gateway keys add ada --budget 20usd/30d --models 'claude-*' --rpm 60
  llmstream gateway keys list
  llmstream gateway keys revoke ada
  llmstream gateway log --since 24h --outcome cut
  llmstream gateway log --by model
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add(
        "operands",
        metavar="FILE | check | keys | log",
        nargs="*",
        help="a file to serve; or check [FILE], keys add|list|revoke [NAME], log",
    )
    add("--demo", action="store_true", help="serve a simulated model, and print how to connect clients")
    add("--listen", metavar="HOST:PORT", help="address, in place of the file's; port 0 picks a free one")
    add(
        "--drain",
        metavar="S",
        type=decimal,
        default=30.0,
        help="seconds for calls to finish at shutdown (default: 30)",
    )
    add("--file", metavar="FILE", help=f"with keys and log: the gateway's file (default: {_FILE})")
    key = parser.add_argument_group("keys add")
    key.add_argument("--models", metavar="PATTERN", action="append", help="a model it may use; repeatable")
    key.add_argument("--budget", metavar="20usd/30d", help="what it may spend within a sliding window")
    key.add_argument("--rpm", metavar="N", type=count, help="requests a minute")
    key.add_argument("--tpm", metavar="N", type=count, help="tokens a minute")
    key.add_argument("--tag", metavar="NAME", default="", help="tag of its calls; with log: calls of one tag")
    log = parser.add_argument_group("log")
    log.add_argument("--key", metavar="NAME", default="", help="calls of one key")
    log.add_argument("--model", metavar="TEXT", default="", help="calls of models with this in their name")
    log.add_argument(
        "--outcome",
        default="",
        choices=("open", "complete", "cut", "failed", "left", "lost"),
        help="calls that ended so",
    )
    log.add_argument("--since", metavar="24h", help="calls of the last minutes, hours or days: 30m, 24h, 7d")
    log.add_argument("--by", choices=("key", "tag", "model", "route", "day"), help="sums in place of calls")
    log.add_argument("-n", type=count, default=20, metavar="N", help="number of calls (default: 20)")
    add("--json", action="store_true", help="with keys list and log: print JSON lines")


def run(arguments: argparse.Namespace) -> int:
    """Runs one action; returns the exit status."""
    action, *rest = arguments.operands or [""]
    if arguments.demo:
        return _serve(arguments, None)
    if action not in _ACTIONS:
        if rest:
            raise InvalidRequest(
                f"too many arguments: {' '.join(rest)}. `llmstream gateway --help` has examples."
            )
        return _serve(arguments, Path(action or _FILE))
    if action == "check":
        return _check(Path(rest[0] if rest else _FILE))
    from llmstream.cli.gateway import books  # imported only to read the store

    settings = settings_of(Path(arguments.file or _FILE))
    return books.keys(arguments, settings, rest) if action == "keys" else books.log(arguments, settings)


def settings_of(path: Path) -> Settings:
    """Reads the file.

    raises: InvalidRequest with what to do
    """
    try:
        return load_settings(path)
    except OSError as error:
        raise InvalidRequest(
            f"cannot read {path}: {error.strerror}. Write one, or try `llmstream gateway --demo`."
        ) from None


def _check(path: Path) -> int:
    settings = settings_of(path)
    problems = _problems_of(settings)
    for route in settings.routes.all:
        print(f"{route.pattern:24} {', '.join(target.model for target in route.targets)}")
    for problem in problems:
        print_message(problem)
    return USAGE if problems else SUCCESS


def _problems_of(settings: Settings) -> list[str]:
    """Returns what would fail: missing keys of vendors, a store that does not answer, an open address without
    keys. Sends no request."""
    unreachable = [*_broken_store(settings)]
    return [*_missing_keys(settings), *unreachable, *([] if unreachable else _open_address(settings))]


def _missing_keys(settings: Settings) -> Iterator[str]:
    for route in settings.routes.all:
        for target in route.targets:
            problem = _missing_key(route, target)
            if problem:
                yield problem


def _missing_key(route: Route, target: Target) -> str:
    provider = find_provider(target.model.partition(":")[0])
    variable = target.api_key_env
    if variable is not None:
        set_ = os.environ.get(variable)
        return "" if set_ else f"{route.pattern}: {target.model}: the variable {variable} is not set"
    try:
        provider.key(None)
        provider.address(target.base_url)
    except MissingKey as error:
        # Without a key, requests are signed.
        return "" if provider.sign is not None else f"{route.pattern}: {target.model}: {_for_a_file(error)}"
    except LLMStreamError as error:
        return f"{route.pattern}: {target.model}: {error.message}"
    return ""


def _for_a_file(error: MissingKey) -> str:
    """The message, with a remedy for the file instead of one for a program."""
    return error.message.replace(" or pass api_key=", ', or name its variable: api_key_env = "..."')


def _open_address(settings: Settings) -> Iterator[str]:
    host, _ = settings.address
    if is_loopback(host):
        return
    if settings.keys == "none":
        yield f'listen = "{settings.listen}" is open to other machines; keys = "none" is for loopback only'
    if not _has_keys(settings):
        yield (
            f'listen = "{settings.listen}" is open to other machines, and there is no key yet. Add one: '
            "llmstream gateway keys add NAME"
        )


def _has_keys(settings: Settings) -> bool:
    if "://" not in settings.store and not os.path.exists(settings.store):
        return False  # and must not be created by the check
    ledger = ledger_of(settings)
    try:
        return ledger.has_keys
    finally:
        ledger.close()


def _broken_store(settings: Settings) -> Iterator[str]:
    if "://" in settings.store:
        try:
            ledger_of(settings).close()
        except LLMStreamError as error:
            yield error.message


def _serve(arguments: argparse.Namespace, path: Path | None) -> int:
    settings = None if path is None else settings_of(path)
    if arguments.listen and settings is not None:
        settings = msgspec.structs.replace(settings, listen=arguments.listen)
    # The gateway logs vendors that fail.
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s: %(message)s")
    try:
        asyncio.run(_serving(arguments, settings, path))
    except socket.gaierror as error:
        print_message(f"cannot listen: {error.strerror}. Pass --listen HOST:PORT.")
        return USAGE
    except OSError as error:
        # None: Python 3.13 reports the address of another machine without a number.
        if error.errno not in (errno.EADDRINUSE, errno.EACCES, errno.EADDRNOTAVAIL, None):
            raise
        print_message(
            f"cannot listen: {error.strerror or error}. Pass --listen HOST:PORT; port 0 is a free one."
        )
        return USAGE
    except KeyboardInterrupt:
        return INTERRUPTED
    return SUCCESS


async def _serving(arguments: argparse.Namespace, settings: Settings | None, path: Path | None) -> None:
    async with AsyncExitStack() as stack:
        if settings is None:
            from llmstream.cli.gateway.demo import demo_gateway

            gateway = await stack.enter_async_context(demo_gateway())
            address = read_address(arguments.listen or f"127.0.0.1:{_DEMO_PORT}")
            if not is_loopback(address[0]):
                raise InvalidRequest("the demo has no keys, so it serves only this machine")
        else:
            gateway, address = gateway_of(settings), settings.address
        url, stop = await stack.enter_async_context(
            running(gateway, *address, path=path, drain_s=arguments.drain)
        )
        _greet(gateway, url, demo=settings is None)
        await stop.wait()
        if not sys.stderr.closed:
            print_message("finishing the calls in progress; a second signal cuts them off")


def _greet(gateway: Gateway, url: str, *, demo: bool) -> None:
    ledger = gateway.admission.ledger
    is_open = ledger is None or not ledger.has_keys
    key = "demo" if demo else "ls-..."
    lines = [f"The gateway is at {url}"]
    if demo:
        lines += ["A simulated model answers over Gemini's API, whatever the client speaks.", ""]
        lines += [
            "Claude Code:",
            f"  ANTHROPIC_BASE_URL={url} ANTHROPIC_AUTH_TOKEN={key} claude",
            "Codex:",
            "  codex -c model_provider=llmstream -c 'model_providers.llmstream="
            f'{{name="llmstream",base_url="{url}/v1",wire_api="responses"}}\'',
            "Python:",
            f'  OpenAI(base_url="{url}/v1", api_key="{key}")',
            "",
        ]
    elif is_open:
        lines += ["No key is needed from this machine. `llmstream gateway keys add NAME` makes one."]
    print("\n".join([*lines, "Ctrl-C stops it."]), flush=True)
