"""The Responses API on the server side."""

from __future__ import annotations

from llmstream.dialects.openai_responses import OpenAIResponses
from llmstream.dialects.openai_responses.background import is_stored
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide, posts_to
from llmstream.server_side.wires.errors import encode_openai_error
from llmstream.server_side.wires.openai_responses.reader import read_request
from llmstream.server_side.wires.openai_responses.writer import (
    ResponseWriter,
    complete_response,
    repeated_settings,
)

__all__ = ["server_side"]


def server_side(dialect: OpenAIResponses, *, provider: str = "openai") -> ServerSide:
    """Reads requests and writes responses of this dialect.

    provider: key in `provider_options` of fields without an option of ours
    """
    return ServerSide(
        dialect=dialect,
        accepts=posts_to(dialect.quirks.path),
        decode_request=lambda http: read_request(http, dialect.quirks, key=provider),
        event_encoder=lambda request: _writer(request, dialect),
        complete_response=complete_response,
        encode_error=encode_openai_error,
    )


def _writer(request: Request, dialect: OpenAIResponses) -> ResponseWriter:
    return ResponseWriter(
        model=request.model,
        background=is_stored(request, provider="openai"),
        repeated=repeated_settings(request, dialect.quirks, provider="openai"),
    )
