"""What tests of several dialects share."""

from __future__ import annotations

import importlib.util
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream import events as ev
from llmstream.grammar import check


@pytest.fixture(scope="session")
def compare_case(shared_dir: Path) -> Any:
    """Compares events with what another implementation made of a recording; returns the differences."""
    path = shared_dir / "corpus_compare.py"
    if not path.is_file():
        pytest.skip("the corpus comparison is not here")
    spec = importlib.util.spec_from_file_location("corpus_compare", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.compare_case


@pytest.fixture(scope="module")
def folders(shared_dir: Path, request: pytest.FixtureRequest) -> list[Path]:
    """The recordings of the dialect whose tests stand in this folder, a folder each."""
    dialect = request.path.parent.name.replace("_", "-")
    found = sorted(path.parent for path in (shared_dir / "corpus" / dialect).glob("*/meta.json"))
    if not found:
        pytest.skip("the corpus is not here")
    return found


@pytest.fixture(scope="module")
def differing(folders: list[Path], compare_case: Any) -> Any:
    """Reads all recordings; returns the differences from the other implementation, by name."""

    def differences(read: Callable[[Path], list[ev.Event]]) -> dict[str, Any]:
        found = {}
        for folder in folders:
            events = read(folder)
            assert check(events) == [], folder.name
            assert [ev.decode(ev.encode(event)) for event in events] == events
            found[folder.name] = compare_case([json.loads(ev.encode(event)) for event in events], folder)
        return {name: one for name, one in found.items() if one}

    return differences


@pytest.fixture(scope="module")
def cut_anywhere(folders: list[Path]) -> Any:
    """Checks that random cuts of each recording change nothing, and that truncated ones keep the grammar.

    It is called with a function from a body and the place of a cut to events.
    """

    def check_cuts(read_in_two: Callable[[bytes, int], list[ev.Event]], times: int = 4) -> None:
        place = random.Random(7)
        for folder in folders:
            body = (folder / "response.bin").read_bytes()
            complete = read_in_two(body, len(body))
            for _ in range(times):
                assert read_in_two(body, place.randrange(len(body))) == complete, folder.name
                broken = body[: place.randrange(len(body))]
                assert check(read_in_two(broken, len(broken))) == [], folder.name

    return check_cuts
