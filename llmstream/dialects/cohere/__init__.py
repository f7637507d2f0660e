"""The `cohere` dialect: Cohere's v2 chat API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.cohere.decoder import CohereDecoder, streamed_form
from llmstream.dialects.cohere.request import accepts_url, encode_request
from llmstream.dialects.cohere.wire import KEY, answer_id
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.model_facts import ModelPage
from llmstream.dialects.requests import options_of
from llmstream.dialects.tool_calls import mint_call_id
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["Cohere", "CohereDecoder"]


class Cohere(Dialect, frozen=True, kw_only=True):
    """Dialect of the v2 chat API. Paths are relative to the API's root ("https://api.cohere.com").

    new_call_id: makes ids for calls without one
    """

    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`."""
        return "cohere"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported for audio and for documents that are not text
        """
        return encode_request(request, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced: with tools or documents, only by a tool call."""
        documents = options_of(request, KEY, KEY).get("documents")
        return ("tool",) if request.tools or documents else ("json_schema", "tool", "json_object")

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the page of one model."""
        return ModelPage(HttpRequest(f"/v1/models/{quote(model, safe='')}", method="GET"), alone=True)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> CohereDecoder:
        """Creates a decoder for one response body."""
        return CohereDecoder(
            provider=provider, include_raw=include_raw, limits=limits, new_call_id=self.new_call_id
        )

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the events of a stream."""
        return streamed_form(body)

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """Returns the typed error of a response that is not a stream; header names are lower case."""
        error = vendor_error(status, headers, body, provider=provider)
        if error.request_id is None:
            error.request_id = answer_id(body)
        return error

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part can be sent as a URL: images can; texts have to be in the request."""
        return accepts_url(part)
