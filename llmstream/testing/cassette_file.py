"""The file of a cassette: requests and their answers as JSON, one event a line, for people to read.

    {
    "format": "llmstream.cassette",
    "version": 1,
    "answers": [
    {
    "request": {
      "model": "openai:gpt-5-mini",
      "messages": [...]
    },
    "timing": [[0.21, 2], [0.25, 1]],
    "events": [
    {"type":"stream-start"},
    ...
    ]}
    ]}

`timing` is that of the cache: seconds since the request, and the number of events that arrived then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from difflib import SequenceMatcher, unified_diff
from pathlib import Path
from typing import Any, Final

import msgspec

from llmstream.errors import DecodeError, InvalidRequest
from llmstream.events import decode, encode
from llmstream.files import read_file, replace_file
from llmstream.first_use import prepared
from llmstream.middleware.caching.form import Answer, asked_for
from llmstream.request import Request

__all__ = ["FORMAT", "Recorded", "difference", "nearest", "read_cassette", "shown_request", "write_cassette"]

FORMAT: Final = "llmstream.cassette"
_VERSION: Final = 1

# Characters of an image or a file in a request; a longer one is replaced by its digest.
_LONGEST_DATA: Final = 1_000

# A difference that fits on a screen.
_MAX_LINES: Final = 40
# Characters of a long line that are shown before the first one that differs.
_AROUND: Final = 60


class Recorded:
    """A request, as it is shown, and its answer.

    answer: None while it is recorded
    left:   the reader closed it before the finish, so the answer is incomplete
    """

    def __init__(self, request: dict[str, Any], answer: Answer | None = None, *, left: bool = False) -> None:
        self.request = request
        self.answer = answer
        self.left = left


class _Answer(msgspec.Struct):
    request: dict[str, Any]
    events: list[msgspec.Raw]
    timing: list[tuple[float, int]] = []
    left: bool = False


class _File(msgspec.Struct):
    format: str
    version: int
    answers: list[_Answer]


def shown_request(provider: str, request: Request) -> dict[str, Any]:
    """The content of a request, without account, address, headers and empty fields.

    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot represent
    """
    # The provider's name instead of its account: the user who replays a cassette has another one, or none.
    asked: dict[str, Any] = _short({**asked_for(request), "model": f"{provider}:{request.model}"})
    asked["messages"] = [_filled(message) for message in asked["messages"]]
    # As JSON values, because it is compared with values from the file.
    shown: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(_filled(asked)))
    return shown


def _filled(fields: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value not in (None, False, "", [], {}, ())}


def _short(value: Any) -> Any:
    """The value with long data replaced by its digest: an image in base64 is not readable."""
    match value:
        case dict():
            return {
                name: _digest(inner)
                if name == "data" and isinstance(inner, str) and len(inner) > _LONGEST_DATA
                else _short(inner)
                for name, inner in value.items()
            }
        case list() | tuple():
            return [_short(inner) for inner in value]
        case _:
            return value


def _digest(data: str) -> str:
    return f"sha256:{hashlib.sha256(data.encode()).hexdigest()} ({len(data)} characters)"


def read_cassette(path: Path) -> list[Recorded]:
    """The answers of a file.

    raises: InvalidRequest if it is damaged or of a newer version; FileNotFoundError
    """
    try:
        return parse_cassette(read_file(path))
    except (ValueError, DecodeError) as error:
        raise InvalidRequest(
            f"{path} is not a cassette: {error}. Repair it, or delete it and record it again."
        ) from None


def parse_cassette(data: bytes) -> list[Recorded]:
    """The answers of a file's content.

    raises: ValueError, DecodeError
    """
    file = msgspec.json.decode(data, type=prepared(_File))
    if file.format != FORMAT or file.version != _VERSION:
        raise ValueError(
            f"it has format {file.format!r}, version {file.version}; known is version {_VERSION}"
        )
    return [
        Recorded(each.request, Answer([decode(bytes(e)) for e in each.events], each.timing), left=each.left)
        for each in file.answers
    ]


def write_cassette(path: Path, answers: Iterable[Recorded]) -> None:
    """Writes all answers that are there, in one step.

    raises: OSError; TypeError, ValueError or OverflowError for values that JSON cannot hold
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    replace_file(path, rendered(answers))
    path.chmod(0o644)  # part of the repository, unlike a cache


def rendered(answers: Iterable[Recorded]) -> bytes:
    """The content of the file."""
    blocks = [_block(each, each.answer) for each in answers if each.answer is not None]
    head = f'{{\n"format": "{FORMAT}",\n"version": {_VERSION},\n"answers": [\n'.encode()
    return head + b",\n".join(blocks) + b"\n]}\n"


def _block(recorded: Recorded, answer: Answer) -> bytes:
    # Indented, since people read it; a lone surrogate of a prompt has no bytes in UTF-8.
    request = json.dumps(recorded.request, indent=2, ensure_ascii=False).encode("utf-8", "backslashreplace")
    timing = ", ".join(f"[{round(at, 4):g}, {count}]" for at, count in answer.timing)
    events = b",\n".join([encode(event) for event in answer.events])
    left = b'"left": true,\n' if recorded.left else b""
    return b'{\n"request": %b,\n"timing": [%b],\n%b"events": [\n%b\n]}' % (
        request,
        timing.encode(),
        left,
        events,
    )


def _lines(request: dict[str, Any]) -> list[str]:
    return json.dumps(request, indent=2, ensure_ascii=False, sort_keys=True).splitlines()


def nearest(request: dict[str, Any], recorded: list[Recorded]) -> Recorded | None:
    """The recorded request that resembles it most."""
    own = _lines(request)

    def likeness(each: Recorded) -> tuple[float, float]:
        lines = _lines(each.request)
        # autojunk would ignore lines that occur often, such as braces, in long requests.
        by_line = SequenceMatcher(None, own, lines, autojunk=False).ratio()
        # Where no line is the same, characters decide; quick_ratio, because ratio() is quadratic.
        return by_line, SequenceMatcher(None, "\n".join(own), "\n".join(lines)).quick_ratio()

    return max(recorded, key=likeness, default=None)


def difference(request: dict[str, Any], recorded: dict[str, Any]) -> str:
    """The lines in which a request differs from a recorded one, long ones cut where they are equal."""
    pairs = list(unified_diff(_lines(recorded), _lines(request), "recorded", "requested", lineterm="", n=1))
    removed = [line for line in pairs[2:] if line.startswith("-")]
    added = [line for line in pairs[2:] if line.startswith("+")]
    starts = {
        line: start
        for old, new in zip(removed, added, strict=False)
        for line, start in ((old, _first_difference(old, new)), (new, _first_difference(old, new)))
    }
    shown = [_cut(line, starts.get(line, 0)) for line in pairs if not line.startswith("@@")]
    more = len(shown) - _MAX_LINES
    return "\n".join([*shown[:_MAX_LINES], *([f"... and {more} lines"] if more > 0 else [])])


def _first_difference(old: str, new: str) -> int:
    pairs = zip(old[1:], new[1:], strict=False)
    return next((at for at, (a, b) in enumerate(pairs, 1) if a != b), min(len(old), len(new)))


def _cut(line: str, start: int) -> str:
    begin = max(1, start - _AROUND)
    end = begin + 3 * _AROUND
    return f"{line[0]}{'...' if begin > 1 else ''}{line[begin:end]}{'...' if len(line) > end else ''}"
