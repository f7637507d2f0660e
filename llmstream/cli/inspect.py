"""`llmstream inspect`: streams as they were, in the browser."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llmstream.cli.dialects import wire_of
from llmstream.cli.kept import store_path
from llmstream.cli.local_page import add_page_options, is_local, listen, page_token, serve_page
from llmstream.cli.replay import looks_like
from llmstream.dialects.base import DIALECTS
from llmstream.errors import InvalidRequest

if TYPE_CHECKING:
    from llmstream.inspector.sources import Calls, Decoding

__all__ = ["configure", "run"]

_PORT: Final = 8766

_EPILOG: Final = """\
Opens a page with the calls of models that were traced: the bytes of the wire beside the events,
when each came and in which read, the request, what failed or was cut; two calls side by side;
replay, and export as a recording or a test. Nothing is sent anywhere.

A place is a trace that ls.inspect() writes, also while it grows; a recording of
llmstream.testing.record; the body of a response; a cassette; an answer of a cache;
sqlite:PATH of an event log or a store of conversations; or a folder of such files. Without a place
it shows what the programs of this user trace, if they call ls.inspect(), and kept chats.

The page is served to this machine only, and to those who have its address, which has a random
token. Traces hold prompts and responses as they are, without keys.

exit status: 0 stopped by Ctrl-C, 2 usage error, such as a file that is none of these, 130 interrupted
before it served

examples:
  llmstream inspect                                  programs that trace now, and those of before
  llmstream inspect trace.jsonl
  curl -sN ... > answer.txt; llmstream inspect answer.txt
  llmstream inspect tests/cassettes sqlite:runs.db
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("places", nargs="*", metavar="PLACE", help="file, folder, or sqlite:PATH of a log or store")
    add(
        "--dialect",
        metavar="DIALECT",
        help=f"API of recorded bodies (default: as they look): {', '.join(DIALECTS)}",
    )
    add("--provider", metavar="PROVIDER", help="provider that sent them, for its quirks")
    add_page_options(parser, _PORT)


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    from llmstream.inspector.live import default_folder
    from llmstream.inspector.sources import Calls

    places = arguments.places or _usual_places(default_folder())
    calls = Calls(places, lambda head: _decoding(head, arguments.dialect, arguments.provider))
    return serve_page(_serve(arguments, calls, places), arguments, _PORT)


def _usual_places(traces: Path) -> list[str]:
    """Where this user's traces are, and the conversations that `llmstream chat` keeps."""
    with suppress(OSError):
        traces.mkdir(mode=0o700, parents=True, exist_ok=True)
    kept = store_path()
    return [str(traces), *([f"sqlite:{kept}"] if kept is not None and kept.is_file() else [])]


def _decoding(head: bytes, dialect: str | None, provider: str | None) -> Decoding:
    """How a body is decoded."""
    from llmstream.inspector.sources import Decoding

    if dialect is None:
        found, described = looks_like(head)
        if not found:
            raise InvalidRequest(
                f"this looks like {described or 'nothing known'}, not like the body of a stream. "
                f"Add --dialect DIALECT: {', '.join(DIALECTS)}."
            )
        dialect, _, hosted = found.partition(" --provider ")
        provider = provider or hosted or None
    wire = wire_of(dialect, provider)
    return Decoding(wire.dialect, wire.provider)


async def _serve(arguments: argparse.Namespace, calls: Calls, places: list[str]) -> None:
    """Serves the page until Ctrl-C."""
    from llmstream.inspector.app import make_app

    token = page_token("inspect-token")
    async with AsyncExitStack() as stack:
        app = make_app(calls, token=token, local=is_local(arguments.host), places=", ".join(places))
        await listen(stack, app, arguments, token, port=_PORT, what="The inspector")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
