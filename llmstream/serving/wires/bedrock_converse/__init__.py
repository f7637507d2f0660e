"""Amazon Bedrock's ConverseStream on the server side."""

from __future__ import annotations

import msgspec

from llmstream.dialects.bedrock_converse import BedrockConverse
from llmstream.dialects.bedrock_converse.request import model_of
from llmstream.serving.wires.aws_errors import encode_answer
from llmstream.serving.wires.base import ServerSide
from llmstream.serving.wires.bedrock_converse.reader import decode_request
from llmstream.serving.wires.bedrock_converse.writer import BedrockConverseEventEncoder, complete_response

__all__ = ["server_side"]


def server_side(dialect: BedrockConverse) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=lambda http: http.method == "POST" and model_of(http.url) is not None,
        decode_request=decode_request,
        event_encoder=lambda request: BedrockConverseEventEncoder(),
        complete_response=lambda body: msgspec.json.encode(complete_response(body)),
        encode_error=encode_answer,
    )
