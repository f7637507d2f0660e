"""A test over many names that is one test for pytest."""

from __future__ import annotations

from collections.abc import Callable


def for_each(*names: str) -> Callable[[Callable[[str], None]], Callable[[], None]]:
    """Makes one test that calls the function with each name, and reports every name that fails.

    pytest takes longer to collect, set up and report a case than most functions of this kind run: a hundred
    providers times a dozen functions were a tenth of the quick suite.
    """

    def decorate(check: Callable[[str], None]) -> Callable[[], None]:
        def test() -> None:
            assert names
            failures = []
            for name in names:
                try:
                    check(name)
                except Exception as error:
                    error.add_note(f"with {name}")
                    failures.append(error)
            if failures:
                raise ExceptionGroup(f"{len(failures)} of {len(names)} fail", failures)

        test.__name__, test.__doc__, test.__module__ = check.__name__, check.__doc__, check.__module__
        return test

    return decorate
