"""The command line: one command a module, from `llmstream demo` to `llmstream check`.

Each command is a module. Only the requested one is imported: `replay` runs often, and needs
neither network nor terminal.
"""

from __future__ import annotations

import argparse
import importlib
import logging
import os
import sys
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any, Final

from llmstream import __version__
from llmstream.cli.errors import BROKEN_PIPE, BUG, INTERRUPTED, SUCCESS, error_message, exit_status
from llmstream.cli.terminal import print_message
from llmstream.errors import LLMStreamError

__all__ = ["COMMANDS", "command_parser", "main"]

COMMANDS: Final = {
    "demo": "watch a simulated model call tools and answer; no key, no network",
    "chat": "ask a model once, or hold a conversation",
    "logs": "list, search, show and export stored conversations",
    "web": "open a chat in the browser; a simulated model without -m",
    "inspect": "show recorded streams in the browser: bytes next to events",
    "map": "ask a model once for each row of a file",
    "gateway": "serve models to clients of every vendor's API, with keys and budgets",
    "replay": "decode a recorded response body into events",
    "models": "list the models of a provider, and choose the default model",
    "keys": "store API keys for these commands",
    "providers": "list providers and which API keys are set",
    "simulate": "run a local server that imitates the vendors' APIs",
    "bench": "measure the latency and throughput of an endpoint under load",
    "check": "find out what an endpoint can do and where its wire is wrong",
    "completion": "print the script that completes these commands in a shell",
}
"""Name to summary; each is a module here with `configure(parser)` and `run(arguments) -> exit status`."""

_OPTIONS: Final = ("-h", "--help", "--version")

# One line each: for `chat`, argparse would print ten lines of usage above each error.
_USAGE: Final = {
    "demo": "[-h] [--dialect DIALECT] [OPTIONS]",
    "chat": "[-h] [-m PROVIDER:MODEL] [OPTIONS] [PROMPT ...]",
    "logs": "[-h] [ACTION] [ID|WORD|FILE ...] [OPTIONS]",
    "web": "[-h] [-m PROVIDER:MODEL] [--tools FILE.py] [OPTIONS]",
    "inspect": "[-h] [--dialect DIALECT] [OPTIONS] [PLACE ...]",
    "map": "[-h] [-m PROVIDER:MODEL] [-o FILE] [OPTIONS] INPUT",
    "gateway": "[-h] [--demo] [OPTIONS] [FILE | check | keys | log]",
    "replay": "[-h] [--dialect DIALECT] [OPTIONS] FILE",
    "models": "[-h] [OPTIONS] [PROVIDER [TEXT ...] | default [NAME]]",
    "keys": "[-h] [OPTIONS] set|list|path|remove [PROVIDER]",
    "providers": "[-h] [OPTIONS] [PROVIDER]",
    "simulate": "[-h] [--port N] [OPTIONS]",
    "bench": "[-h] [-m PROVIDER:MODEL] [OPTIONS]",
    "check": "[-h] [-m PROVIDER:MODEL] [--base-url URL] [OPTIONS]",
    "completion": "[-h] bash|zsh|fish",
}

