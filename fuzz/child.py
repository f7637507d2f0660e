"""One target in one process, under atheris: `python -m fuzz.child TARGET CORPUS [libFuzzer options]`."""

from __future__ import annotations

import sys
from collections.abc import Callable

import atheris

from fuzz.targets import DIALECTS, TARGETS, load

_SHOWN_EVERY = 4096


def counted(test: Callable[[bytes], None]) -> Callable[[bytes], None]:
    """The same test; says now and then how often it ran, which libFuzzer does at powers of two only."""
    count = 0

    def run(data: bytes) -> None:
        nonlocal count
        count += 1
        if not count % _SHOWN_EVERY:
            print(f"#{count}\tcounted", file=sys.stderr, flush=True)
        test(data)

    return run


if __name__ == "__main__":
    name, *options = sys.argv[1:]
    with atheris.instrument_imports(include=list(TARGETS[name].watched)):
        test = counted(load(name))
    if name in DIALECTS:
        from fuzz.mutator import mutate

        atheris.Setup([sys.argv[0], *options], test, custom_mutator=mutate)
    else:
        atheris.Setup([sys.argv[0], *options], test)
    atheris.Fuzz()
