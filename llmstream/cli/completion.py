"""`llmstream completion`: prints the script that completes these commands in a shell.

The script calls this program at each Tab, so it never needs to be generated again. This module has the
scripts and finds the candidates: parsers have the options, and names of arguments determine their values.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from llmstream.cli import COMMANDS, command_parser
from llmstream.cli.arguments import EFFORTS
from llmstream.cli.config import default_model
from llmstream.cli.errors import SUCCESS
from llmstream.dialects.base import DIALECTS
from llmstream.errors import LLMStreamError
from llmstream.prices import known_models
from llmstream.providers.registry import find_provider, provider_names

__all__ = ["FILES", "candidates", "configure", "parted", "run"]

_EPILOG: Final = """\
Completes commands, options, providers, models, dialects and files. Models are the default model, and
those of the price list (pip install 'llmstream-sdk[prices]'). No request is sent.

exit status: 0 success, 2 usage error, 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples, each to be run once:
  echo 'source <(llmstream completion bash)' >> ~/.bashrc
  echo 'source <(llmstream completion zsh)' >> ~/.zshrc
  llmstream completion fish > ~/.config/fish/completions/llmstream.fish
"""

# A candidate is a line "value<TAB>description"; a line without a value asks the shell for file names.
#
# bash splits words at the characters of COMP_WORDBREAKS, so that for openai:gpt-5 it replaces only the part
# after the colon. The script passes them to the program, which omits the part before.
_BASH: Final = r"""_llmstream() {
    local line files=
    COMPREPLY=()
    while IFS= read -r line; do
        case $line in
            $'\t'*) files=1 ;;
            *) COMPREPLY+=("${line%%$'\t'*}") ;;
        esac
    done < <("$1" completion --line="${COMP_LINE:0:COMP_POINT}" --breaks="$COMP_WORDBREAKS" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[:=] ]]; then
        compopt -o nospace 2>/dev/null
    fi
    if [[ -z $files ]]; then
        compopt +o default 2>/dev/null
    fi
}
complete -o default -F _llmstream llmstream
"""

_ZSH: Final = r"""#compdef llmstream
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit; }
_llmstream() {
    local line value files=
    local -a described stems
    while IFS= read -r line; do
        value=${line%%$'\t'*}
        case $value in
            '') files=1 ;;
            *:) stems+=("$value") ;;
            *) described+=("${value//:/\\:}:${line#*$'\t'}") ;;
        esac
    done < <("${words[1]}" completion --line="${(j: :)words[1,CURRENT-1]} $PREFIX" 2>/dev/null)
    (( $#described )) && _describe -V llmstream described
    (( $#stems )) && compadd -S '' -a stems
    [[ -n $files ]] && _files
}
compdef _llmstream llmstream
"""

_FISH: Final = r"""function __llmstream_complete
    set -l words (commandline -opc)
    for line in ($words[1] completion --line=(commandline -cp | string collect) 2>/dev/null)
        if string match -q \t'*' -- $line
            __fish_complete_path (commandline -ct)
        else
            echo $line
        end
    end
end
complete -c llmstream -f -k -a '(__llmstream_complete)'
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH}


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("shell", metavar="SHELL", nargs="?", choices=list(_SCRIPTS), help="bash, zsh or fish")
    # Called by the scripts with the line up to the cursor.
    parser.add_argument("--line", help=argparse.SUPPRESS)
    parser.add_argument("--breaks", default="", help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Prints the script of a shell, or the candidates for a line of it."""
    if arguments.line is not None:
        _print_candidates(arguments.line, arguments.breaks)
    elif arguments.shell is None:
        arguments.parser.error("name the shell: bash, zsh or fish")
    else:
        print(_SCRIPTS[arguments.shell], end="")
    return SUCCESS


def _print_candidates(line: str, breaks: str) -> None:
    words, fixed = parted(line, breaks)
    for value, about in candidates(words):
        shown = value if (value, about) == FILES else value[len(fixed) :]
        print(f"{shown}\t{about}")


# Candidates.


FILES: Final = ("", "files")
"""The shell completes names of files."""

# A word with quotes and backslashes; the last quote of a line may be open.
_WORD: Final = re.compile(r"""(?:[^\s"'\\]|\\.?|"(?:[^"\\]|\\.)*"?|'[^']*'?)+""")
_QUOTING: Final = re.compile(r"""\\(.)|["'\\]""")


def parted(line: str, breaks: str = "") -> tuple[list[str], str]:
    """The words of a line; the last is the one to complete, which may be "".

    breaks:  characters at which the shell splits words further (COMP_WORDBREAKS of bash)
    returns: the words, and the beginning of the last one that the shell does not replace
    """
    written = _WORD.findall(line)
    if not written or line[-1].isspace():
        written.append("")
    words = [_QUOTING.sub(lambda found: found[1] or "", word) for word in written]
    last = written[-1]
    if last.startswith(("'", '"')):  # nothing is split within quotes
        return words, ""
    return words, words[-1][: 1 + max((words[-1].rfind(sign) for sign in ":=" if sign in breaks), default=-1)]


def candidates(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yields the values that begin with the last word, each with a description; `FILES` for names of files.

    words: the program, its command and arguments
    """
    given, last = list(words[1:-1]), words[-1]
    command = next((word for word in given if not word.startswith("-")), None)
    found: Iterable[tuple[str, str]] = ()
    if command is None:
        found = [*COMMANDS.items(), ("--help", "show the help"), ("--version", "show the version")]
    elif command in COMMANDS:
        found = _of_command(command, given[given.index(command) + 1 :], last)
    for value, about in found:
        if (value, about) == FILES or value.startswith(last):
            yield value, about


def _of_command(command: str, arguments: Sequence[str], last: str) -> Iterator[tuple[str, str]]:
    parser = command_parser(command)
    options = parser._option_string_actions  # argparse has no public list
    expecting, positionals = _state(parser, arguments)
    name, equals, value = last.partition("=")
    if expecting is not None:
        yield from _values(expecting, last, arguments)
    elif equals and name in options:
        for found, about in _values(options[name], value, arguments):
            yield (f"{name}={found}", about) if found else FILES
    elif last.startswith("-"):
        for action in parser._actions:
            if action.option_strings and action.help is not argparse.SUPPRESS:
                yield action.option_strings[-1], (action.help or "").partition(" (default")[0]
    elif positionals:
        yield from _values(positionals[0], last, arguments)


def _state(
    parser: argparse.ArgumentParser, arguments: Sequence[str]
) -> tuple[argparse.Action | None, list[argparse.Action]]:
    """The option that takes the next word, if any; and the remaining positional arguments."""
    left = [action for action in parser._actions if not action.option_strings]
    expecting: argparse.Action | None = None
    for word in arguments:
        if expecting is not None:
            expecting = None
        elif word.startswith("-") and word != "-":
            action = parser._option_string_actions.get(word)
            takes = action is not None and action.nargs in (None, "+", "?")
            expecting = action if takes else None
        # "*" takes all words that follow.
        elif left and left[0].nargs != "*":
            left.pop(0)
    return expecting, left


def _values(action: argparse.Action, word: str, arguments: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The candidates for an argument: its choices, or those for its metavar."""
    name = action.metavar if isinstance(action.metavar, str) else ""
    if name == "TEXT" and arguments[:1] == ["default"]:  # llmstream models default MODEL
        name = "PROVIDER:MODEL"
    if action.choices is not None:
        yield from ((str(choice), "") for choice in action.choices)
    elif name == "PROVIDER:MODEL":
        yield from _models(word)
    elif name == "PROVIDER":
        yield from ((provider, "") for provider in provider_names())
        if "default" in (action.help or ""):
            yield "default", "show or choose the default model"
    elif name == "DIALECT":
        yield from ((dialect, "") for dialect in DIALECTS)
    elif name == "EFFORT":
        yield from ((effort, "") for effort in EFFORTS)
    elif name in ("FILE", "FILE.py", "PATH", "INPUT", "SCHEMA"):
        if name == "FILE.py":
            yield "demo", "a clock and an invented weather report"
        yield FILES


def _models(word: str) -> Iterator[tuple[str, str]]:
    """The default model and the providers; after the colon the models of the price list."""
    provider, colon, _ = word.partition(":")
    chosen = default_model()
    if chosen:
        yield chosen, "default model"
    if not colon:
        yield from ((f"{name}:", "") for name in provider_names())
    elif provider.partition("-")[0] == "sim":
        yield f"{provider}:demo", "the simulator"
    else:
        yield from ((f"{provider}:{model}", "") for model in _known(provider))


def _known(provider: str) -> list[str]:
    try:
        return [model.name for model in known_models(find_provider(provider).name)]
    except LLMStreamError:  # an unknown provider, or no price list
        return []
