"""Arguments of the modules that are processes of `python -m benchmarks`, each with a `--help`.

Not by argparse: what a process imports is part of the memory that it measures.
"""

from __future__ import annotations

import math
import sys

__all__ = ["arguments"]


def arguments(usage: str, doc: str | None) -> list[str]:
    """The arguments of this process; for `--help`, or if they do not fit, prints the usage and ends.

    usage: their names, in brackets if they may be missing; "..." at the end for any number more
    doc:   of the module
    """
    given, names = sys.argv[1:], usage.split()
    least = sum(name[0] not in "[." for name in names)
    most = math.inf if "..." in usage else len(names)
    asked = not {"-h", "--help"}.isdisjoint(given)
    if least <= len(given) <= most and not asked:
        return given
    module = sys.modules["__main__"].__spec__
    text = f"usage: python -m {module.name if module else 'benchmarks'} {usage}".rstrip() + f"\n\n{doc}"
    print(text, file=sys.stdout if asked else sys.stderr)
    sys.exit(0 if asked else 2)
