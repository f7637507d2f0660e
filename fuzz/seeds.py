"""What a fuzzer begins with: answers that our own encoders write, our own recordings, and their words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import msgspec

from fuzz.inputs import write
from fuzz.targets import DIALECTS, TARGETS
from llmstream.cli.config import wire_of
from llmstream.framing.aws_event_stream import encode_message
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.simulator import Break, Call, Turn
from llmstream.simulator.timeline import timeline_of

ROOT = Path(__file__).resolve().parents[1]
_RECORDINGS = ROOT / "tests" / "dialects"
_OUTSIDE = ROOT.parent / "shared" / "corpus"

_TURNS = (
    Turn(text="Hé"),
    Turn(reasoning="Hm. So", text="4"),
    Turn(calls=(Call("f", {"a": [1, "ü"]}),)),
    Turn(text="a", calls=(Call("f", {}), Call("g", '{"b":'))),
    Turn(text="too long", finish_reason="length"),
    Turn(text="a b c", fault=Break(after_events=3, status=529)),
)
_SSE = (
    b"data: a\n\n",
    b"event: x\r\ndata: 1\r\ndata:2\r\nid: 7\r\nretry: 5\r\n\r\n",
    b"\xef\xbb\xbf:ping\n\ndata\n\nevent: a\ndata: b\n\nevent: c\ndata: d\n\n",
    b"data: \xff\r\rdata: [DONE]\n\n",
)
_NDJSON = (b'{"a":1}\n{"b":2}\r\n \n[]', b"\xef\xbb\xbfnull\n\n", b'"\\u00e4\xc3\xa4"\n')
_JSON = (
    b'{"a":[1,-2.5e3,true,false,null],"b":{"c":"d\\n\\u00e4\\ud83d\\ude00"}}',
    b'["\xc3\xa4\xf0\x9f\x99\x82",{},[],"\\\\\\"/"]',
    b" 12345678901234567890 ",
    b'{"a":{"a":[[["x"]]]},"a":0.1E-7}',
)
_MESSAGES = (
    encode_message({}, b"{}"),
    encode_message({":event-type": "a", "n": 7, "t": True, "b": b"\0\1"}, b'{"p":1}'),
    encode_message({"i": 2**40, "f": False}, b"") + encode_message({}, b"x"),
)
_WORDS = re.compile(rb'"[^"\\\n]{1,24}"')


def seeds(name: str, *, outside: bool = True) -> list[bytes]:
    """The inputs that a target begins with, each short enough for it; `outside`: of others too."""
    make = {
        "sse": lambda: _with_modes(_SSE, (0, 1)),
        "ndjson": lambda: _with_modes(_NDJSON, (0, 1)),
        "partial-json": lambda: _with_modes(_JSON, (0, 1, 2)),
        "aws-event-stream": lambda: _with_modes(_MESSAGES, (0, 1, 2)),
    }
    found = make[name]() if name in make else _of_dialect(name, outside)
    return sorted({seed[: TARGETS[name].max_len] for seed in found})


def words(name: str) -> list[bytes]:
    """What a fuzzer would take long to guess; of a dialect, the quoted words of its seeds."""
    if name not in DIALECTS:
        return [
            b"data: ",
            b"event: ",
            b"id: ",
            b"retry: ",
            b"\r\n",
            b"\xef\xbb\xbf",
            b"\\ud83d\\ude00",
            b"false",
        ]
    return sorted({word for seed in _of_dialect(name, outside=True) for word in _WORDS.findall(seed)})


def _with_modes(bodies: Iterable[bytes], modes: Iterable[int]) -> list[bytes]:
    return [write(body, mode) for body in bodies for mode in modes]


def _of_dialect(name: str, outside: bool) -> list[bytes]:
    from fuzz.sentences import LINES, OTHER, RAW, TIGHT, ways

    found: list[bytes] = []
    for body in [*_written(name), *_recorded(name, outside)]:
        found += _with_modes((body,), (0, RAW, TIGHT))
    for lines in _payloads(name, outside):
        windows = list(_windows(lines, TARGETS[name].max_len))
        found += [write(piece, LINES) for piece in windows]
        if ways(name)[0] is not ways(name)[1]:
            found += [write(piece, LINES | OTHER) for piece in windows[:1]]
    return found


def _written(name: str) -> Iterator[bytes]:
    """The turns as our encoders write them."""
    dialect, _, _ = wire_of(name, None)
    request = Request(model="m")
    for turn in _TURNS:
        encoder = server_side(dialect).event_encoder(request)
        yield b"".join([encoder.feed(beat.event) for beat in timeline_of(turn, request)]) + encoder.close()


def _recorded(name: str, outside: bool) -> Iterator[bytes]:
    folder = _RECORDINGS / name.replace("-", "_") / "recordings"
    for path in sorted(folder.glob("*")):
        if path.suffix in (".sse", ".ndjson"):
            yield path.read_bytes()
    if outside and _OUTSIDE.is_dir():
        for path in sorted((_OUTSIDE / name).glob("*/response.bin"))[::4]:
            yield path.read_bytes()


def _payloads(name: str, outside: bool) -> Iterator[list[bytes]]:
    """The payloads of every body we have, a list a body, as mode LINES wants them."""
    folder = _RECORDINGS / name.replace("-", "_") / "recordings"
    for path in sorted(folder.glob("*.wire.jsonl")):
        yield [_named(line) for line in path.read_bytes().splitlines()]
    if name == "bedrock-converse":
        return
    for body in [*_written(name), *_recorded(name, outside)]:
        lines = body.splitlines()
        data = [line[5:].strip() for line in lines if line.startswith(b"data:")]
        yield data or lines


def _named(line: bytes) -> bytes:
    ((name, payload),) = msgspec.json.decode(line, type=dict[str, msgspec.Raw]).items()
    return name.encode() + b" " + bytes(payload)


def _windows(lines: list[bytes], most: int) -> Iterator[bytes]:
    """A body in parts that are short enough, each with the body's first line before it and its last after."""
    if sum(map(len, lines)) + len(lines) < most - 8:
        yield b"\n".join(lines)
        return
    part: list[bytes] = []
    for line in lines[1:-1]:
        together = b"\n".join([lines[0], *part, line, lines[-1]])
        if len(together) < most - 8:
            part.append(line)
        elif part:
            yield b"\n".join([lines[0], *part, lines[-1]])
            part = []
    if part:
        yield b"\n".join([lines[0], *part, lines[-1]])
