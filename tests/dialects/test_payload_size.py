"""The memory of a payload is estimated well enough, and its strings are told from its structure."""

from __future__ import annotations

import json
import tracemalloc

import msgspec
import pytest

from llmstream.dialects import payload_size
from llmstream.dialects.payload_size import MAX_DECODED_BYTES, decoded_size

WIDE = "\N{ARTIST PALETTE}"
VALUES: dict[str, object] = {
    "unique keys": {f"k{n}": n for n in range(50_000)},
    "floats": [n / 7 for n in range(50_000)],
    "texts": [f"text {n}" for n in range(50_000)],
    "objects": [{"id": f"i{n}", "score": n / 7, "name": None} for n in range(20_000)],
    "empty objects": [{}] * 50_000,
    "nested lists": [[[[n]]] for n in range(20_000)],
    "wide text": "x" * 1_000_000 + WIDE,
    "base64": "QUJD" * 500_000,
}


def peak_of_decoding(payload: bytes) -> int:
    tracemalloc.start()
    try:
        msgspec.json.decode(payload)
        return len(payload) + tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.parametrize("name", VALUES)
def test_estimate_is_near_the_memory(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_size, "MAX_DECODED_BYTES", 0)  # no quick look
    payload = json.dumps(VALUES[name], ensure_ascii=False).encode()
    assert 0.8 < decoded_size(payload) / peak_of_decoding(payload) < 3.5


@pytest.mark.parametrize("window", [1, 2, 3, 7, 64, 65536])
@pytest.mark.parametrize("text", ['{"a":[1,2]}', "\\", '\\\\"', '"\\"{{[[,,::', "a\\\\\\", ""], ids=repr)
def test_marks_in_strings_do_not_count(text: str, window: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(payload_size, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(payload_size, "_WINDOW", window)
    payload = msgspec.json.encode({"k": [text, {"l": 1}]})
    plain = msgspec.json.encode({"k": ["x", {"l": 1}]})
    assert decoded_size(payload) - 2 * len(payload) == decoded_size(plain) - 2 * len(plain)


def test_source_code_in_a_string_is_text() -> None:
    """A tool that writes a file of JSON sends megabytes of marks."""
    payload = json.dumps({"content": json.dumps({"a": [1, 2]}) * 500_000}).encode()
    assert decoded_size(payload) < MAX_DECODED_BYTES


def test_emoji_beside_an_image_does_no_harm() -> None:
    payload = json.dumps({"image": "QUJD" * 3_500_000, "text": WIDE * 1000}, ensure_ascii=False).encode()
    assert decoded_size(payload) < MAX_DECODED_BYTES


def test_a_hidden_structure_is_counted() -> None:
    """Marks in a string do not make room for keys."""
    keys = ",".join(f'"k{n}":1' for n in range(600_000))
    payload = ('{"text":"' + "{" * 100_000 + '",' + keys + "}").encode()
    assert decoded_size(payload) > MAX_DECODED_BYTES
