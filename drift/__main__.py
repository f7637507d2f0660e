"""`scripts/drift`: what the vendors' newest SDKs know that llmstream does not, since the last record."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from drift.newest import run_there
from drift.packages import SDKS


def main(arguments: Sequence[str] | None = None) -> int:
    """The command.

    returns: 0; 1 where something is lost or violated beside the record; 2 where an SDK cannot be read
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    parser = _parser()
    options = parser.parse_args(given)
    unknown = [package for package in options.package if package not in SDKS]
    if unknown:
        parser.error(f"no reader for {', '.join(unknown)}. Packages: {', '.join(SDKS)}.")
    if not (options.quick or options.here):
        return run_there(given, npm=not options.no_npm)
    try:
        from drift.report import look  # needs llmstream's own dependencies, which the usual form installs
    except ModuleNotFoundError as error:
        print(
            f"{error.name} is not installed here. --quick reads the SDKs of an environment that has "
            "llmstream: run `make check` once, then PATH=$PWD/.venv/bin:$PATH scripts/drift --quick",
            file=sys.stderr,
        )
        return 2

    return look(tuple(options.package or SDKS), record=options.record, everything=options.all)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="scripts/drift",
        description=__doc__,
        epilog="Without --quick the newest official SDKs are installed into .drift/venv and read there. "
        "docs/drift.md says how to read the report.",
    )
    parser.add_argument("package", nargs="*", help=f"of: {', '.join(SDKS)}; by default all", default=[])
    parser.add_argument("--quick", action="store_true", help="read the SDKs that are installed here")
    parser.add_argument("--record", action="store_true", help="write what was found to drift/record")
    parser.add_argument("--all", action="store_true", help="show every line, however many there are")
    parser.add_argument("--no-npm", action="store_true", help="do not look up the versions on npm")
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
