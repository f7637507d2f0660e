"""`llmstream inspect`: shows recorded streams in the browser."""

from __future__ import annotations

import argparse
import asyncio
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from llmstream.cli.arguments import number
from llmstream.cli.config import wire_of
from llmstream.cli.errors import SUCCESS
from llmstream.cli.local_page import add_page_options, listen, page_token, serve_page
from llmstream.cli.replay import looks_like
from llmstream.cli.storage import check_free, store_path
from llmstream.cli.terminal import print_message, write_bytes
from llmstream.dialects.base import DIALECTS
from llmstream.display.plot import seconds
from llmstream.display.terminal_text import one_line
from llmstream.errors import InvalidRequest

if TYPE_CHECKING:
    from llmstream.inspector.sources import Calls, Decoding

__all__ = ["configure", "run"]

_PORT: Final = 8766

# Output formats, and their writers.
_EXPORTS: Final = {"test": "pytest_of", "recording": "recording_zip", "trace": "trace_of"}

_EPILOG: Final = """\
Opens a page with the calls of models that were traced: the bytes on the wire next to the events, when
each arrived and in which read, the request, what failed or was cut off; two calls side by side;
replay, and export as a recording or a test. Nothing is sent anywhere.

PLACE is a trace that ls.inspect() writes, also while it grows; a recording of
llmstream.testing.record; the body of a response; a cassette; a cached answer;
sqlite:PATH of an event log or a store of conversations; or a folder of such files. Without PLACE,
it shows the traces of this user's programs that call ls.inspect(), and stored chats.

The page is served to this machine only, and to those who have its address, which has a random
token. Traces hold prompts and responses as they are, without keys.

exit status: 0 success, or stopped by Ctrl-C, 2 usage error, such as a file that is none of these, 130
interrupted before it served, 141 the reader of the pipe closed it

examples:
  llmstream inspect                                  programs that trace now or did before
  llmstream inspect trace.jsonl
  curl -sN ... > answer.txt; llmstream inspect answer.txt
  llmstream inspect tests/cassettes sqlite:runs.db
  llmstream inspect --list trace.jsonl               findings, without a page
  llmstream inspect trace.jsonl --export test --call 2 -o tests/test_slow.py
"""


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("places", nargs="*", metavar="PLACE", help="file, folder, or sqlite:PATH of a log or store")
    add(
        "--dialect",
        metavar="DIALECT",
        help=f"API of recorded bodies (default: detected): {', '.join(DIALECTS)}",
    )
    add("--provider", metavar="PROVIDER", help="provider that sent them, for its quirks")
    add("--list", action="store_true", help="print the calls and their findings, and exit")
    add("--json", action="store_true", help="print one JSON object per call, and exit")
    add("--export", choices=list(_EXPORTS), help="write a call to a file, and exit")
    add(
        "--call",
        metavar="N",
        type=number(1),
        default=1,
        help="the call to export, as --list counts (default: 1)",
    )
    add("-o", "--output", metavar="FILE", help="where to write it")
    add_page_options(parser, _PORT)


def run(arguments: argparse.Namespace) -> int:
    """Serves until Ctrl-C; returns the exit status."""
    from llmstream.inspector.live import default_folder
    from llmstream.inspector.sources import Calls

    places = arguments.places or _usual_places(default_folder())
    calls = Calls(places, lambda head: _decoding(head, arguments.dialect, arguments.provider))
    if arguments.list or arguments.json or arguments.export:
        calls.refresh()
        return _export(arguments, calls) if arguments.export else _list(arguments, calls)
    return serve_page(_serve(arguments, calls, places), arguments, _PORT)


def _list(arguments: argparse.Namespace, calls: Calls) -> int:
    """Prints the calls, the newest first."""
    found = calls.list()
    if not found and not arguments.json:
        print_message(f"no calls in {', '.join(arguments.places) or 'the folder of traces'}.")
    for place, call in enumerate(found, 1):
        summary = call.summary()
        if arguments.json:
            line = {**msgspec.to_builtins(summary), "findings": [one.text for one in call.findings()]}
            write_bytes(msgspec.json.encode(line) + b"\n")
            continue
        # A body without its times, as curl writes one, has none to show.
        lasted = seconds(summary.duration_s) if summary.duration_s else "-"
        first = seconds(summary.first_s) if summary.first_s is not None and summary.duration_s else "-"
        name = one_line(f"{summary.provider}:{summary.model}".strip(":") or summary.source, 44)
        facts = f"{summary.state:<9}{first:>9}{lasted:>9}{summary.events:>8,} events"
        print(f"{place:>4}  {name:<45}{facts}")
        for finding in call.findings():
            print(f"      {one_line(finding.text, 200)}")
    return SUCCESS


def _export(arguments: argparse.Namespace, calls: Calls) -> int:
    from llmstream.inspector import exporting

    made = getattr(exporting, _EXPORTS[arguments.export])
    found = calls.list()
    if arguments.call > len(found):
        raise InvalidRequest(f"there is no call {arguments.call}; `--list` shows {len(found)}")
    data: bytes = made(found[arguments.call - 1])
    if arguments.output is None:
        if arguments.export == "recording":
            raise InvalidRequest("a recording is a ZIP. Add -o FILE.zip.")
        write_bytes(data)
        return SUCCESS
    check_free(arguments.output, force=False, remedy="Choose another name.")
    try:
        Path(arguments.output).write_bytes(data)
    except OSError as error:
        raise InvalidRequest(f"cannot write {arguments.output}: {error.strerror or error}") from None
    return SUCCESS


def _usual_places(traces: Path) -> list[str]:
    """Where this user's traces are, and the conversations stored by `llmstream chat`."""
    with suppress(OSError):
        # Only its owner can read it: traces have prompts.
        traces.mkdir(mode=0o700, parents=True, exist_ok=True)
    conversations = store_path()
    return [
        str(traces),
        *([f"sqlite:{conversations}"] if conversations is not None and conversations.is_file() else []),
    ]


def _decoding(head: bytes, dialect: str | None, provider: str | None) -> Decoding:
    from llmstream.inspector.sources import Decoding

    if dialect is None:
        found, described = looks_like(head)
        if not found:
            kind = f"it looks like {described}" if described else "its format is not known"
            raise InvalidRequest(
                f"this is not a recorded stream: {kind}. If it is the body of a response, add "
                f"--dialect DIALECT: {', '.join(DIALECTS)}."
            )
        # `looks_like` answers with options of `replay`.
        dialect, _, hosted = found.partition(" --provider ")
        provider = provider or hosted or None
    wire = wire_of(dialect, provider)
    return Decoding(wire.dialect, wire.provider)


async def _serve(arguments: argparse.Namespace, calls: Calls, places: list[str]) -> None:
    """Serves the page until Ctrl-C."""
    from llmstream.inspector.app import make_app
    from llmstream.server_side.local_only import is_loopback

    token = page_token("inspect-token")
    async with AsyncExitStack() as stack:
        app = make_app(calls, token=token, local=is_loopback(arguments.host), places=", ".join(places))
        await listen(stack, app, arguments, token, port=_PORT, what="The inspector")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
