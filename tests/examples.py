"""How many examples a property test sees: a quarter in the quick run, all in the others."""

from __future__ import annotations

from hypothesis import settings

ALL, QUICK = 100, 25


def examples(number: int) -> int:
    """The number for `@settings(max_examples=...)`: `number`, or a quarter of it in the quick run.

    Modules are imported after the profile is loaded.
    """
    return max(1, number * settings.default.max_examples // ALL)
