"""Cohere's Chat API on the server side."""

from __future__ import annotations

from llmstream.dialects.cohere import Cohere
from llmstream.dialects.cohere.request import PATH
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.cohere.reader import decode_request
from llmstream.server_side.wires.cohere.writer import CohereShapes, complete_response, encode_error
from llmstream.server_side.wires.event_writer import EventWriter

__all__ = ["server_side"]


def server_side(dialect: Cohere) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(CohereShapes()),
        complete_response=complete_response,
        encode_error=encode_error,
    )
