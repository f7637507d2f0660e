"""A terminal for tests of displays."""

from __future__ import annotations

import pytest

from tests.display.screen import Screen


@pytest.fixture
def screen() -> Screen:
    """A terminal of 80 columns."""
    return Screen()


@pytest.fixture(autouse=True)
def any_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not the settings of whoever runs the tests."""
    for name in ("NO_COLOR", "FORCE_COLOR", "OPENAI_API_KEY"):
        monkeypatch.delenv(name, raising=False)
