"""A provider's bytes as a stream of events, and the handle that reads it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from llmstream.streams.call import ResumeToken
from llmstream.streams.event_stream import EventStream
from llmstream.streams.model import ApiKey, Model
from llmstream.streams.options import Options, Prompt, StreamOptions, given_prompt

if TYPE_CHECKING:
    from llmstream.chats.message import Message
    from llmstream.structured import Output

__all__ = ["ApiKey", "EventStream", "Model", "Options", "Prompt", "ResumeToken", "StreamOptions", "stream"]

T = TypeVar("T")


@overload
def stream(
    model: str, prompt: Prompt, *, output: None = None, **options: Unpack[StreamOptions]
) -> EventStream[Message]: ...


@overload
def stream(
    model: Model[T], prompt: Prompt, *, output: None = None, **options: Unpack[StreamOptions]
) -> EventStream[T]: ...


@overload
def stream(
    model: str | Model, prompt: Prompt, *, output: type[T] | Output[T], **options: Unpack[StreamOptions]
) -> EventStream[T]: ...


@overload
def stream(
    model: str | Model, prompt: Prompt, *, output: Any, **options: Unpack[StreamOptions]
) -> EventStream[Any]: ...


def stream(
    model: str | Model, prompt: Prompt | None = None, *, output: Any = None, **options: Unpack[StreamOptions]
) -> EventStream[Any]:
    """Creates a stream of a model's response; nothing is sent until it is read.

    model:   a `Model`, or "provider:model"
    prompt:  a str, a Message, a list of Messages or a Chat; a Chat is not changed
    output:  the type of the answer, or an `Output`; the value is then `object` of the stream
    options: tools, instructions, temperature and more; see `llmstream.streams.StreamOptions`
    raises:  InvalidRequest for an invalid spec, prompt or option
    """
    chosen = model if isinstance(model, Model) else Model(model)
    return chosen.stream(given_prompt(prompt, options), output=output, **options)