_EPILOG: Final = """\
exit status: 0 success, 2 usage error, 3 the stream ended in an error, 130 interrupted (Ctrl-C), 141 the
reader of the pipe closed it, 1 a bug in llmstream

examples:
  llmstream demo
  llmstream chat -m anthropic:claude-sonnet-4-5 "Why is the sky blue?"
  git diff | llmstream chat -m ollama:llama3.2 "Write a commit message"
  llmstream replay --dialect openai-chat --json response.txt
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    argv:    arguments without the program name; by default those of the process
    returns: the exit status
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    _open_closed_streams()
    _replace_unencodable()
    # Commands print warnings themselves; without a handler Python would print the logged ones as well.
    logging.getLogger("llmstream").addHandler(logging.NullHandler())
    try:
        try:
            parser = _parser(arguments)
            if not arguments:
                parser.print_help()
                return SUCCESS
            _check_command(parser, arguments[0])
            parsed, unknown = parser.parse_known_args(arguments)
            # argparse takes all optional operands at the first one and has no place for one after an option,
            # as in `logs show -r ID`. Its parser for that does not go with subcommands, so the command's own
            # reads all arguments again.
            if unknown and not any(argument.startswith("-") for argument in unknown):
                bare = argparse.Namespace(command=parsed.command)
                parsed, unknown = parsed.parser.parse_known_intermixed_args(arguments[1:], bare)
            if unknown:
                parsed.parser.error(_unrecognized(parsed.parser, unknown))
            status: int = importlib.import_module(f"{__name__}.{parsed.command}").run(parsed)
        finally:
            if sys.stdout is not None:
                # Flushed here instead of at interpreter exit, where a closed pipe would print a traceback.
                sys.stdout.flush()
    except SystemExit as exited:  # argparse has printed the help or a usage error
        return exited.code if isinstance(exited.code, int) else 0
    except BrokenPipeError:
        _redirect_stdout()
        return BROKEN_PIPE
    except KeyboardInterrupt:
        return INTERRUPTED
    except LLMStreamError as error:
        print_message(error_message(error))
        return exit_status(error)
    except Exception as error:
        if os.environ.get("LLMSTREAM_TRACEBACK"):
            raise
        print_message(
            f"unexpected {type(error).__name__}: {error}. This is a bug in llmstream; please report it. "
            "Set LLMSTREAM_TRACEBACK=1 to see the traceback."
        )
        return BUG
    return status


class _Help(argparse.RawDescriptionHelpFormatter):
    """Wraps prose, does not change examples, and fits the longest command name."""

    def __init__(self, prog: str) -> None:
        super().__init__(prog, max_help_position=28)
        # argparse forgets that the names of commands are indented.
        self._action_max_length = max(len(name) for name in COMMANDS) + 4

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        return "\n\n".join(_fitted(paragraph, width) for paragraph in text.strip("\n").split("\n\n")) + "\n"


def _fitted(paragraph: str, width: int) -> str:
    """Wraps a paragraph of prose; in a list of examples, moves the remark of a long one to the next line."""
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
    """Builds the parser; only the requested command has all its arguments."""
    parser = argparse.ArgumentParser(
        prog="llmstream",
        usage="llmstream [-h] [--version] COMMAND ...",
        description="Streams from every language model API as one set of typed events.",
        epilog=_EPILOG,
        formatter_class=_Help,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"llmstream {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", metavar="COMMAND ...", required=True)
    requested = next((argument for argument in arguments if argument in COMMANDS), None)
    for name, summary in COMMANDS.items():
        command = commands.add_parser(name, help=summary, **_facts(name))
        # Unknown arguments are reported in the name of the command, not of the program.
        command.set_defaults(parser=command)
        if name == requested:
            importlib.import_module(f"{__name__}.{name}").configure(command)
    return parser


def _facts(name: str) -> dict[str, Any]:
    summary = COMMANDS[name]
    return {
        "prog": f"llmstream {name}",
        "usage": f"llmstream {name} {_USAGE[name]}",
        "description": summary[0].upper() + summary[1:] + ".",
        "formatter_class": _Help,
        # A new option would change what an abbreviation means.
        "allow_abbrev": False,
    }


def command_parser(name: str) -> argparse.ArgumentParser:
    """The parser of one command, with its arguments."""
    parser = argparse.ArgumentParser(**_facts(name))
    importlib.import_module(f"{__name__}.{name}").configure(parser)
    return parser


def _check_command(parser: argparse.ArgumentParser, word: str) -> None:
    """Reports an unknown command, or an option in its place, with similar names."""
    if word in COMMANDS or word in _OPTIONS:
        return
    kind, known = ("option", _OPTIONS) if word.startswith("-") else ("command", COMMANDS)
    parser.error(f"unknown {kind} {word!r}. {_near(word, known)}`llmstream --help` lists the commands.")


def _unrecognized(command: argparse.ArgumentParser, unknown: Sequence[str]) -> str:
    """The error for arguments that a command does not have; suggests an option for the first."""
    options = command._option_string_actions  # argparse has no public list
    near = _near(unknown[0].partition("=")[0], options) if unknown[0].startswith("-") else ""
    help_ = f"`{command.prog} --help` lists the options."
    return f"unrecognized arguments: {' '.join(unknown)}" + (f". {near}{help_}" if near else "")


def _near(word: str, known: Iterable[str]) -> str:
    import difflib  # imported only for a misspelt name

    close = difflib.get_close_matches(word, known, n=1)
    return f"Did you mean {close[0]}? " if close else ""


def _open_closed_streams() -> None:
    """Replaces standard streams that the parent process closed, which are None, by the null device."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            # Stays open until the process ends.
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _replace_unencodable() -> None:
    """Prints a question mark for characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        encoding = getattr(stream, "encoding", None) or ""
        if hasattr(stream, "reconfigure") and encoding.lower().replace("-", "") != "utf8":
            stream.reconfigure(errors="replace")


def _redirect_stdout() -> None:
    """Points standard output at the null device, so that the interpreter's flush at exit succeeds."""
    try:
        descriptor = sys.stdout.fileno()
    except (OSError, ValueError):  # not a real file
        return
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, descriptor)
    os.close(null)
