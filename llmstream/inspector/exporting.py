"""Exports of a call: a recording, a test, a trace, and the same answer on another wire."""

from __future__ import annotations

import io
import keyword
import re
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from string import Template
from typing import Any, Final

import msgspec

from llmstream.dialects.base import DIALECTS, dialect_class
from llmstream.errors import InvalidRequest
from llmstream.events import decode
from llmstream.inspector.calls import CallTrace
from llmstream.inspector.sources import Decoding, from_body
from llmstream.inspector.trace import (
    FORMAT,
    EventsSeen,
    Frame,
    Line,
    Read,
    TraceBegan,
    encode_line,
)
from llmstream.providers.registry import find_provider
from llmstream.request import Request
from llmstream.server_side.wires import server_side
from llmstream.simulator.recording import Recording
from llmstream.testing.faults import comparable

__all__ = ["pieces_of", "pytest_of", "recording_of", "recording_zip", "replayed", "trace_of"]

_NS: Final = 1e9
_OK: Final = 200
_RESET: Final = "connection-lost"
_CONTENT: Final = ("text-delta", "reasoning-delta", "tool-input-delta")
# A literal of a longer line is split, so that an editor shows it.
_LITERAL_BYTES: Final = 8_000


def recording_of(call: CallTrace) -> Recording:
    """The body of the last response with the times of its reads.

    raises: InvalidRequest if the bytes are not known
    """
    if not call.frames:
        raise InvalidRequest("the bytes of this call are not known; only its events can be exported")
    start = call.heads[-1].offset if call.heads else 0
    body = b"".join([frame.data for frame in call.frames if frame.offset >= start])
    reads = [read for read in call.reads if read.offset >= start and read.size]
    began = call.heads[-1].ns if call.heads else call.start_ns
    timing = tuple((max(0.0, round((read.ns - began) / _NS, 6)), read.size) for read in reads)
    head = call.heads[-1] if call.heads else None
    kind = (head.headers.get("content-type", "") if head else "") or (
        call.began.content_type if call.began is not None else ""
    )
    return Recording(
        body=body,
        content_type=kind or "text/event-stream",
        status=head.status if head else 200,
        timing=timing,
    )


def recording_zip(call: CallTrace) -> bytes:
    """A ZIP with the folder that `Recording.load` and `llmstream replay` read.

    raises: InvalidRequest
    """
    recording = recording_of(call)
    meta = {"content_type": recording.content_type, "status": recording.status}
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as packed:
        name = _name(call)
        packed.writestr(f"{name}/response.bin", recording.body)
        lines = [msgspec.json.encode(moment) + b"\n" for moment in recording.timing]
        packed.writestr(f"{name}/timing.jsonl", b"".join(lines))
        packed.writestr(f"{name}/meta.json", msgspec.json.encode(meta) + b"\n")
    return held.getvalue()


def pieces_of(recording: Recording) -> list[bytes]:
    """The body in the pieces of its reads."""
    return [piece for _, piece in recording.pieces(None)]


def trace_of(call: CallTrace) -> bytes:
    """The lines of a call, as a file that `llmstream inspect` reads."""
    zero = TraceBegan(format=FORMAT, version=1, at=call.began_at, ns=call.start_ns)
    lines: list[Line] = [zero]
    lines += [line for line in (call.began,) if line is not None]
    lines += [*call.requests, *call.heads, *call.failed, *_body_lines(call)]
    lines += [line for line in (call.ended,) if line is not None]
    return b"".join(map(encode_line, lines))


