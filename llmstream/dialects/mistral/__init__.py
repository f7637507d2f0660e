"""The `mistral` dialect: Mistral's chat API."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, StreamLimits
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.json_text import as_data, on_one_line
from llmstream.dialects.mistral.decoder import MistralDecoder
from llmstream.dialects.mistral.request import accepts_url, encode_request
from llmstream.dialects.mistral.wire import places
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.dialects.tool_calls import mint_call_id
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.model_rules.mistral import MISTRAL
from llmstream.request import Request

__all__ = ["Mistral", "MistralDecoder"]


class Mistral(Dialect, frozen=True, kw_only=True):
    """Dialect of the chat API. Paths are relative to the API's root ("https://api.mistral.ai").

    new_call_id: makes ids for calls without one
    """

    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`."""
        return "mistral"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, provider=provider)

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `ModelFacts`."""
        rules = MISTRAL.find(model)
        thinks = rules.prompt_mode or bool(rules.efforts)
        return ModelFacts(reasoning=thinks, efforts=rules.efforts, context_tokens=rules.context_tokens)

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the list of models."""
        return ModelPage(HttpRequest("/v1/models", method="GET"), alone=False)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> MistralDecoder:
        """Creates a decoder for one response body."""
        return MistralDecoder(
            provider=provider, include_raw=include_raw, limits=limits, new_call_id=self.new_call_id
        )

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as one chunk, which has a `message` for a `delta`."""
        return as_data(on_one_line(body), b"[DONE]")

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """Returns the typed error of a response that is not a stream, with the paths of rejected fields.

        Header names are lower case.
        """
        error = vendor_error(status, headers, body, provider=provider)
        error.message = places(body) or error.message
        error.args = (error.message,)
        return error

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part can be sent as a URL: all but plain texts, which have to be in the request."""
        return accepts_url(part)
