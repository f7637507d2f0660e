"""Chunks of a Mistral chat stream, typed as loosely as harmless differences need.

source: Mistral's API reference, chat completion (streaming)
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["CallFragment", "Choice", "Chunk", "Delta", "Function", "decode_chunk"]


class Function(msgspec.Struct, gc=False):
    """Name and arguments of a call; arguments is JSON text, a JSON value, or null."""

    name: str | None = None
    arguments: Any = None


class CallFragment(msgspec.Struct, gc=False):
    """A call, mostly whole; models of other makers come in pieces, with name "" and no id."""

    index: Any = None
    id: Any = None
    function: Function | None = None


class Delta(msgspec.Struct, gc=False):
    """What one chunk adds; a whole message has the same keys.

    content:           text, or a list of typed parts
    reasoning_content: of models of other makers
    metadata:          any JSON object
    """

    content: Any = None
    tool_calls: list[CallFragment | None] | None = None
    reasoning_content: Any = None
    metadata: Any = None


class Choice(msgspec.Struct, gc=False):
    """One of the answers."""

    index: Any = None
    delta: Delta | None = None
    finish_reason: str | None = None
    message: Delta | None = None
    logprobs: Any = None
    prompt_logprobs: Any = None


class Chunk(msgspec.Struct, gc=False):
    """One event of the stream; an error has `object`, `message`, `type` and `code` or `detail`."""

    choices: list[Choice | None] | None = None
    usage: Any = None
    id: Any = None
    model: Any = None
    created: Any = None
    error: Any = None
    object: Any = None
    message: Any = None
    detail: Any = None
    type: Any = None
    code: Any = None
    raw_status_code: Any = None


decode_chunk: Final = msgspec.json.Decoder(Chunk)
