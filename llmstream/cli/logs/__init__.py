"""`llmstream logs`: lists, searches, shows, exports and deletes stored conversations."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

from llmstream.cli.arguments import count, natural
from llmstream.cli.errors import SUCCESS
from llmstream.cli.storage import check_free, open_chats, store_path
from llmstream.cli.terminal import print_message, wrapped, write_bytes
from llmstream.errors import InvalidRequest

if TYPE_CHECKING:
    from llmstream.store import ConversationInfo, Store

__all__ = ["configure", "run"]

_EPILOG: Final = """\
Without an action, the last three conversations. ID is the name of a conversation, or its beginning;
without one, show, export, -r and -x take the last conversation.

search takes words, "phrases" in quotes, and beginnings such as fjord*. Deleting cannot be undone:
text, index and files are overwritten in the store.

Conversations are stored by llmstream chat, in chats.db in ~/.local/state/llmstream (or in
$XDG_STATE_HOME), readable only by you. LLMSTREAM_LOG=off stores none, LLMSTREAM_LOG=FILE stores
them there. LLMSTREAM_LOG_CONTENT=off stores no text: logs cost works, logs show has nothing to show.

exit status: 0 success, 2 usage error, 3 the store cannot be used, 130 interrupted (Ctrl-C), 141 the
reader of the pipe closed it

examples:
  llmstream logs                              the last three, short
  llmstream logs -n 20 --model "claude*"      the last twenty with such a model
  llmstream logs search fjord --since 2w      messages with a word, of the last two weeks
  llmstream logs show trip --tree             all branches of a conversation, with their numbers
  llmstream logs show trip --branch 2         one of them; continue it: llmstream chat --chat trip --branch 2
  llmstream logs -r | wc -w                   the last answer alone; -x: its first code block
  llmstream logs cost --by model,day --svg cost.svg
  llmstream logs export trip --format html -o talks.html
  llmstream logs rm trip
  llmstream logs prune --older 90d            delete what has not changed for 90 days
  llmstream logs import ~/Downloads/chatgpt.zip
