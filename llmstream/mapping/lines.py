"""Lines of an output file: a result as a line of JSON or CSV, and what of a line a later run needs.

    {"id": 7, "review": "...", "answer": "good", "llmstream": {"key": "9f...", "model": "openai:...", ...}}

The columns of the item are unchanged, the answer comes after them, and everything else is below
"llmstream". In CSV each is a column.
"""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Final, Protocol

import msgspec

from llmstream.chats.message import Message
from llmstream.errors import DecodeError, ErrorInfo, InvalidRequest
from llmstream.first_use import make_decoder
from llmstream.json_types import encode
from llmstream.mapping.result import MapResult
from llmstream.usage import Usage

__all__ = ["OWN", "CSVLines", "JSONLines", "Line", "Lines", "fields_of", "key_of", "plain_answer", "records"]

OWN: Final = "llmstream"

_NO_USAGE: Final = Usage()

_UNWRITABLE: Final = (TypeError, ValueError, OverflowError, RecursionError)


class Line(msgspec.Struct, rename="camel", omit_defaults=True):
    """What a line has of its result, apart from item and answer.

    key: of the item and its prompt, 16 hexadecimal digits; see `key_of`. "" outside of files
    """

    key: str = ""
    model: str = ""
    attempts: int = 0
    finish_reason: str | None = None
    usage: Usage | None = None
    cost: float | None = None
    error: ErrorInfo | None = None


class Lines(Protocol):
    """A format of output files.

    quoted: whether a record may have line feeds within quotes
    """

    quoted: bool

    def head(self) -> bytes:
        """What the file begins with."""

    def encode(self, fields: Mapping[str, Any], result: MapResult[Any, Any], key: int | None) -> bytes:
        """The line of a result."""

    def read(self, record: bytes) -> Line:
        """Reads the line of an earlier run.

        raises: DecodeError for anything else
        """


def key_of(*parts: bytes) -> int:
    """A digest of 8 bytes: of a row, or of a request.

    Among a million of them, two are the same by chance once in 37 million files.
    """
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        digest.update(len(part).to_bytes(8, "big"))
        digest.update(part)
    return int.from_bytes(digest.digest(), "big")


def fields_of(item: Any) -> tuple[dict[str, Any], bytes]:
    """The columns of an item, and their JSON.

    Those of a mapping, dataclass or Struct are its own; a text is the column "text". Columns that JSON cannot
    hold are left out.
    """
    if isinstance(item, str):
        found: dict[str, Any] = {"text": item}
    elif isinstance(item, Mapping):
        found = {str(name): value for name, value in item.items()}
    elif isinstance(item, msgspec.Struct):
        found = {name: getattr(item, name) for name in item.__struct_fields__}
    elif dataclasses.is_dataclass(item) and not isinstance(item, type):
        found = {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}
    else:
        found = {"item": item}
    try:
        return found, encode(found)
    except _UNWRITABLE:
        found = {name: value for name, value in found.items() if _is_json(value)}
        return found, encode(found)


def _is_json(value: Any) -> bool:
    try:
        encode(value)
    except _UNWRITABLE:
        return False
    return True


def records(file: BinaryIO, *, quoted: bool) -> Iterator[tuple[bytes, bool]]:
    """The records of a file from its position on, each with whether it is complete.

    quoted: line feeds within quotes are part of a record, as in CSV
    """
    held = b""
    for line in file:
        held += line
        if held.endswith(b"\n") and not (quoted and held.count(b'"') % 2):
            yield held, True
            held = b""
    if held:
        yield held, False


class _Own(msgspec.Struct):
    llmstream: Line


class JSONLines:
    """JSON Lines: an object a result.

    column: of the answer
    """

    quoted = False

    def __init__(self, column: str = "answer") -> None:
        self.column = column
        self._decoder = make_decoder(_Own)

    def head(self) -> bytes:
        """Nothing: every line is a result."""
        return b""

    def encode(self, fields: Mapping[str, Any], result: MapResult[Any, Any], key: int | None) -> bytes:
        """The line of a result; its answer is null if it failed."""
        own = Line(
            key="" if key is None else f"{key:016x}",
            model=result.model,
            attempts=result.attempts,
            finish_reason=result.finish_reason,
            usage=None if result.usage == _NO_USAGE else result.usage,
            cost=result.cost,
            error=None if result.error is None else result.error.info,
        )
        return encode({**fields, self.column: plain_answer(result), OWN: own}) + b"\n"

    def read(self, record: bytes) -> Line:
        """Reads the line of an earlier run.

        raises: DecodeError
        """
        try:
            return self._decoder.decode(record).llmstream
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise DecodeError(str(error)) from None

    def answer(self, record: bytes) -> Any:
        """The answer in a line, as plain JSON."""
        return msgspec.json.decode(record).get(self.column)


