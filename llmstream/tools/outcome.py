"""The result of a call: the outcome of the function, and the status of the call.

A function returns a `ToolOutput` to pass one value to the model and another to the application.
`ToolOutcome` is the result as texts and parts. `ToolCallStatus` is the end of one call: a value that can be
saved, with the `ToolResult` in the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

import msgspec

from llmstream.chats.content import (
    CANCELLED,
    Audio,
    Document,
    File,
    Image,
    Outcome,
    Text,
    ToolCall,
    ToolResult,
    outcome_mark,
)
from llmstream.chats.transcript import ran_tool_line
from llmstream.dialects.json_text import without_lone_surrogates
from llmstream.errors import ToolError
from llmstream.json_types import encode

__all__ = [
    "CANCELLED",
    "MAX_RESULT_BYTES",
    "MAX_RESULT_CHARS",
    "ToolCallStatus",
    "ToolOutcome",
    "ToolOutput",
    "cancelled_results",
    "render_statuses",
]

MAX_RESULT_CHARS = 200_000
"""About 50 000 tokens: more than a useful result, less than most context windows."""

MAX_RESULT_BYTES = 20 * 1024 * 1024
"""The size that most vendors accept in one request, and the default of `DownloadLimits` for one file."""

ResultPart: TypeAlias = Image | Document | Audio

_decode = msgspec.json.Decoder().decode

# Signatures: first bytes, their offset, and the media type (WHATWG MIME Sniffing, section 6).
_MAGIC: tuple[tuple[bytes, int, type[ResultPart], str], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, Image, "image/png"),
    (b"\xff\xd8\xff", 0, Image, "image/jpeg"),
    (b"GIF8", 0, Image, "image/gif"),
    (b"WEBP", 8, Image, "image/webp"),
    (b"%PDF-", 0, Document, "application/pdf"),
    (b"WAVE", 8, Audio, "audio/wav"),
)

# The part type of a `File` by the main type of its media type; all others are documents.
_BY_MEDIA: Final[dict[str, type[ResultPart]]] = {"image": Image, "audio": Audio}


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """A tool's result with separate values for the model and for the application.

    content: what the model sees: any value that a tool may return
    value:   for the application (`run.values`, `status.value`); never sent
    stop:    the run ends after this step; the result stays in the history
    """

    content: Any = None
    value: Any = None
    stop: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of one call. A tool may return one itself, to combine text with an error.

    content:   what the model sees
    parts:     images and documents that belong to it
    error:     the error text; None without a failure
    exception: the exception that was raised; ignored by comparisons
    value:     for the application: what the tool returned, or `ToolOutput.value`
    output:    the JSON value that `content` encodes; None for plain text
    stop:      the run ends after this step
    unrun:     "denied" or "cancelled" for a call that was not run, or not to its end; see `outcome_mark`
    """

    content: str = ""
    parts: tuple[ResultPart, ...] = ()
    error: str | None = None
    # Comparisons ignore these three: two executions are equal if the model sees the same.
    exception: Exception | None = field(default=None, compare=False, repr=False)
    value: Any = field(default=None, compare=False, repr=False)
    output: Any = field(default=None, compare=False, repr=False)
    stop: bool = False
    unrun: Outcome | None = None

    @classmethod
    def failed(
        cls, error: str, exception: Exception | None = None, *, unrun: Outcome | None = None
    ) -> ToolOutcome:
        """A failure; the model sees only its text."""
        return cls(error, error=error, exception=exception, unrun=unrun)

    @classmethod
    def raised(cls, exception: Exception) -> ToolOutcome:
        """The failure of an exception: its message, after its type unless it is a ToolError."""
        text = _message(exception) if isinstance(exception, ToolError) else _named_message(exception)
        return cls.failed(text, exception)

    @classmethod
    def of(cls, value: Any) -> ToolOutcome:
        """The outcome of a value that a tool returned.

        str, Text: unchanged. None: "". Image, Document, Audio, File, bytes: a part. A list with such
        parts or Text in it: its parts, and the rest as lines of text. Any other value: its JSON.
        """
        if isinstance(value, ToolOutcome):
            # An outcome with only an error: the model must get some text.
            return replace(value, content=value.content or value.error or "")
        if isinstance(value, ToolOutput):
            return replace(cls.of(value.content), value=value.value, stop=value.stop)
        if isinstance(value, list | tuple) and any(isinstance(item, _IN_LISTS) for item in value):
            return cls._of_items(value)
        part = _part(value)
        if part is not None:
            return cls(parts=(part,), value=value)
        try:
            text = _text(value)
            # Text is used as it is: as a JSON value it would have quotes.
            plain = value is None or isinstance(value, str | Text)
            return cls(text, value=value, output=None if plain else _decode(text))
        except (TypeError, ValueError, OverflowError, RecursionError) as error:
            return cls.failed(
                f"The tool's result cannot be sent: {error}. A tool returns str, values that JSON can "
                "express, dataclasses, msgspec Structs, pydantic models, bytes, or parts such as Image.",
                error,
            )

    @classmethod
    def _of_items(cls, values: Sequence[Any]) -> ToolOutcome:
        parts: list[ResultPart] = []
        texts: list[str] = []
        for value in values:
            part = _part(value)
            if part is not None:
                parts.append(part)
                continue
            # A list element without a JSON form fails the call: omitting it would change the result.
            item = cls.of(value)
            if item.error is not None:
                return item
            texts.append(item.content)
        return cls("\n".join(texts), tuple(parts), value=values)

    def fitted(self, max_chars: int = MAX_RESULT_CHARS, max_bytes: int = MAX_RESULT_BYTES) -> ToolOutcome:
        """The same, ready to be sent: valid Unicode, within the limits, with a note about what was cut.

        max_chars: longer text is cut
        max_bytes: limit for all parts together; parts that no longer fit are left out
        """
        text = self.content
        # The check costs less than the search, and most results are ASCII.
        if not text.isascii():
            text = without_lone_surrogates(text)
        if len(text) > max_chars:
            text = f"{text[:max_chars]}\n[cut: the first {max_chars} of {len(text)} characters]"
        parts, notes = _parts_within(self.parts, max_bytes)
        text = "\n".join(filter(None, (text, *notes)))
        # The message of an exception may have the name of a file, in bytes that are not UTF-8.
        error = None if self.error is None else without_lone_surrogates(self.error)
        if (text, error) == (self.content, self.error):
            return self
        # A value beside a cut text would show what the model has not seen.
        return replace(self, content=text, parts=parts, error=error, output=None)


