"""Mistral's Chat Completions on the server side."""

from __future__ import annotations

import msgspec

from llmstream.dialects.mistral import Mistral
from llmstream.dialects.mistral.request import PATH
from llmstream.serving.wires.base import ServerSide, posts_to
from llmstream.serving.wires.mistral.reader import decode_request
from llmstream.serving.wires.mistral.writer import MistralEventEncoder, complete_response, encode_error

__all__ = ["server_side"]


def server_side(dialect: Mistral) -> ServerSide:
    """Reads requests and writes responses of this dialect."""
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(PATH),
        decode_request=decode_request,
        event_encoder=lambda request: MistralEventEncoder(model=request.model),
        complete_response=lambda body: msgspec.json.encode(complete_response(body)),
        encode_error=encode_error,
    )
