"""Chat Completions on the server side."""

from __future__ import annotations

from llmstream.dialects.openai_chat import OpenAIChat
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.errors import encode_openai_error
from llmstream.server_side.wires.event_writer import EventWriter
from llmstream.server_side.wires.openai_chat.reader import read_request
from llmstream.server_side.wires.openai_chat.writer import ChatShapes, complete_response

__all__ = ["server_side"]


def server_side(dialect: OpenAIChat, *, provider: str = "openai") -> ServerSide:
    """Reads requests and writes responses of this dialect.

    provider: key in `provider_options` of fields without an option of ours
    """
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(dialect.quirks.path),
        decode_request=lambda http: read_request(http, dialect.quirks, key=provider),
        event_encoder=lambda request: EventWriter(
            ChatShapes(dialect.quirks, model=request.model, include_usage=_wants_usage(request))
        ),
        complete_response=complete_response,
        encode_error=encode_openai_error,
    )


def _wants_usage(request: Request) -> bool:
    """Whether the client gets the usage chunk: yes, unless its stream_options turn it off."""
    wanted = [own["stream_options"] for own in request.provider_options.values() if "stream_options" in own]
    return all(isinstance(options, dict) and options.get("include_usage") for options in wanted)
