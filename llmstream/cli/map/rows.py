"""Rows of an input: JSON lines, CSV or lines of text, from a file or standard input."""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import csv
import io
import itertools
import os
import sys
import threading
from collections.abc import AsyncGenerator, Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, Final, TypeAlias

import msgspec

from llmstream.errors import InvalidRequest

__all__ = ["FORMATS", "BadRow", "Row", "Source", "in_background"]

FORMATS: Final = ("jsonl", "csv", "lines")

_BY_SUFFIX: Final = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".csv": "csv",
    ".tsv": "csv",
    ".txt": "lines",
}
# Of a cell of CSV; Python's own limit is 128 KiB, less than a long document.
_MAX_FIELD_CHARS: Final = 64 * 1024 * 1024

# Programs of Windows write it, such as Excel as Unicode text.
_UTF16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN_CHARS: Final = 200
# Rows that are read from standard input before they are needed.
_AHEAD: Final = 1000


class BadRow(msgspec.Struct):
    """A row that cannot be read: it fails, and the others continue.

    line:    where it begins, from 1
    text:    its beginning
    problem: what is wrong with it
    """

    line: int
    text: str
    problem: str


Row: TypeAlias = dict[str, Any] | BadRow


@dataclass
class Source:
    """An input.

    path:    of the file; "-" for standard input
    format:  one of FORMATS; by default what the file's name ends in, and for standard input what its first
             line looks like
    limit:   read only this many rows
    shard:   (i, n): of these, only every n-th from the i-th on, counted from 1
    columns: of CSV, once rows are read
    """

    path: str
    format: str | None = None
    limit: int | None = None
    shard: tuple[int, int] | None = None

    @property
    def is_stdin(self) -> bool:
        """Whether it can be read only once, and may wait for its writer."""
        return self.path == "-"

    def rows(self) -> Generator[Row]:
        """Reads the rows.

        raises: InvalidRequest if it cannot be read at all
        """
        first, step = self.shard or (1, 1)
        with contextlib.closing(self._rows()) as rows:
            yield from itertools.islice(rows, first - 1, self.limit, step)

    def _rows(self) -> Generator[Row]:
        with self._opened() as file:
            lines = _without_bom(file, self.path)
            kind = self.format or _BY_SUFFIX.get(self._suffix())
            if kind is None:
                kind, lines = _guessed(lines)
            if kind == "csv":
                yield from _csv_rows(lines, self.path, "\t" if self._suffix() == ".tsv" else None)
            else:
                yield from _json_rows(lines) if kind == "jsonl" else _text_rows(lines)

    def _suffix(self) -> str:
        return os.path.splitext(self.path)[1].lower()

    def _opened(self) -> BinaryIO:
        if self.is_stdin:
            # A duplicate: closing it must not close standard input, and a thread may still read it.
            return open(os.dup(sys.stdin.fileno()), "rb") if _has_descriptor() else io.BytesIO(_stdin_bytes())
        if self.format is None and self._suffix() in (".json", ".gz", ".parquet", ".xlsx"):
            raise InvalidRequest(
                f"{self.path}: the input has to be JSON lines, CSV or lines of text. Of a JSON array, "
                f"`jq -c '.[]' {self.path}` makes JSON lines, which may come on standard input."
            )
        try:
            return open(self.path, "rb")
        except OSError as error:
            raise InvalidRequest(
                f"cannot read {self.path}: {error.strerror or error}. Check the path."
            ) from None


def _has_descriptor() -> bool:
    try:
        sys.stdin.fileno()
    except (OSError, ValueError, AttributeError):  # replaced by an object
        return False
    return True


def _stdin_bytes() -> bytes:
    buffer = getattr(sys.stdin, "buffer", None)
    return buffer.read() if buffer is not None else sys.stdin.read().encode()


def _without_bom(file: BinaryIO, path: str) -> Iterator[bytes]:
    """The lines, without the UTF-8 byte order mark that Windows writes.

    raises: InvalidRequest for UTF-16
    """
    first = file.readline()
    if first.startswith(_UTF16):
        raise InvalidRequest(f"{path} is UTF-16. Convert it: iconv -f UTF-16 -t UTF-8 {path} > utf8.txt")
    if first:
        yield first.removeprefix(codecs.BOM_UTF8)
    yield from file


