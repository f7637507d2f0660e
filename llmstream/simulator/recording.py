"""Recorded answers: bytes, and the moments at which they came."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import msgspec

from llmstream.chats.content import read_whole
from llmstream.errors import InvalidRequest

__all__ = ["Recording"]

_BODY: Final = "response.bin"
_TIMING: Final = "timing.jsonl"
_META: Final = "meta.json"

_EVENT_STREAM: Final = "text/event-stream"
_TYPES: Final = {
    ".sse": _EVENT_STREAM,
    ".ndjson": "application/x-ndjson",
    ".jsonl": "application/x-ndjson",
    ".json": "application/json",
}


_DAY_S: Final = 24 * 3600.0

_VERSION: Final = 1


class _Meta(msgspec.Struct):
    content_type: str = ""
    status: Annotated[int, msgspec.Meta(ge=100, le=999)] = 200
    version: int = _VERSION

    def __post_init__(self) -> None:
        if not self.content_type.isprintable():
            raise ValueError("its content type holds a control character")
        if self.version != _VERSION:
            raise ValueError(f"it is of version {self.version}; this llmstream reads {_VERSION}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One answer as it was recorded.

    timing: pairs of seconds since the answer began and bytes that had newly come by then; the rest
            of the body, or all of it where there are none, comes with the last
    """

    body: bytes
    content_type: str = _EVENT_STREAM
    status: int = 200
    timing: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if any(count < 0 or seconds < 0 for seconds, count in self.timing):
            raise InvalidRequest("the timing of a recording holds a negative number")

    def pieces(self, speed: float | None = 1.0) -> Iterator[tuple[float, bytes]]:
        """The body in the pieces in which it came, each with the second at which it is due.

        speed: 2.0 is twice as fast as it was; None is without waiting
        """
        start, due_s = 0, 0.0
        for seconds, count in self.timing:
            due_s = seconds / speed if speed else 0.0
            if count:
                yield due_s, self.body[start : start + count]
            start += count
        if start < len(self.body):
            yield due_s, self.body[start:]

    @classmethod
    def load(cls, path: str | Path) -> Recording:
        """The recording of a file, or of a folder with `response.bin`.

        Beside the body may stand its timing, a JSON array `[seconds, bytes]` a line (`timing.jsonl`
        in a folder, `NAME.timing.jsonl` beside a file), and in a folder `meta.json` with
        `content_type` and `status`.

        raises: InvalidRequest where there is no body, or timing or meta cannot be read
        """
        place = Path(path)
        folder = place.is_dir()
        body_file = place / _BODY if folder else place
        timing_file = place / _TIMING if folder else place.with_name(f"{place.name}.{_TIMING}")
        meta_file = place / _META if folder else None
        try:
            body = read_whole(body_file)
            meta = _Meta()
            if meta_file is not None and meta_file.exists():
                meta = msgspec.json.decode(read_whole(meta_file), type=_Meta)
            timing: list[tuple[float, int]] = []
            if timing_file.exists():
                timing = msgspec.json.Decoder(tuple[float, int]).decode_lines(read_whole(timing_file))
            if any(seconds > _DAY_S for seconds, _ in timing):
                raise ValueError("its timing is longer than a day")
        except OSError as error:
            raise InvalidRequest(
                f"cannot read the recording {str(path)!r}: {error.strerror or error}"
            ) from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{str(path)!r} is no recording: {error}") from None
        content_type = meta.content_type or _TYPES.get(body_file.suffix) or _guess(body)
        return cls(body=body, content_type=content_type, status=meta.status, timing=tuple(timing))


def _guess(body: bytes) -> str:
    head = body.lstrip()[:1]
    return "application/x-ndjson" if head == b"{" else _EVENT_STREAM