# The outcome of a loaded status, without the data of the process that saved it.
_NOTHING = ToolOutcome()


class ToolCallStatus(msgspec.Struct, frozen=True, omit_defaults=True, dict=True):
    """The end of one call. A value: it can be saved and compared.

    error:  the error text; None without a failure
    result: the result in the history
    """

    # Encoded and compared without `outcome`, which may contain objects without a JSON form.
    name: str
    error: str | None = None
    tool_call_id: str = ""
    result: ToolResult = ToolResult("")

    @classmethod
    def of(cls, call: ToolCall, outcome: ToolOutcome) -> ToolCallStatus:
        """The status of a call with this outcome."""
        result = ToolResult(
            call.id,
            outcome.content,
            outcome.error is not None,
            call.name,
            parts=outcome.parts,
            metadata=None if outcome.unrun is None else outcome_mark(outcome.unrun),
        )
        status = cls(call.name, outcome.error, call.id, result)
        status.__dict__["outcome"] = outcome
        return status

    @property
    def exception(self) -> Exception | None:
        """The exception that the tool raised. Only in this process: neither saved nor compared."""
        return self._outcome.exception

    @property
    def value(self) -> Any:
        """What the tool returned, or the `value` of its `ToolOutput`. Only in this process."""
        return self._outcome.value

    @property
    def output(self) -> Any:
        """What the model sees as a JSON value; as text if it is text or was cut."""
        found = self._outcome.output
        return self.result.content if found is None else found

    @property
    def stop(self) -> bool:
        """Whether the tool requested the end of the run after this step."""
        return self._outcome.stop

    @property
    def _outcome(self) -> ToolOutcome:
        found: ToolOutcome = self.__dict__.get("outcome", _NOTHING)
        return found

    def __str__(self) -> str:
        return ran_tool_line(self.name, self.error)


def render_statuses(statuses: Iterable[ToolCallStatus]) -> str:
    """One line for each call, in order; "" for no calls."""
    return "".join([str(status) for status in statuses])


def cancelled_results(
    calls: Iterable[ToolCall], done: Iterable[ToolResult | ToolCallStatus] = ()
) -> list[ToolResult]:
    """A "cancelled" result for each client call without a result."""
    # An id that occurs twice is one call.
    settled = {status.tool_call_id for status in done}
    results = []
    for call in calls:
        if not call.provider_executed and call.id not in settled:
            settled.add(call.id)
            mark = outcome_mark("cancelled")
            results.append(ToolResult(call.id, CANCELLED, True, call.name, metadata=mark))
    return results


def _parts_within(parts: tuple[ResultPart, ...], max_bytes: int) -> tuple[tuple[ResultPart, ...], list[str]]:
    """The parts that fit, and a note for each that does not. A part by URL takes no space."""
    fitting: list[ResultPart] = []
    notes: list[str] = []
    room = max_bytes
    for part in parts:
        size = len(part.data or b"")
        if size <= room:
            room -= size
            fitting.append(part)
        else:
            notes.append(
                f"[left out: {part.media_type or part.part_kind} of {size} bytes; "
                f"the files of a result may have {max_bytes} bytes in all]"
            )
    return tuple(fitting), notes


# Types that turn a list into parts and lines of text instead of a JSON value.
_IN_LISTS: Final = (Image, Document, Audio, File, Text, bytes, bytearray, memoryview)


def _part(value: object) -> ResultPart | None:
    if isinstance(value, Image | Document | Audio):
        return value
    if isinstance(value, File):
        kind = _BY_MEDIA.get(value.media_type.partition("/")[0].lower(), Document)
        return kind(url=value.url, data=value.data, media_type=value.media_type, metadata=value.metadata)
    if not isinstance(value, bytes | bytearray | memoryview):
        return None
    data = bytes(value)
    for magic, at, part_type, media_type in _MAGIC:
        if data.startswith(magic, at):
            return part_type(data=data, media_type=media_type)
    return Document(data=data, media_type="application/octet-stream")


def _text(value: object) -> str:
    if isinstance(value, str):
        # The value of a member of an enum of strings, as in JSON: its own `str()` may be "Color.RED".
        return str.__str__(value)
    if value is None:
        # Encoded as null it would look like a value to the model.
        return ""
    if isinstance(value, Text):
        return value.text
    return encode(value).decode()


def _message(exception: BaseException) -> str:
    """The message of an exception; "" if its `__str__` fails."""
    # Other code's exceptions may fail in `__str__`; the tool has failed anyway, and its call needs a result.
    try:
        return str(exception)
    except Exception:
        return ""


def _named_message(exception: BaseException) -> str:
    """The message after the name of the exception's type; for a group, those of all its exceptions."""
    name = type(exception).__name__
    # A group's own message is the number of its exceptions.
    if isinstance(exception, BaseExceptionGroup):
        return f"{name}: " + "; ".join(map(_named_message, exception.exceptions))
    text = _message(exception)
    return f"{name}: {text}" if text else name
