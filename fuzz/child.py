"""One target in one process, under atheris: `python -m fuzz.child TARGET CORPUS [libFuzzer options]`."""

from __future__ import annotations

import sys
import types
from collections.abc import Callable, Iterator

import atheris

from fuzz.targets import DIALECTS, TARGETS, load

_SHOWN_EVERY = 4096


def watch(packages: tuple[str, ...]) -> None:
    """Makes the branches of these modules count, and of no others: each that counts costs time.

    Atheris' own hook for imports would take everything that is imported on the way.
    """
    for name, module in list(sys.modules.items()):
        if any(name == package or name.startswith(f"{package}.") for package in packages):
            for function in _functions(module, name):
                atheris.instrument_func(function)


def _functions(owner: types.ModuleType | type, module: str) -> Iterator[types.FunctionType]:
    """The functions and methods that a module defines."""
    for value in list(vars(owner).values()):
        match value:
            case types.FunctionType() if value.__module__ == module:
                yield value
            case staticmethod() | classmethod() if isinstance(value.__func__, types.FunctionType):
                yield value.__func__
            case property() if isinstance(value.fget, types.FunctionType):
                yield value.fget
            case type() if value.__module__ == module and value is not owner:
                yield from _functions(value, module)


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
    test = counted(load(name))
    watch(TARGETS[name].watched)
    if name in DIALECTS:
        from fuzz.mutator import mutate

        atheris.Setup([sys.argv[0], *options], test, custom_mutator=mutate)
    else:
        atheris.Setup([sys.argv[0], *options], test)
    atheris.Fuzz()
