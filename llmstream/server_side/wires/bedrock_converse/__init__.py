"""Amazon Bedrock's ConverseStream on the server side."""

from __future__ import annotations

from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.bedrock_converse.request import model_of
from llmstream.server_side.wires import ServerSide
from llmstream.server_side.wires.bedrock_converse.reader import decode_request
from llmstream.server_side.wires.bedrock_converse.writer import ConverseShapes, complete_response
from llmstream.server_side.wires.errors import encode_aws_error
from llmstream.server_side.wires.event_writer import EventWriter

__all__ = ["server_side"]


def server_side(dialect: BedrockConverse) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=lambda http: http.method == "POST" and model_of(http.url) is not None,
        decode_request=decode_request,
        event_encoder=lambda request: EventWriter(ConverseShapes()),
        complete_response=complete_response,
        encode_error=encode_aws_error,
    )
