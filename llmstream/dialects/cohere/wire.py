"""Events of a Cohere chat stream, typed as loosely as harmless differences need.

source: Cohere's API reference, v2/chat, streaming
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["Call", "Content", "Delta", "Function", "MessageDelta", "WireEvent", "decode_event"]


class Content(msgspec.Struct, gc=False):
    """A content block as it starts (with its type) or a fragment of one (without)."""

    type: str | None = None
    text: str | None = None
    thinking: str | None = None


class Function(msgspec.Struct, gc=False):
    """What is called; `arguments` is a fragment of JSON text."""

    name: str | None = None
    arguments: Any = None


class Call(msgspec.Struct, gc=False):
    """A call as it starts, or a fragment of its arguments."""

    id: Any = None
    function: Function | None = None


class MessageDelta(msgspec.Struct, gc=False):
    """What one event adds to the message. `message-start` has empty lists in place of objects."""

    content: Content | list[Any] | str | None = None
    tool_plan: str | None = None
    tool_calls: Call | list[Any] | None = None
    citations: Any = None


class Delta(msgspec.Struct, gc=False):
    """The message's part of an event; the last one has reason, counts and perhaps an error's words."""

    message: MessageDelta | None = None
    finish_reason: Any = None
    usage: Any = None
    error: Any = None


class WireEvent(msgspec.Struct, gc=False):
    """One event. Those without a type are errors from somewhere before the model.

    logprobs: `{text, token_ids, logprobs}` of a fragment of content
    prompt:   what the model was given, of an event `debug`
    """

    type: Any = None
    index: Any = None
    delta: Delta | None = None
    id: Any = None
    message: Any = None
    error: Any = None
    error_type: Any = None
    code: Any = None
    status_code: Any = None
    logprobs: Any = None
    prompt: Any = None


decode_event: Final = msgspec.json.Decoder(WireEvent)