def _body_lines(call: CallTrace) -> Iterator[Line]:
    """Reads, frames and events; a frame before its events, and times in order."""
    frames, written = call.frames, 0
    timed: list[tuple[int, int, Read | int]] = [(read.ns, 0, read) for read in call.reads]
    timed += [(seen.at_ns, 1, place) for place, seen in enumerate(call.events)]
    # By time and kind only: lines have no order. Reads come before the events decoded from them.
    for _, _, line in sorted(timed, key=lambda item: item[:2]):
        if isinstance(line, Read):
            yield line
            continue
        seen = call.events[line]
        while written <= seen.frame:
            yield frames[written]
            written += 1
        offset = frames[seen.frame].offset if seen.frame >= 0 else -1
        pair = (offset, msgspec.Raw(seen.data))
        yield EventsSeen(call=call.id, ns=seen.at_ns, events=[pair])
    rest: list[Frame] = frames[written:]
    yield from rest


def replayed(call: CallTrace, dialect: str) -> CallTrace:
    """The same events written in another dialect, and read again: a call to compare with the first.

    raises: InvalidRequest for an unknown dialect
    """
    if dialect not in DIALECTS:
        raise InvalidRequest(f"unknown dialect {dialect!r}. Dialects: {', '.join(DIALECTS)}.")
    side = server_side(dialect_class(dialect)())
    model = call.began.model if call.began is not None else ""
    encoder = side.event_encoder(Request(model=model or "model"))
    start = call.start_ns
    body, timing = bytearray(), list[tuple[float, int]]()
    for seen in call.events:
        piece = encoder.feed(decode(seen.data))
        if piece:
            body += piece
            timing.append(((seen.at_ns - start) / _NS, len(piece)))
    # Of an answer without an end none is written.
    if call.state not in ("cut", "left", "open"):
        piece = encoder.close()
        body += piece
        timing.append(((call.end_ns - start) / _NS, len(piece)))
    recording = Recording(body=bytes(body), content_type=side.content_type, timing=tuple(timing))
    made = from_body(
        recording, Decoding(side.dialect, dialect), f"{call.source} as {dialect}" if call.source else dialect
    )
    made.id = f"{call.id}~{dialect}"
    made.began_at = call.began_at
    return made


# Tests.


# A program that `pytest_of` fills in.
_TEST: Final = Template(
    '''\
"""$model: a stream that was recorded, exported by `llmstream inspect`.

It plays the recorded bytes on loopback, in the recorded pieces. Put your own code into `read`.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

${imports}import llmstream as ls
from llmstream.testing import Stepwise, comparable

MODEL = $quoted_model
CONTENT_TYPE = $content_type

# What each read of the socket returned.
PIECES = [
$pieces
]

# How many pieces of content were there after each of them: text, reasoning, input of tools.
CONTENT = $content

EVENTS = [
$events
]


async def read(model: ls.Model) -> AsyncIterator[ls.Event]:
    """The code under test: yields the events of one answer as they arrive."""
    async for event in model.events('Hi'):
        yield event


def model_at(url: str) -> ls.Model:
    return ls.Model(MODEL, base_url=url, api_key='not-a-key', retry=ls.Retry(max_retries=0))


async def test_$name() -> None:
    """Each piece is sent only after all content of those before it has been read."""
    events: list[ls.Event] = []
    content = 0
    async with (
        Stepwise(PIECES, CONTENT_TYPE$resets) as server,
        aclosing(read(model_at(server.url))) as reading,
    ):
        for number, expected in enumerate(CONTENT):
            server.send()
            while content < expected:
                try:
                    event = await asyncio.wait_for(anext(reading), 30)
                except TimeoutError:
                    raise AssertionError(f'the content of piece {number} is held back') from None
                events.append(event)
                content += isinstance(event, ls.TextDelta | ls.ReasoningDelta | ls.ToolInputDelta)
        server.send()  # the end of the body
$ending
    assert comparable(events) == EVENTS
'''
)


