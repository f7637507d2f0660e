"""Google's Interactions API on the server side."""

from __future__ import annotations

from llmstream.dialects.gemini_interactions import GeminiInteractions
from llmstream.dialects.gemini_interactions.request import PATH
from llmstream.server_side.wires import ServerSide
from llmstream.server_side.wires.errors import encode_google_error
from llmstream.server_side.wires.event_writer import EventWriter
from llmstream.server_side.wires.gemini_interactions.reader import decode_request
from llmstream.server_side.wires.gemini_interactions.writer import InteractionsShapes, complete_response

__all__ = ["server_side"]


def server_side(dialect: GeminiInteractions) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=lambda http: http.method == "POST" and http.url.partition("?")[0].rstrip("/").endswith(PATH),
        decode_request=lambda http: decode_request(http, new_call_id=dialect.new_call_id),
        event_encoder=lambda request: EventWriter(InteractionsShapes(request.model)),
        complete_response=complete_response,
        encode_error=encode_google_error,
    )
