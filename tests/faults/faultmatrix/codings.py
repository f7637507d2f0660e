"""What compression can do wrong: rows 12, 13 and 32."""

from __future__ import annotations

import functools
import gzip
import zlib
from collections.abc import Callable

from faultmatrix.asking import Script, answered
from faultmatrix.faults import Fault
from faultmatrix.wires import Wire

import llmstream as ls
from llmstream.testing import Do, gzipped

MB = b" " * 1_000_000


def coded(wire: Wire, *body: object, coding: str = "gzip", **options: object) -> list[Script]:
    return [answered(wire, *body, headers={"content-encoding": coding}, **options)]  # type: ignore[arg-type]


def packed(*pieces: bytes, wbits: int = 31) -> list[bytes]:
    packer = zlib.compressobj(wbits=wbits)
    out = [packer.compress(piece) + packer.flush(zlib.Z_SYNC_FLUSH) for piece in pieces]
    return [*out, packer.flush()]


@functools.cache
def bomb(start: bytes, megabytes: int) -> bytes:
    """A small body that becomes large: what it begins with, and blanks."""
    packer = zlib.compressobj(wbits=31)
    pieces = [packer.compress(start), *(packer.compress(MB) for _ in range(megabytes)), packer.flush()]
    return b"".join(pieces)


def first_of(wire: Wire) -> bytes:
    return gzipped(wire.half, wire.rest)[0]


_WRONG: dict[str, Callable[[Wire], bytes]] = {
    "cut after an event": first_of,
    "cut in an event": lambda wire: b"".join(gzipped(wire.half, wire.lo[:20])[:2]),
    "without its end": lambda wire: b"".join(gzipped(wire.half)[:1]),
}

FAULTS = [
    *(
        Fault(
            name=f"{coding} as {how}",
            row=12,
            scripts=lambda wire, wbits=wbits, coding=coding: coded(
                wire, *packed(wire.half, wire.rest, wbits=wbits), coding=coding
            ),
        )
        for coding, how, wbits in (("gzip", "gzip", 31), ("deflate", "zlib", 15), ("deflate", "raw", -15))
    ),
    Fault(
        name="gzip, one byte at a time",
        row=12,
        scripts=lambda wire: coded(
            wire, *(bytes([byte]) for byte in b"".join(gzipped(wire.half, wire.rest)))
        ),
    ),
    Fault(
        name="identity, declared",
        row=12,
        scripts=lambda wire: coded(wire, wire.whole, coding="identity"),
    ),
    # row 13
    *(
        Fault(
            name=f"gzip {how}",
            row=13,
            scripts=lambda wire, body=body: coded(wire, body(wire)),
            error=(ls.IncompleteStream, ls.DecodeError),
            text="Hel",
        )
        for how, body in _WRONG.items()
    ),
    Fault(
        name="gzip without its end, answer complete",
        row=13,
        scripts=lambda wire: coded(wire, gzipped(wire.whole)[0]),
    ),
    Fault(
        name="gzip damaged",
        row=13,
        scripts=lambda wire: coded(wire, first_of(wire), 0.02, b"\xff" * 64),
        error=ls.DecodeError,
        text="Hel",
    ),
    Fault(
        name="gzip damaged, then silence",
        row=13,
        scripts=lambda wire: coded(wire, first_of(wire), 0.02, b"\xff" * 64, Do.HANG, end=False),
        error=ls.DecodeError,
        text="Hel",
        within_s=3.0,
    ),
    Fault(
        name="gzip with a wrong sum",
        row=13,
        scripts=lambda wire: coded(
            wire, gzip.compress(wire.half)[:-8] + b"\0\1\2\3" + gzip.compress(wire.half)[-4:]
        ),
        error=(ls.DecodeError, ls.IncompleteStream),
    ),
    *(
        Fault(
            name=f"{coding} that it is not",
            row=13,
            scripts=lambda wire, coding=coding: coded(wire, wire.whole, coding=coding),
            error=ls.DecodeError,
            text="",
        )
        for coding in ("gzip", "deflate", "br", "zstd", "rot13", "x-gzip", "gzip, br", "\xe9")
    ),
    Fault(
        name="another charset, said",
        row=13,
        scripts=lambda wire: [
            answered(
                wire,
                wire.altered(wire.lo, b'"lo"', '"ö"'.encode()).join([wire.half, wire.closing]),
                content_type=f"{wire.content_type}; charset=latin-1",
            )
        ],
        text="Helö",
    ),
    # row 32
    Fault(
        name="gzip bomb in the stream",
        row=32,
        scripts=lambda wire: coded(wire, bomb(wire.half + wire.frame(b'{"type": "x", "y": "')[:-2], 20)),
        error=(ls.LimitExceeded, ls.DecodeError, ls.ProtocolError, ls.IncompleteStream),
        text="Hel",
        within_s=8.0,
    ),
    Fault(
        name="gzip bomb as a refusal",
        row=32,
        scripts=lambda wire: coded(
            wire, bomb(b'{"error": {"message": "', 20), status=500, content_type="application/json"
        ),
        error=(ls.ServerError, ls.ProviderError),
        text="",
        within_s=8.0,
    ),
    Fault(
        name="gzip bomb as one JSON value",
        row=32,
        scripts=lambda wire: coded(wire, bomb(b'{"a": "', 20), content_type="application/json"),
        error=(ls.LimitExceeded, ls.NotAStream),
        text="",
        within_s=8.0,
    ),
]