def pytest_of(call: CallTrace) -> bytes:
    """A file for pytest that plays the recorded bytes, in the recorded pieces, and compares the events.

    raises: InvalidRequest if the bytes are not known, or alone do not make the events
    """
    recording = recording_of(call)
    began = call.began
    assert began is not None  # a call with frames has one
    error = call.ended.error.code if call.ended is not None and call.ended.error is not None else None
    events = _comparable(call)
    _check_made_of(recording, call, events)
    model = _plain(f"{began.provider}:{began.model or 'model'}")
    program = _TEST.substitute(
        model=model,
        imports="import pytest\n\n" if error else "",
        quoted_model=repr(model),
        content_type=repr(recording.content_type),
        pieces="\n".join(_literals(pieces_of(recording))),
        content=repr(_content_counts(call, recording)),
        events="\n".join(f"    {value!r}," for value in events),
        name=_name(call),
        resets=", resets=True" if error == _RESET else "",
        ending="\n".join(_end_of_test(error)),
    )
    return program.encode()


def _comparable(call: CallTrace) -> list[dict[str, Any]]:
    return comparable(call.decoded())


def _check_made_of(recording: Recording, call: CallTrace, events: list[dict[str, Any]]) -> None:
    """Checks that a program that reads the bytes again gets the events."""
    began, error = call.began, call.ended.error if call.ended is not None else None
    assert began is not None  # by the caller
    if call.state in ("open", "left") or recording.status != _OK or began.dialect not in DIALECTS:
        raise InvalidRequest("a test needs a response that was read to its end; export a recording instead")
    dialect = dialect_class(began.dialect)()
    # A provider that is not known here has its dialect without quirks.
    with suppress(InvalidRequest):
        provider = find_provider(began.provider, began.model)
        dialect = provider.dialect if provider.dialect.name == began.dialect else dialect
    again = _comparable(from_body(recording, Decoding(dialect, began.provider), ""))
    if error is not None and error.code == _RESET:  # a body that ends is one that was cut in another way
        again = [{**one, "code": _RESET} if one["type"] == "error" else one for one in again]
    if again != events:
        raise InvalidRequest(
            "the events of this call cannot be decoded from its bytes alone: it had several responses, a "
            "deadline, or an output that is read in another way. Export a recording instead."
        )


def _end_of_test(error: str | None) -> Iterator[str]:
    rest = "events += [event async for event in reading]"
    if error is None:
        yield f"        {rest}"
        return
    yield "        with pytest.raises(ls.LLMStreamError) as failed:"
    yield "            async for event in reading:"
    yield "                events.append(event)"
    yield f"    assert failed.value.code == {error!r}"


def _content_counts(call: CallTrace, recording: Recording) -> list[int]:
    """After each piece, the number of content events so far; a reader gets none before the first content."""
    start = call.heads[-1].offset if call.heads else 0
    ends, at = list[int](), start
    for piece in pieces_of(recording):
        at += len(piece)
        ends.append(at)
    counts = [0] * len(ends)
    for seen in call.events:
        if seen.kind not in _CONTENT or seen.frame < 0:
            continue
        frame = call.frames[seen.frame]
        last = frame.offset + frame.size
        place = next((place for place, end in enumerate(ends) if end >= last), len(ends) - 1)
        counts[place] += 1
    total, sums = 0, list[int]()
    for count in counts:
        total += count
        sums.append(total)
    return sums


def _literals(pieces: list[bytes]) -> Iterator[str]:
    for piece in pieces:
        if len(piece) <= _LITERAL_BYTES:
            yield f"    {piece!r},"
            continue
        yield "    b''.join(["
        for start in range(0, len(piece), _LITERAL_BYTES):
            yield f"        {piece[start : start + _LITERAL_BYTES]!r},"
        yield "    ]),"


def _plain(text: str) -> str:
    """A text for a docstring and a literal: printable ASCII without quotes."""
    return re.sub(r"[^ !#-&(-\[\]-~]", "_", text)


def _name(call: CallTrace) -> str:
    began = call.began
    text = f"{began.provider}_{began.model}" if began is not None else "call"
    found = re.sub(r"\W+", "_", text, flags=re.ASCII).strip("_").lower()[:40] or "call"
    # Such as a model called "import".
    return f"{found}_" if keyword.iskeyword(found) else found
