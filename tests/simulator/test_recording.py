"""Recordings are read with their timing and played by a clock."""

from __future__ import annotations

from pathlib import Path

import aiohttp
import pytest

from llmstream.dialects.ollama import Ollama
from llmstream.errors import InvalidRequest
from llmstream.simulator import Recording, Simulator

BODY = b'data: {"a":1}\n\ndata: [DONE]\n\n'


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 6))
        self.now += seconds


def test_a_folder_holds_body_timing_and_meta(tmp_path: Path) -> None:
    (tmp_path / "response.bin").write_bytes(BODY)
    (tmp_path / "timing.jsonl").write_text("[0.5, 15]\n[2.5, 14]\n")
    (tmp_path / "meta.json").write_text('{"content_type": "text/plain", "status": 201, "more": 1}')
    recording = Recording.load(tmp_path)
    assert (recording.content_type, recording.status) == ("text/plain", 201)
    assert list(recording.pieces()) == [(0.5, BODY[:15]), (2.5, BODY[15:])]
    assert [due for due, _ in recording.pieces(2.0)] == [0.25, 1.25]
    assert [due for due, _ in recording.pieces(None)] == [0.0, 0.0]


def test_a_file_alone_comes_at_once(tmp_path: Path) -> None:
    path = tmp_path / "answer.sse"
    path.write_bytes(BODY)
    assert list(Recording.load(path).pieces()) == [(0.0, BODY)]
    (tmp_path / "answer.sse.timing.jsonl").write_text("[1, 4]")
    assert list(Recording.load(path).pieces()) == [(1.0, BODY[:4]), (1.0, BODY[4:])]


@pytest.mark.parametrize(
    ("name", "body", "content_type"),
    [
        ("a.ndjson", b"{}", "application/x-ndjson"),
        ("a.bin", b'{"model":"m"}\n', "application/x-ndjson"),
        ("a.bin", b"event: x\n", "text/event-stream"),
        ("a.sse", b"{}", "text/event-stream"),
    ],
)
def test_content_type_is_known_or_guessed(tmp_path: Path, name: str, body: bytes, content_type: str) -> None:
    (tmp_path / name).write_bytes(body)
    assert Recording.load(tmp_path / name).content_type == content_type


def test_what_is_no_recording_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequest, match="cannot read"):
        Recording.load(tmp_path)
    (tmp_path / "response.bin").write_bytes(b"x")
    (tmp_path / "timing.jsonl").write_text("nonsense")
    with pytest.raises(InvalidRequest, match="is not a recording"):
        Recording.load(tmp_path)
    with pytest.raises(InvalidRequest, match="negative"):
        Recording(body=b"", timing=((-1.0, 3),))


async def test_recording_plays_with_its_timing() -> None:
    """The request does not matter."""
    clock = Clock()
    recording = Recording(body=BODY, timing=((0.5, 15), (2.5, 14)))
    simulator = Simulator(
        recordings=recording, dialects=[Ollama()], clock=clock, sleep=clock.sleep, speed=2.0
    )
    async with simulator, aiohttp.ClientSession() as session:
        answer = await session.post(simulator.url + "/any/path", data=b"anything")
        assert answer.headers["content-type"] == "text/event-stream"
        assert await answer.read() == BODY
    assert clock.slept == [0.25, 1.0]
    assert simulator.requests[0].http.body == b"anything"


async def test_recordings_in_order_then_the_last() -> None:
    recordings = [Recording(body=b"a", status=500), Recording(body=b"b")]
    async with (
        Simulator(recordings=recordings, dialects=[Ollama()]) as simulator,
        aiohttp.ClientSession() as session,
    ):
        seen = []
        for _ in range(3):
            async with session.post(simulator.url + "/api/chat") as answer:
                seen.append((answer.status, await answer.read()))
    assert seen == [(500, b"a"), (200, b"b"), (200, b"b")]


@pytest.mark.parametrize(
    "meta",
    [
        b'{"a":' * 100_000,
        b'{"status": -1}',
        b'{"status": 1000000000000000000000000000000}',
        b'{"content_type": "x\\r\\nset-cookie: a=b"}',
        b'{"version": 99}',
    ],
)
def test_a_crafted_meta_is_refused(meta: bytes, tmp_path: Path) -> None:
    (tmp_path / "response.bin").write_bytes(b"data: x\n\n")
    (tmp_path / "meta.json").write_bytes(meta)
    with pytest.raises(InvalidRequest):
        Recording.load(tmp_path)


@pytest.mark.parametrize("timing", [b"[1e308, 10]\n", b"[" * 100_000])
def test_a_crafted_timing_is_refused(timing: bytes, tmp_path: Path) -> None:
    (tmp_path / "response.bin").write_bytes(b"data: x\n\n")
    (tmp_path / "timing.jsonl").write_bytes(timing)
    with pytest.raises(InvalidRequest):
        Recording.load(tmp_path)