_CSV_OWN: Final = ("error", "model", "attempts", "input_tokens", "output_tokens", "cost", "llmstream_key")


class CSVLines:
    """CSV: a row a result, with the columns of the item, of the answer, and of the request.

    columns:    of the items
    properties: of the answer's schema if it is an object: each is a column. Else the answer is one
    """

    quoted = True

    def __init__(
        self, columns: Sequence[str], *, column: str = "answer", properties: Iterable[str] = ()
    ) -> None:
        self._columns = list(columns)
        self._properties = list(properties)
        # A property that is called like a column of the input gets the answer's name before it.
        taken = {*columns, *_CSV_OWN}
        answers = [f"{column}.{name}" if name in taken else name for name in self._properties] or [column]
        self._names = [*self._columns, *answers, *_CSV_OWN]
        twice = sorted({name for name in self._names if self._names.count(name) > 1})
        if twice:
            raise InvalidRequest(
                f"the input has a column {twice[0]!r}, a name that the output uses itself. Rename it, or "
                "write JSON Lines: -o FILE.jsonl."
            )

    def head(self) -> bytes:
        """The names of the columns."""
        return _csv_row(self._names)

    def encode(self, fields: Mapping[str, Any], result: MapResult[Any, Any], key: int | None) -> bytes:
        """The row of a result; its answer is empty if it failed."""
        error = "" if result.error is None else f"{result.error.code}: {result.error.message}"
        usage, answer = result.usage, plain_answer(result)
        own = (error, result.model, result.attempts, usage.input_tokens, usage.output_tokens, result.cost)
        answers = [answer]
        if self._properties:
            answers = [answer.get(name) if isinstance(answer, dict) else None for name in self._properties]
        return _csv_row(
            [*map(fields.get, self._columns), *answers, *own, "" if key is None else f"{key:016x}"]
        )

    def read(self, record: bytes) -> Line:
        """Reads the row of an earlier run.

        raises: DecodeError
        """
        try:
            row = next(csv.reader([record.decode()], strict=True))
            error, model, attempts, input_tokens, output_tokens, cost, key = row[-len(_CSV_OWN) :]
            if len(row) != len(self._names):
                raise ValueError(f"{len(row)} columns, not {len(self._names)}")
            int(key, 16)
            return Line(
                key=key,
                model=model,
                attempts=int(attempts),
                usage=Usage(_number(input_tokens), _number(output_tokens)),
                cost=float(cost) if cost else None,
                error=_error_of(error),
            )
        except (ValueError, csv.Error, StopIteration) as error:
            raise DecodeError(str(error)) from None


def _error_of(text: str) -> ErrorInfo | None:
    code, _, message = text.partition(": ")
    return ErrorInfo(code, message, retryable=False) if text else None


def _number(text: str) -> int | None:
    return int(text) if text else None


def _csv_row(values: Iterable[Any]) -> bytes:
    out = io.StringIO()
    # With this end of a line, a lone CR is quoted as well. It is replaced by the one that Unix tools expect.
    csv.writer(out, lineterminator="\r\n").writerow([_cell(value) for value in values])
    return out.getvalue()[:-2].encode("utf-8", "replace") + b"\n"


def _cell(value: Any) -> Any:
    """Text and numbers unchanged, empty for null, anything else as JSON."""
    if value is None or (isinstance(value, str | int | float) and not isinstance(value, bool)):
        return value
    return encode(value).decode()


def plain_answer(result: MapResult[Any, Any]) -> Any:
    """The answer as JSON has it: the text of a message, or the value; None if it failed."""
    if result.error is not None:
        return None
    return result.value.text if isinstance(result.value, Message) else result.value
