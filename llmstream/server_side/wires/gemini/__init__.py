"""Gemini's generateContent on the server side, as Google AI Studio and Vertex AI serve it."""

from __future__ import annotations

from llmstream.dialects.gemini import Gemini
from llmstream.dialects.gemini.wire import model_of
from llmstream.server_side.wires import ServerSide
from llmstream.server_side.wires.errors import encode_google_error
from llmstream.server_side.wires.event_writer import EventWriter
from llmstream.server_side.wires.gemini.reader import decode_request
from llmstream.server_side.wires.gemini.writer import GeminiShapes, complete_response

__all__ = ["server_side"]


def server_side(dialect: Gemini) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=lambda http: http.method == "POST" and model_of(http.url) is not None,
        decode_request=lambda http: decode_request(
            http, vertex=dialect.vertex, new_call_id=dialect.new_call_id
        ),
        event_encoder=lambda request: EventWriter(GeminiShapes(request.model, vertex=dialect.vertex)),
        complete_response=complete_response,
        encode_error=encode_google_error,
    )
