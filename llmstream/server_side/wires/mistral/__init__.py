"""Mistral's Chat Completions on the server side."""

from __future__ import annotations

from llmstream.dialects.mistral import Mistral
from llmstream.dialects.mistral.request import PATH
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.event_writer import EventWriter
from llmstream.server_side.wires.mistral.reader import decode_request
from llmstream.server_side.wires.mistral.writer import MistralShapes, complete_response, encode_error

__all__ = ["server_side"]


def server_side(dialect: Mistral) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(MistralShapes(model=request.model)),
        complete_response=complete_response,
        encode_error=encode_error,
    )
