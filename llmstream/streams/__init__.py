"""A provider's bytes as a stream of events, and the handle that reads it."""

from __future__ import annotations

from typing import Unpack

from llmstream.streams.event_stream import EventStream
from llmstream.streams.model import ApiKey, Model
from llmstream.streams.options import Options, Prompt
from llmstream.streams.resuming import ResumeToken

__all__ = ["ApiKey", "EventStream", "Model", "Options", "Prompt", "ResumeToken", "stream"]


def stream(model: str | Model, prompt: Prompt, **options: Unpack[Options]) -> EventStream:
    """Asks a model and gives the stream of its answer; nothing is sent until it is read.

    model:   a `Model`, or "provider:model"
    prompt:  a str, a Message, a list of Messages or a Chat; nothing is appended to a Chat
    options: tools, system, temperature and more, each explained in `llmstream.streams.Options`
    raises:  InvalidRequest for a spec, prompt or option that makes no sense
    """
    return (model if isinstance(model, Model) else Model(model)).stream(prompt, **options)
