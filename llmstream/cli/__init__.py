"""The command line: `llmstream replay | chat | demo | providers | simulate | bench`.

One file a command. Only the command that is asked for is imported: `replay` runs often, and
needs neither network nor terminal.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import textwrap
from collections.abc import Sequence
from typing import Final

from llmstream import __version__
from llmstream.cli.errors import BROKEN_PIPE, BUG, FINE, INTERRUPTED, complaint, exit_status
from llmstream.cli.terminal import complain
from llmstream.errors import LLMStreamError

__all__ = ["main"]

_COMMANDS: Final = {
    "demo": "see a model stream, call a tool and answer: no key, no network",
    "chat": "ask a model, once or in a conversation",
    "replay": "turn a recorded response body into events",
    "providers": "list the providers, and which API keys are set",
    "simulate": "run a server that answers as the vendors do",
    "bench": "measure how fast an endpoint answers under load",
}
"""Each is a module of this package with `configure(parser)` and `run(arguments) -> exit status`."""

_USAGE: Final = {
    "demo": "[-h] [--dialect NAME] [--events] [--no-color]",
    "chat": "[-h] [-m PROVIDER:MODEL] [OPTIONS] [PROMPT ...]",
    "replay": "[-h] --dialect NAME [OPTIONS] FILE",
    "providers": "[-h] [OPTIONS] [NAME]",
    "simulate": "[-h] [--port N] [OPTIONS]",
    "bench": "[-h] [-m PROVIDER:MODEL] [OPTIONS]",
}
"""One line each: argparse's own of `chat` would fill ten, before the line that says what is wrong."""

_EPILOG: Final = """\
exit status: 0 fine, 2 wrong usage, 3 the stream ended in an error, 130 stopped with Ctrl-C

examples:
  llmstream demo
  llmstream chat -m anthropic:claude-sonnet-4-5 "Why is the sky blue?"
  git diff | llmstream chat -m ollama:llama3.2 "Write a commit message"
  llmstream replay --dialect openai-chat --json response.txt
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and gives its exit status; `argv` without the program's name."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _print_anything()
    # Commands show warnings in their own way; without a handler Python would print the log's as well.
    logging.getLogger("llmstream").addHandler(logging.NullHandler())
    try:
        try:
            parser = _parser(arguments)
            if not arguments:
                parser.print_help()
                return FINE
            parsed, unknown = parser.parse_known_args(arguments)
            if unknown:
                parsed.parser.error(f"unrecognized arguments: {' '.join(unknown)}")
            status: int = importlib.import_module(f"{__name__}.{parsed.command}").run(parsed)
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()
    except SystemExit as left:  # argparse: help was shown, or the usage was wrong
        return left.code if isinstance(left.code, int) else 0
    except BrokenPipeError:
        _forget_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except LLMStreamError as error:
        complain(complaint(error))
        return exit_status(error)
    except Exception as error:
        if os.environ.get("LLMSTREAM_TRACEBACK"):
            raise
        complain(
            f"unforeseen {type(error).__name__}: {error}. This is a fault of llmstream; "
            "set LLMSTREAM_TRACEBACK=1 to see where, and please report it."
        )
        return BUG
    return status


class _Help(argparse.RawDescriptionHelpFormatter):
    """Prose is wrapped, examples stay as they are written, and the longest command fits beside its text."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_fitted(paragraph, width) for paragraph in text.strip("\n").split("\n\n")) + "\n"


def _fitted(paragraph: str, width: int) -> str:
    """A paragraph of prose in rows; of a list of examples, one that is too long with its remark below it."""
    lines = paragraph.split("\n")
    if not any(line.startswith("  ") for line in lines):
        return textwrap.fill(paragraph, width, break_long_words=False, break_on_hyphens=False)
    rows = []
    for line in lines:
        command, gap, remark = line.strip().partition("    ")
        if gap and len(line) > width:
            rows += [f"  {command}", f"      {remark.strip()}"]
        else:
            rows.append(line)
    return "\n".join(rows)


def _parser(arguments: Sequence[str]) -> argparse.ArgumentParser:
    """The parser, complete only for the command that is asked for."""
    parser = argparse.ArgumentParser(
        prog="llmstream",
        usage="llmstream [-h] [--version] COMMAND ...",
        description="One typed union of events from every language model's stream.",
        epilog=_EPILOG,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"llmstream {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND ...", required=True)
    wanted = next((word for word in arguments if word in _COMMANDS), None)
    for name, summary in _COMMANDS.items():
        command = commands.add_parser(
            name,
            prog=f"llmstream {name}",
            usage=f"llmstream {name} {_USAGE[name]}",
            help=summary,
            description=summary[0].upper() + summary[1:] + ".",
            formatter_class=_Help,
            allow_abbrev=False,
        )
        command.set_defaults(parser=command)  # which reports in its own name what it does not know
        if name == wanted:
            importlib.import_module(f"{__name__}.{name}").configure(command)
    return parser


def _open_closed_streams() -> None:
    """A standard stream that the parent has closed is None: reading it ends at once, writing is lost."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115  # as long as we run


def _print_anything() -> None:
    """Where the terminal's encoding lacks a character, a question mark is better than no answer."""
    for stream in (sys.stdout, sys.stderr):
        encoding = getattr(stream, "encoding", None) or ""
        if hasattr(stream, "reconfigure") and encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="replace")


def _forget_stdout() -> None:
    """Points standard output elsewhere, so that the interpreter does not fail on it at exit."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # it is no file
        return
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, descriptor)
    os.close(nowhere)
