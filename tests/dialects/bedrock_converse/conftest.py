"""Ways to drive the bedrock-converse dialect that its tests share."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from llmstream.dialects.base import StreamLimits
from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.events import Event
from llmstream.framing.aws_event_stream import encode_message
from llmstream.grammar import check

RECORDINGS = Path(__file__).parent / "recordings"
PADDING = "abcdefghijklmnopqrstuvwxyz"

Decode = Callable[..., list[Event]]
Frames = Callable[..., list[bytes]]


@pytest.fixture(scope="session")
def decode() -> Decode:
    """Chunks of a body to a whole sentence, which is checked against the grammar."""

    def run(*chunks: bytes, limits: StreamLimits = StreamLimits(), include_raw: bool = False) -> list[Event]:
        decoder = BedrockConverse().decoder(provider="bedrock", limits=limits, include_raw=include_raw)
        sentence = GuardedDecoder(decoder, provider="bedrock")
        events = sentence.start()
        for chunk in chunks:
            events = events + sentence.feed(chunk)
        events = events + sentence.close()
        assert check(events) == []
        return events

    return run


@pytest.fixture(scope="session")
def frames() -> Frames:
    """Events of the wire, each `{NAME: MEMBERS}`, as frames padded as the vendor pads them."""

    def write(*events: dict[str, Any]) -> list[bytes]:
        out = []
        for number, event in enumerate(events):
            ((name, members),) = event.items()
            kind = "exception" if name.endswith("Exception") else "event"
            headers = {
                f":{kind}-type": name,
                ":content-type": "application/json",
                ":message-type": kind,
            }
            padded = {**members, "p": PADDING[: number % 26]} if kind == "event" else members
            out.append(encode_message(headers, json.dumps(padded).encode()))
        return out

    return write


class Recording:
    """A body made by hand: the wire's events, one a line, and beside them what they mean."""

    def __init__(self, name: str, frames: Frames) -> None:
        lines = (RECORDINGS / f"{name}.wire.jsonl").read_text().splitlines()
        self.wire = [json.loads(line) for line in lines]
        self.frames = frames(*self.wire)
        self.body = b"".join(self.frames)
        self.expected = RECORDINGS / f"{name}.jsonl"


@pytest.fixture(scope="session", params=sorted(p.name.split(".")[0] for p in RECORDINGS.glob("*.wire.jsonl")))
def recording(request: pytest.FixtureRequest, frames: Frames) -> Recording:
    """Each recording in turn."""
    return Recording(request.param, frames)
