"""A plugin of pytest that puts one defect in: for tests outside of the matrix, each in a process of its own.

    LLMSTREAM_DEFECT=NAME python -m pytest -p faultmatrix.sowing ...

A test that starts a process itself imports this there.
"""

from __future__ import annotations

import os
from types import ModuleType

import pytest

VARIABLE = "LLMSTREAM_DEFECT"


def sow(module: ModuleType | None = None) -> None:
    """Puts in the defect that the environment names, if it names one."""
    from faultmatrix.defects_of_tests import DEFECTS_OF_TESTS

    name = os.environ.get(VARIABLE)
    if name is not None:
        DEFECTS_OF_TESTS[name].patch(pytest.MonkeyPatch(), module)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The tests are imported, and none has run."""
    sow(items[0].module if items else None)  # type: ignore[attr-defined]
