"""The `bedrock-converse` dialect: Amazon Bedrock's ConverseStream, one API for many vendors' models.

The response comes in AWS event-stream frames. The provider adds base URL and signature.
"""

from __future__ import annotations

from collections.abc import Mapping

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.aws import answer_error
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.bedrock_converse.content import accepts_url
from llmstream.dialects.bedrock_converse.decoder import BedrockConverseDecoder, streamed_form
from llmstream.dialects.bedrock_converse.quirks import traits
from llmstream.dialects.bedrock_converse.request import encode_request
from llmstream.errors import LLMStreamError
from llmstream.request import Request

__all__ = ["BedrockConverse"]


class BedrockConverse(Dialect, frozen=True):
    """Dialect of ConverseStream. Paths are relative to `https://bedrock-runtime.{region}.amazonaws.com`.

    The model's id in the path is percent-encoded; the URL must be sent without encoding it again.
    """

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`."""
        return "bedrock-converse"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "application/vnd.amazon.eventstream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and credentials.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced; see `Dialect`."""
        can = traits(request.model)
        thinks = request.reasoning is not None and request.reasoning.effort != "none"
        schema: tuple[OutputAbility, ...] = ("json_schema",) if can.schemas else ()
        return schema if thinks or can.tool_choice in ("auto", "none") else (*schema, "tool")

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> BedrockConverseDecoder:
        """Creates a decoder for one response body."""
        return BedrockConverseDecoder(provider=provider, include_raw=include_raw, limits=limits)

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the messages of a stream."""
        return streamed_form(body)

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """Returns the typed error of a response that is not a stream; header names are lower case."""
        return answer_error(status, headers, body, provider=provider)

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part can be sent as a URL: `s3://` and data URLs."""
        return accepts_url(part)
