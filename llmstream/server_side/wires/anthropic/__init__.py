"""Anthropic's Messages API on the server side, for every provider."""

from __future__ import annotations

from llmstream.dialects.anthropic import Anthropic
from llmstream.server_side.wires import ServerSide
from llmstream.server_side.wires.anthropic.reader import decode_request
from llmstream.server_side.wires.anthropic.writer import AnthropicShapes, complete_response, encode_error
from llmstream.server_side.wires.errors import encode_aws_error
from llmstream.server_side.wires.event_writer import EventWriter

__all__ = ["server_side"]


def server_side(dialect: Anthropic) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=lambda http: http.method == "POST" and dialect.quirks.model_of(http.url) is not None,
        decode_request=lambda http: decode_request(http, quirks=dialect.quirks),
        event_encoder=lambda request: EventWriter(AnthropicShapes(request.model, framing=dialect.framing)),
        complete_response=lambda body: complete_response(body, framing=dialect.framing),
        encode_error=encode_error if dialect.framing == "sse" else encode_aws_error,
    )
