"""Recorded responses: their bytes and when they arrived."""

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
            raise ValueError("the content type has a control character")
        if self.version != _VERSION:
            raise ValueError(f"it has version {self.version}; this llmstream reads version {_VERSION}")


class Recording(msgspec.Struct, frozen=True, kw_only=True):
    """One recorded response.

    timing: pairs of seconds since the start and number of bytes that arrived then; the rest of the
            body arrives with the last pair
    """

    body: bytes
    content_type: str = _EVENT_STREAM
    status: int = 200
    timing: tuple[tuple[float, int], ...] = ()

    def __post_init__(self) -> None:
        if any(count < 0 or seconds < 0 for seconds, count in self.timing):
            raise InvalidRequest("the timing of a recording has a negative number.")

    def pieces(self, speed: float | None = 1.0) -> Iterator[tuple[float, bytes]]:
        """Yields the pieces of the body with the seconds at which they are due.

        speed: factor of the original speed; None does not wait
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
        """Loads a recording from a file, or from a folder with `response.bin`.

        Optional files are the timing, one JSON array `[seconds, bytes]` per line (`timing.jsonl` in a
        folder, `NAME.timing.jsonl` beside a file), and in a folder `meta.json` with `content_type` and
        `status`.

        raises: InvalidRequest if a file is missing or invalid
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
                raise ValueError("the timing is longer than a day")
        except OSError as error:
            raise InvalidRequest(
                f"cannot read the recording {str(path)!r}: {error.strerror or error}"
            ) from None
        except (msgspec.MsgspecError, ValueError, RecursionError) as error:
            raise InvalidRequest(f"{str(path)!r} is not a recording: {error}") from None
        content_type = meta.content_type or _TYPES.get(body_file.suffix) or _guess(body)
        return cls(body=body, content_type=content_type, status=meta.status, timing=tuple(timing))


def _guess(body: bytes) -> str:
    head = body.lstrip()[:1]
    return "application/x-ndjson" if head == b"{" else _EVENT_STREAM
