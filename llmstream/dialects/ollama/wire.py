"""Lines of Ollama's chat API as typed values, tolerant where servers differ.

source: github.com/ollama/ollama, api/types.go: ChatRequest, ChatResponse, Message, Metrics
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeAlias, TypeVar, cast

import msgspec

from llmstream.events import FinishReason

__all__ = [
    "FINISH_REASONS",
    "USAGE_FIELDS",
    "Call",
    "Function",
    "Line",
    "Message",
    "RepairedLine",
    "decode_line",
    "decode_plain_line",
    "object_text",
]

# Ollama supports only objects as a call's input; any other value is wrapped under this key.
_WRAPPER: Final = "input"

# The type of a call's arguments. As `msgspec.Raw` they stay the JSON of the wire, byte for byte; a line that
# had to be repaired before decoding is no longer bytes, and has them as values.
A = TypeVar("A")


class Function(msgspec.Struct, Generic[A], gc=False):
    """A called function."""

    name: str | None = None
    # Not `A | None`: msgspec decodes a union with Raw into a value.
    arguments: A = cast("A", msgspec.Raw())


class Call(msgspec.Struct, Generic[A], gc=False):
    """One complete call. Old versions send no id; on some, `function.index` is 0 for every call."""

    function: Function[A] | None = None
    id: str | int | None = None


class Message(msgspec.Struct, Generic[A], gc=False):
    """A fragment of the response; images are a list of base64."""

    content: str | None = None
    thinking: str | None = None
    tool_calls: list[Call[A]] | None = None
    images: Any = None


class PlainMessage(msgspec.Struct, gc=False, forbid_unknown_fields=True):
    """A piece of text and nothing else."""

    content: str
    role: str | None = None


class PlainLine(msgspec.Struct, gc=False):
    """A line that is one more piece of text, as nearly all are. No other fits it but the last one."""

    message: PlainMessage
    done: bool = False
    error: None = None
    logprobs: None = None


class Line(msgspec.Struct, Generic[A], gc=False):
    """One line of the response; the last one has `done` and the counts.

    created_at: RFC 3339, with up to nine digits of the second's fraction
    *_duration: nanoseconds
    error:      a string, or an object from an upstream server
    """

    message: Message[A] | None = None
    done: bool | None = None
    error: Any = None
    model: Any = None
    created_at: Any = None
    done_reason: Any = None
    prompt_eval_count: Any = None
    eval_count: Any = None
    total_duration: Any = None
    load_duration: Any = None
    prompt_eval_duration: Any = None
    eval_duration: Any = None
    logprobs: Any = None


FINISH_REASONS: Final[Mapping[str, FinishReason]] = {
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool-calls",
    "load": "other",
    "unload": "other",
}

USAGE_FIELDS: Final = (
    "prompt_eval_count",
    "eval_count",
    "total_duration",
    "load_duration",
    "prompt_eval_duration",
    "eval_duration",
)

decode_plain_line: Final = msgspec.json.Decoder(PlainLine)

decode_line: Final = msgspec.json.Decoder(Line[msgspec.Raw])

# Of a line with invalid UTF-8 or a lone surrogate, after its repair.
RepairedLine: TypeAlias = Line[Any]


def object_text(arguments: str) -> tuple[msgspec.Raw, bool]:
    """Returns a call's input as a JSON object on one line, and whether it was an object.

    Any other value becomes `{"input": value}`, text that is not JSON `{"input": "the text"}`.
    """
    if arguments.strip() in ("", "null"):
        return msgspec.Raw(b"{}"), True
    try:
        value: Any = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        value = arguments.encode("utf-8", "replace").decode()
    if not isinstance(value, dict):
        return msgspec.Raw(msgspec.json.encode({_WRAPPER: value})), False
    data = arguments.encode("utf-8", "replace")
    if b"\n" in data or b"\r" in data:
        data = msgspec.json.format(data, indent=-1)
    return msgspec.Raw(data), True
