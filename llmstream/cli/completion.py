"""`llmstream completion`: prints the script that completes these commands in a shell.

The script asks this program at each Tab, so it never has to be made anew. `candidates.py` finds what fits;
here are the scripts.
"""

from __future__ import annotations

import argparse
from typing import Final

from llmstream.cli.errors import SUCCESS

__all__ = ["configure", "run"]

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
# bash splits words at the characters of COMP_WORDBREAKS, so that of openai:gpt-5 it replaces only what is
# behind the colon. The program is told them, and leaves out what stands before.
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
    # Asked by the scripts: the line up to the cursor.
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
    from llmstream.cli.candidates import FILES, candidates, parted  # loads providers

    words, fixed = parted(line, breaks)
    for value, about in candidates(words):
        shown = value if (value, about) == FILES else value[len(fixed) :]
        print(f"{shown}\t{about}")
