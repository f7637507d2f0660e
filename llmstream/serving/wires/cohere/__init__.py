"""Cohere's Chat API on the server side."""

from __future__ import annotations

import msgspec

from llmstream.dialects.cohere import Cohere
from llmstream.dialects.cohere.request import PATH
from llmstream.serving.wires.base import ServerSide, posts_to
from llmstream.serving.wires.cohere.reader import decode_request
from llmstream.serving.wires.cohere.writer import CohereEventEncoder, complete_response, encode_error

__all__ = ["server_side"]


def server_side(dialect: Cohere) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: CohereEventEncoder(),
        complete_response=lambda body: msgspec.json.encode(complete_response(body)),
        encode_error=encode_error,
    )
