"""Ollama's chat API on the server side."""

from __future__ import annotations

from llmstream.dialects.ollama import Ollama
from llmstream.dialects.ollama.request import PATH
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.event_writer import EventWriter
from llmstream.server_side.wires.ollama.reader import decode_request
from llmstream.server_side.wires.ollama.writer import OllamaShapes, complete_response, encode_error

__all__ = ["server_side"]


def server_side(dialect: Ollama) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(OllamaShapes(request)),
        complete_response=complete_response,
        encode_error=encode_error,
    )
