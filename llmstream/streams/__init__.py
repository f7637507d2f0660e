"""A provider's bytes as a stream of events, and the handle that reads it."""

from llmstream.streams.call import ResumeToken
from llmstream.streams.event_stream import EventStream
from llmstream.streams.model import ApiKey, Model, stream
from llmstream.streams.options import Options, Prompt, StreamOptions

__all__ = ["ApiKey", "EventStream", "Model", "Options", "Prompt", "ResumeToken", "StreamOptions", "stream"]