"""

_ACTIONS: Final = ("list", "search", "show", "cost", "export", "rm", "prune", "path", "backup", "import")
_WRITING: Final = ("rm", "prune", "import")
_SHORT: Final = 3
# A year has 365.25 days.
_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800, "y": 31_557_600}
_AGE: Final = re.compile(r"(\d{1,6})([mhdwy])")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    add = parser.add_argument
    add("action", metavar="ACTION", nargs="?", choices=_ACTIONS, default="list", help=", ".join(_ACTIONS))
    add("operands", metavar="ID|WORD|FILE", nargs="*", help="conversations, words to search for, or files")
    add("-q", "--query", metavar="TEXT", help="search for words, as the action search does")
    add("-n", "--limit", metavar="N", type=natural, help="how many; 0 for all (default: 3 in lists, 20 hits)")
    add("--model", metavar="PATTERN", help="only conversations with such a model, such as 'claude*'")
    add("--since", metavar="WHEN", type=moment, help="only later ones: 2w, 3d, 12h, or 2026-03-01")
    add("--role", metavar="ROLE", help="search only messages of user, assistant or tool")
    add("--all", action="store_true", help="rank all messages that have the words, not the newest 2,000")
    only = parser.add_mutually_exclusive_group()
    only.add_argument("-r", "--response", action="store_true", help="print the last answer alone")
    only.add_argument(
        "-x", "--extract", action="store_true", help="print the first code block of the last answer"
    )
    only.add_argument("--tree", action="store_true", help="show the branches of a conversation")
    add("--branch", metavar="N", type=count, help="show, -r and -x: a branch by its number in --tree")
    add(
        "--by",
        metavar="NAMES",
        default="model",
        help="cost by model, day, provider, chat, state; with commas",
    )
    add("--svg", metavar="FILE", help="write a plot of the cost")
    add(
        "--format",
        choices=("md", "json", "jsonl", "html"),
        default="md",
        help="form of an export (default: md)",
    )
    add("-o", "--output", metavar="FILE", help="write the export to a new file")
    add("--older", metavar="WHEN", type=moment, help="prune what has not changed since: 90d, or 2026-03-01")
    add("--tagged", action="store_true", help="prune those with tags too")
    add("--yes", action="store_true", help="delete without asking")
    add("--json", action="store_true", help="print JSON, one line for each conversation, hit or row")


def run(arguments: argparse.Namespace) -> int:
    """Runs one action."""
    action = "search" if arguments.query and arguments.action == "list" else arguments.action
    # `prune trip --older 90d` would delete all older conversations, not only "trip".
    if arguments.operands and action in ("cost", "prune", "path"):
        raise InvalidRequest(f"logs {action} takes no names, got {' '.join(arguments.operands)}")
    if action == "path":
        print(store_path() or "off")
        return SUCCESS
    with open_chats(to_read=action not in _WRITING) as store:
        _RUN[action](store, arguments)
    return SUCCESS


def moment(text: str) -> float:
    """The type of a time: an age such as 2w, or a date; in seconds since 1970."""
    if found := _AGE.fullmatch(text.strip().lower()):
        return time.time() - int(found[1]) * _UNITS[found[2]]
    try:
        return datetime.datetime.fromisoformat(text).timestamp()
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected an age such as 2w, or a date such as 2026-03-01, not {text[:20]!r}"
        ) from None


def _list(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.cli.logs.views import short_form

    if arguments.response or arguments.extract or arguments.tree or arguments.branch:
        _show(store, arguments)
        return
    if arguments.operands:
        raise InvalidRequest(
            f"unknown action; to show a conversation: llmstream logs show {arguments.operands[0]}"
        )
    found = _some(store, arguments, _SHORT)
    if not found:
        print_message("no conversation is stored yet, or none fits.")
    for at, info in enumerate(found):
        if arguments.json:
            write_bytes(msgspec.json.encode(info) + b"\n")
        else:
            print(("\n" if at else "") + short_form(store, info))


def _some(store: Store, arguments: argparse.Namespace, default: int) -> list[ConversationInfo]:
    """The newest conversations that fit the options and have a prompt."""
    limit = default if arguments.limit is None else arguments.limit
    found = store.conversations(
        limit=limit or None, since=arguments.since, model=arguments.model, titled=True
    )
    return found[:limit] if limit else found


def _search(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.cli.logs.views import hit_form

    text = " ".join(filter(None, [arguments.query, *map(_requoted, arguments.operands)]))
    hits = store.search(
        text,
        model=arguments.model,
        role=arguments.role,
        since=arguments.since,
        # -1: no limit.
        limit=20 if arguments.limit is None else arguments.limit or -1,
        all=arguments.all,
    )
    for hit in hits:
        if arguments.json:
            write_bytes(msgspec.json.encode(hit) + b"\n")
        else:
            print(hit_form(hit))
    if not hits:
        print_message(f"nothing found for {text}")


def _requoted(word: str) -> str:
    """An argument of several words was in quotes."""
    return f'"{word}"' if " " in word and '"' not in word else word


def _show(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.cli.logs.views import code_block, last_answer, show, tree_form

    info = _one(store, arguments.operands)
    if arguments.tree and arguments.json:
        for node in store.tree(info.id):
            write_bytes(msgspec.json.encode(node) + b"\n")
    elif arguments.tree:
        print(tree_form(store, info))
    elif arguments.response:
        print(last_answer(store, info, arguments.branch))
    elif arguments.extract:
        print(code_block(last_answer(store, info, arguments.branch)))
    elif arguments.json:
        from llmstream.store.exporting import exported

        for piece in exported(store, [info.id], "json"):
            write_bytes(piece.encode())
    else:
        show(store, info, arguments.branch)


def _one(store: Store, names: list[str]) -> ConversationInfo:
    """The conversation of the only name; the last one without names."""
    if len(names) > 1:
        raise InvalidRequest(f"one conversation at a time, got {len(names)}")
    if names:
        return store.info(_named(store, names[0]))
    found = store.conversations(limit=1, titled=True)
    if not found:
        raise InvalidRequest("no conversation is stored yet. `llmstream chat` stores each one.")
    return found[0]


def _named(store: Store, given: str) -> str:
    """The name of a conversation, given its beginning.

    raises: InvalidRequest if there is none, or several
    """
    found = store.names(given)
    if given in found:
        return given
    if len(found) == 1:
        return found[0]
    if not found:
        raise InvalidRequest(f"there is no conversation {given!r}. `llmstream logs -n 0` lists all.")
    raise InvalidRequest(f"{given!r} may be {', '.join(found[:5])}{' or others' if len(found) > 5 else ''}.")


def _cost(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.cli.logs.views import cost_lines, cost_svg
    from llmstream.prices import estimated_price

    names = [name.strip() for name in arguments.by.split(",") if name.strip()]
    rows = store.costs(names, since=arguments.since, price=estimated_price)
    if arguments.svg:
        check_free(arguments.svg, force=True)
        Path(arguments.svg).write_text(cost_svg(names, rows), encoding="utf-8")
    for row in rows if arguments.json else ():
        write_bytes(msgspec.json.encode(row) + b"\n")
    if not arguments.json:
        print("\n".join(cost_lines(names, rows)))


def _export(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.store.exporting import exported

    if arguments.operands:
        names = list(dict.fromkeys(_named(store, name) for name in arguments.operands))
    elif arguments.limit is not None or arguments.model or arguments.since or arguments.all:
        names = [info.id for info in _some(store, arguments, 0)]
    else:
        names = [_one(store, []).id]
    if arguments.output is None:
        for piece in exported(store, names, arguments.format):
            write_bytes(piece.encode())
        return
    check_free(arguments.output, force=False, remedy="Name a new file.")
    with open(arguments.output, "w", encoding="utf-8") as file:
        file.writelines(exported(store, names, arguments.format))
    print_message(f"{len(names)} conversation{'' if len(names) == 1 else 's'} in {arguments.output}")


def _rm(store: Store, arguments: argparse.Namespace) -> None:
    if not arguments.operands:
        raise InvalidRequest("rm needs the names of conversations; `llmstream logs` lists them")
    names = list(dict.fromkeys(_named(store, name) for name in arguments.operands))
    if _may(arguments, f"Delete {', '.join(names)} permanently?"):
        store.delete(*names)
        print_message(f"deleted {', '.join(names)}")


def _prune(store: Store, arguments: argparse.Namespace) -> None:
    if arguments.older is None:
        raise InvalidRequest("prune needs an age: --older 90d")
    day = time.strftime("%Y-%m-%d", time.localtime(arguments.older))
    if _may(arguments, f"Delete what has not changed since {day}?"):
        found = store.prune(before=arguments.older, keep_tagged=not arguments.tagged)
        print_message(f"deleted {len(found)} conversation{'' if len(found) == 1 else 's'}")


def _may(arguments: argparse.Namespace, question: str) -> bool:
    """Whether to delete.

    raises: InvalidRequest without a terminal
    """
    if arguments.yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidRequest("deleting cannot be undone; without a terminal to confirm on, add --yes")
    try:
        return input(f"{wrapped(f'{question} [y/N]')} ").strip().lower() in ("y", "yes")
    # Ctrl-D; the cursor stands behind the question.
    except EOFError:
        print()
        return False


def _backup(store: Store, arguments: argparse.Namespace) -> None:
    if len(arguments.operands) != 1:
        raise InvalidRequest("backup needs the name of a new file")
    # The store would report an error of this file as its own.
    check_free(arguments.operands[0], force=False, remedy="Name a new file.")
    store.backup(arguments.operands[0])
    print_message(f"a copy of the store is in {arguments.operands[0]}")


def _import(store: Store, arguments: argparse.Namespace) -> None:
    from llmstream.store.importing import import_file

    if not arguments.operands:
        raise InvalidRequest("import needs a file: simonw/llm's logs.db, or an export of ChatGPT or Claude")
    for name in arguments.operands:
        added, found = import_file(store, Path(name).expanduser())
        earlier = f"; {found - added} were empty or there already" if found > added else ""
        print_message(f"{name}: {added} of {found} conversations added{earlier}")


_RUN: Final = {
    "list": _list,
    "search": _search,
    "show": _show,
    "cost": _cost,
    "export": _export,
    "rm": _rm,
    "prune": _prune,
    "backup": _backup,
    "import": _import,
}
