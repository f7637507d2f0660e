"""The `cohere` dialect: Cohere's v2 chat API, in both directions.

`wire.py` has the shapes, `block_decoder.py` and `decoder.py` read them; `request.py` and
`messages.py` write requests. `request_reader.py`, `message_reader.py` and `event_encoder.py` are
the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import quote

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.cohere.decoder import CohereDecoder
from llmstream.dialects.cohere.messages import accepts_url
from llmstream.dialects.cohere.request import encode_request
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
    """The dialect. Paths count from the API's root ("https://api.cohere.com").

    new_call_id: names calls that come without an id of their own
    """

    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`."""
        return "cohere"

    @property
    def content_type(self) -> str:
        """Media type of a streamed answer."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: InvalidRequest, Unsupported for audio and for documents that are no text
        """
        return encode_request(request, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """What the model can be held to: beside tools or documents, only to a call."""
        documents = options_of(request, KEY, KEY).get("documents")
        return ("tool",) if request.tools or documents else ("json_schema", "tool", "json_object")

    def model_page(self, model: str) -> ModelPage | None:
        """The page of one model."""
        return ModelPage(HttpRequest(f"/v1/models/{quote(model, safe='')}", method="GET"), alone=True)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> CohereDecoder:
        """A decoder for one response body."""
        return CohereDecoder(
            provider=provider, include_raw=include_raw, limits=limits, new_call_id=self.new_call_id
        )

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of an answer that is no stream; header names are lower case."""
        error = vendor_error(status, headers, body, provider=provider)
        if error.request_id is None:
            error.request_id = answer_id(body)
        return error

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part may stay a URL: the vendor fetches images; texts have to be in the request."""
        return accepts_url(part)
