"""`gateway keys` and `gateway log`: the content of a gateway's store."""

from __future__ import annotations

import argparse
import datetime
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import msgspec

from llmstream.cli.errors import SUCCESS
from llmstream.cli.terminal import print_message, write_bytes
from llmstream.errors import InvalidRequest
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import Filter, Key, Ledger
from llmstream.gateway.routes import Settings, duration_s, read_budget
from llmstream.gateway.running import ledger_of

__all__ = ["keys", "log"]

_NAME: Final = re.compile(r"[A-Za-z0-9][\w.@-]{0,63}")


def keys(arguments: argparse.Namespace, settings: Settings, operands: Sequence[str]) -> int:
    """Adds, lists or revokes keys."""
    match list(operands):
        case ["add", name]:
            _add(arguments, settings, name)
        case ["list"] | []:
            _list(settings, as_json=arguments.json)
        case ["revoke", name]:
            with _open(settings) as ledger:
                ledger.revoke(name)
            print(f"Revoked {name}. A running gateway refuses it from now on.")
        case _:
            raise InvalidRequest("write keys add NAME, keys list, or keys revoke NAME")
    return SUCCESS


def _add(arguments: argparse.Namespace, settings: Settings, name: str) -> None:
    if not _NAME.fullmatch(name):
        raise InvalidRequest(f"{name!r} is not a name for a key. Use letters, digits and . _ @ -")
    usd, window_s = (None, 30 * 86400.0) if arguments.budget is None else read_budget(arguments.budget)
    key = Key(
        name=name,
        models=tuple(arguments.models or ("*",)),
        requests_per_minute=arguments.rpm,
        tokens_per_minute=arguments.tpm,
        budget_usd=usd,
        budget_s=window_s,
        tag=arguments.tag,
    )
    with _open(settings) as ledger:
        secret = ledger.add_key(key)
    print_message(f"the key of {name}; it is not stored, and is shown only now:")
    # Only the key is on standard output, so that a script can read it.
    print(secret)


def _list(settings: Settings, *, as_json: bool) -> None:
    with _open(settings) as ledger:
        found = ledger.keys()
        spent = {one.group: one.cost_usd for one in ledger.sums("key")}
        for key in found:
            if key.budget_usd is not None:  # the usage that counts against it
                since = time.time() - key.budget_s
                spent[key.name] = sum(one.cost_usd for one in ledger.sums("key", key=key.name, since=since))
    if as_json:
        write_bytes(b"".join(msgspec.json.encode(key) + b"\n" for key in found))
        return
    if not found:
        print_message("there is no key. `llmstream gateway keys add NAME` makes one.")
        return
    rows = [("NAME", "MODELS", "TAG", "RPM", "TPM", "BUDGET", "SPENT", "CREATED", "")]
    for key in found:
        budget = "-" if key.budget_usd is None else f"{key.budget_usd:g}usd/{key.budget_s / 86400:g}d"
        rows.append(
            (
                key.name,
                " ".join(key.models),
                key.tag or "-",
                str(key.requests_per_minute or "-"),
                str(key.tokens_per_minute or "-"),
                budget,
                f"{spent.get(key.name, 0.0):.2f}",
                _day(key.created),
                "" if key.revoked is None else f"revoked {_day(key.revoked)}",
            )
        )
    print("\n".join(_table(rows)))


def log(arguments: argparse.Namespace, settings: Settings) -> int:
    """Prints calls, or sums of them."""
    since = 0.0 if arguments.since is None else time.time() - duration_s(arguments.since)
    wanted = Filter(
        key=arguments.key, model=arguments.model, tag=arguments.tag, outcome=arguments.outcome, since=since
    )
    with _open(settings) as ledger:
        if arguments.by is not None:
            sums = ledger.sums(arguments.by, **wanted)
            if arguments.json:
                write_bytes(b"".join(msgspec.json.encode(one) + b"\n" for one in sums))
                return SUCCESS
            rows = [(arguments.by.upper(), "CALLS", "FAILED", "IN", "OUT", "USD", "")]
            rows += [
                (
                    one.group or "-",
                    str(one.calls),
                    str(one.failed),
                    f"{one.input_tokens:,}",
                    f"{one.output_tokens:,}",
                    f"{one.cost_usd:.4f}",
                    f"{one.unknown_cost} of unknown cost" if one.unknown_cost else "",
                )
                for one in sums
            ]
            print("\n".join(_table(rows)))
            return SUCCESS
        calls = ledger.rows(limit=arguments.n, **wanted)
    if arguments.json:
        write_bytes(b"".join(msgspec.json.encode(row) + b"\n" for row in reversed(calls)))
        return SUCCESS
    if not calls:
        print_message("no call is in the log, or none fits.")
        return SUCCESS
    # The newest last, next to the terminal's prompt.
    print("\n".join(_table([_HEAD, *(_cells(row) for row in reversed(calls))])))
    return SUCCESS


_HEAD: Final = ("TIME", "KEY", "TAG", "ASKED", "MODEL", "LANE", "IN", "OUT", "USD", "FIRST", "TOTAL", "END")


def _cells(row: Row) -> tuple[str, ...]:
    time_ = datetime.datetime.fromtimestamp(row.started).strftime("%m-%d %H:%M:%S")
    # Vendors do not report the tokens of an interrupted call.
    about = "~" if row.estimated else ""
    return (
        time_,
        row.key or "-",
        row.tag or "-",
        row.asked,
        row.model,
        row.lane,
        f"{about}{row.input_tokens:,}",
        f"{about}{row.output_tokens:,}",
        "-" if row.cost_usd is None else f"{about}{row.cost_usd:.4f}",
        "-" if row.first_s is None else f"{row.first_s:.2f} s",
        "-" if row.duration_s is None else f"{row.duration_s:.2f} s",
        row.outcome + (f" {row.code}" if row.code else "") + (f"; tried {row.tried}" if row.tried else ""),
    )


def _table(rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _day(time_s: float) -> str:
    return datetime.datetime.fromtimestamp(time_s).strftime("%Y-%m-%d")


@contextmanager
def _open(settings: Settings) -> Iterator[Ledger]:
    ledger = ledger_of(settings)
    try:
        yield ledger
    finally:
        ledger.close()
