"""The quick form over the SDKs that are installed: they can be read, and nothing more of them is lost."""

from __future__ import annotations

import re
import sys

import pytest

from drift.losses import losses
from drift.packages import SDKS
from drift.record import compared, found_in, is_new, is_recorded, load
from drift.sdks import Sdk, meaningless, read
from drift.shapes import records

# Importing an SDK may warn of what it will change itself.
pytestmark = pytest.mark.filterwarnings("ignore")

FEWEST_TYPES = {
    "openai-chat": 15,
    "openai-responses": 150,
    "anthropic": 60,
    "gemini": 30,
    "gemini-interactions": 60,
    "cohere": 25,
    "mistral": 10,
    "ollama": 5,
    "bedrock-converse": 40,
}
"""Far below today's numbers: fewer mean that a reader looks in the wrong place."""


def installed(package: str) -> Sdk:
    (sdk,) = read((package,))
    if sdk.version is None:
        pytest.skip(f"{package} is not installed (extras: test, peers)")
    recorded = recorded_version(package)
    if numbers(sdk.version) < numbers(recorded):
        pytest.skip(f"{package} {sdk.version} is older than the record, which is of {recorded}")
    return sdk


def recorded_version(package: str) -> str:
    found = (load(name) or {} for name in FEWEST_TYPES)
    versions = [v for p, _, v in (record.get("sdk", "").partition(" ") for record in found) if p == package]
    assert versions, "run scripts/drift --record"
    return versions[0]


def numbers(version: str) -> list[int]:
    return [int(digits) for digits in re.findall(r"\d+", version)[:3]]


@pytest.mark.slow
@pytest.mark.parametrize("package", SDKS)
def test_readers_find_the_types(package: str) -> None:
    sdk = installed(package)
    assert sdk.trouble is None
    for wire in sdk.wires:
        assert len(list(records(*(case.shape for case in wire.cases)))) >= FEWEST_TYPES[wire.name]
        assert all(reasons.values for reasons in wire.reasons), wire.name


@pytest.mark.slow
@pytest.mark.parametrize("package", SDKS)
def test_nothing_more_is_lost(package: str) -> None:
    """Of what the record knows. What a newer SDK adds is for `scripts/drift`, and no fault of a change."""
    newer = []
    for wire in installed(package).wires:
        recorded = load(wire.name)
        assert recorded is not None
        more = [loss for loss in losses(wire) if not is_recorded(loss.label, loss.what, recorded["losses"])]
        worse = [f"{loss.label}: {loss.what}" for loss in more if not is_new(loss, recorded)]
        assert not worse, f"{wire.name} loses what it did not lose; see docs/drift.md: {worse}"
        newer += [loss.label for loss in more]
    if newer:
        pytest.skip(f"{package} is newer than the record, run scripts/drift. It adds: {', '.join(newer)}")


def test_a_reader_that_fails_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """As where an SDK has moved its types."""
    ollama = pytest.importorskip("ollama", reason="ollama is not installed (extra: test)")
    monkeypatch.delattr(ollama, "ChatResponse")
    monkeypatch.delitem(sys.modules, "drift.vendors.ollama", raising=False)
    (sdk,) = read(("ollama",))
    assert sdk.wires == ()
    assert sdk.trouble is not None
    assert "edit drift/vendors/ollama.py" in sdk.trouble


def test_each_omission_has_a_reason() -> None:
    for wire, patterns in meaningless().items():
        assert wire in FEWEST_TYPES
        assert all(len(reason) > 10 for reason in patterns.values())


def test_run_over_record_finds_nothing_new() -> None:
    sdk = installed("ollama")
    (wire,) = sdk.wires
    recorded = load(wire.name)
    assert recorded is not None
    if recorded["sdk"] != f"{sdk.package} {sdk.version}":
        pytest.skip(f"the record is of {recorded['sdk']}")
    assert [str(c) for c in compared(found_in(sdk, wire), recorded) if c.bad] == []