def _guessed(lines: Iterator[bytes]) -> tuple[str, Iterator[bytes]]:
    """JSON lines if the first line is an object, else lines of text."""
    before: list[bytes] = []
    for line in lines:
        before.append(line)
        if line.strip():
            break
    kind = (
        "jsonl"
        if before and isinstance(_json_row(before[-1], 1), dict) and before[-1].lstrip()[:1] == b"{"
        else "lines"
    )
    return kind, itertools.chain(before, lines)


def _json_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield _json_row(line, number)


def _json_row(line: bytes, number: int) -> Row:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        return _bad(line, number, f"line {number} is not JSON: {error}")
    if isinstance(value, dict):
        return value
    if isinstance(value, str):
        return {"text": value}
    return _bad(line, number, f"line {number} is JSON, but neither an object nor a string")


def _text_rows(lines: Iterable[bytes]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            yield {"text": line.decode().rstrip("\r\n")}
        except UnicodeDecodeError as error:
            yield _bad(line, number, f"line {number} is not UTF-8: {error}")


def _bad(line: bytes, number: int, problem: str) -> BadRow:
    return BadRow(number, line.decode("utf-8", "replace").rstrip("\r\n")[:_SHOWN_CHARS], problem)


def _csv_rows(lines: Iterable[bytes], path: str, delimiter: str | None) -> Iterator[Row]:
    """The rows of CSV by the names in its first row; of semicolons if those separate the names."""
    texts = (line.decode() for line in lines)
    csv.field_size_limit(_MAX_FIELD_CHARS)
    try:
        first = next(texts, "")
        # Spreadsheets write semicolons where the comma is the decimal point.
        if delimiter is None:
            delimiter = ";" if ";" in first and "," not in first else ","
        reader = csv.reader(itertools.chain([first], texts), delimiter=delimiter)
        names = _names(next(reader, []), path)
        for cells in reader:
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))
            elif cells:
                at = reader.line_num
                problem = f"the row that ends in line {at} has {len(cells)} cells, the first row {len(names)}"
                yield BadRow(at, delimiter.join(cells)[:_SHOWN_CHARS], problem)
    except UnicodeDecodeError as error:
        raise InvalidRequest(
            f"{path} is not UTF-8: {error}. Convert it: iconv -f WINDOWS-1252 -t UTF-8 {path} > utf8.csv"
        ) from None
    except csv.Error as error:
        raise InvalidRequest(f"{path} is not CSV: {error}.") from None


def _names(cells: list[str], path: str) -> list[str]:
    names = [cell.strip() for cell in cells]
    for name in names:
        if not name or names.count(name) > 1:
            raise InvalidRequest(
                f"{path}: the first row has to name each column once; it has {name!r} "
                f"{names.count(name)} times."
                if name
                else f"{path}: a column of the first row has no name."
            )
    return names


async def in_background(rows: Generator[Row]) -> AsyncGenerator[Row]:
    """Reads rows in a thread, so that a slow writer of standard input does not stop the requests.

    The thread is a daemon: a read that waits for the writer does not prevent the program from exiting.
    """
    loop, arrived = asyncio.get_running_loop(), asyncio.Queue[Row | BaseException | None]()
    room, left = threading.Semaphore(_AHEAD), threading.Event()

    def give(value: Row | BaseException | None) -> None:
        try:
            loop.call_soon_threadsafe(arrived.put_nowait, value)
        except RuntimeError:  # the loop is closed
            left.set()

    def read() -> None:
        try:
            with contextlib.closing(rows):
                for row in rows:
                    room.acquire()
                    if left.is_set():
                        return
                    give(row)
        except BaseException as error:  # raised by the reader
            give(error)
        else:
            give(None)

    threading.Thread(target=read, name="llmstream-rows", daemon=True).start()
    try:
        while (row := await arrived.get()) is not None:
            if isinstance(row, BaseException):
                raise row
            room.release()
            yield row
    finally:
        left.set()
        room.release()
