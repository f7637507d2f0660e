"""The `openai-chat` dialect: Chat Completions, as OpenAI and some seventy other servers speak it.

`wire.py` has the shapes, `decoder.py` and `delta_reader.py` read them, `../tool_calls.py` is the hard
part; `request.py` and `messages.py` write requests. `request_reader.py`, `message_reader.py` and
`event_encoder.py` are the reverse. What servers do differently is data: `quirks.py`;
what many of them share, `presets.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import msgspec

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Encoded, OutputAbility, StreamLimits
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.dialects.openai_chat.decoder import OpenAIChatDecoder
from llmstream.dialects.openai_chat.messages import accepts_url
from llmstream.dialects.openai_chat.presets import hosted
from llmstream.dialects.openai_chat.quirks import ModelQuirks, Quirks
from llmstream.dialects.openai_chat.request import encode_request, output_abilities
from llmstream.dialects.openai_chat.thinking import facts_of
from llmstream.dialects.tool_calls import mint_call_id
from llmstream.errors import ErrorInfo, LLMStreamError
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request
from llmstream.serving.wires.openai_chat.reader import read_request
from llmstream.serving.wires.openai_chat.writer import ChunkWriter, complete_response, error_response

__all__ = ["ModelQuirks", "OpenAIChat", "OpenAIChatDecoder", "Quirks", "hosted"]

_VENDOR = "openai"
_PATH = "/chat/completions"


class OpenAIChat(msgspec.Struct, frozen=True):
    """The dialect, for one vendor's quirks; see `dialects.base.Dialect`.

    new_call_id: names calls that come without an id; unique across responses by default
    """

    quirks: Quirks = Quirks()
    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`."""
        return "openai-chat"

    @property
    def content_type(self) -> str:
        """Media type of a streamed answer."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, self.quirks, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """What the model can be held to; see `dialects.base.KnowsOutput`."""
        return output_abilities(request, self.quirks)

    def facts(self, model: str) -> ModelFacts:
        """What is known of a model; see `dialects.model_facts`."""
        return facts_of(model, self.quirks.for_model(model))

    def model_page(self, model: str) -> ModelPage | None:
        """The list of models."""
        path = self.quirks.path
        if not path.endswith(_PATH):
            return None
        return ModelPage(HttpRequest(path.removesuffix(_PATH) + "/models", method="GET"), alone=False)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> OpenAIChatDecoder:
        """A decoder for one response body."""
        return OpenAIChatDecoder(
            self.quirks,
            provider=provider,
            include_raw=include_raw,
            limits=limits,
            new_call_id=self.new_call_id,
        )

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of an answer that is no stream; header names are lower case."""
        return vendor_error(status, headers, body, provider=provider)

    def accepts(self, http: HttpRequest) -> bool:
        """Whether a request is of this dialect, by its method and path."""
        return http.method == "POST" and http.url.partition("?")[0].endswith(self.quirks.path)

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the vendor fetches the part itself: never audio, images and files by its quirks."""
        return accepts_url(part, self.quirks)

    def decode_request(self, http: HttpRequest, *, provider: str = _VENDOR) -> Request:
        """What a client asks for; fields of the vendor's own are kept under `provider`.

        raises: BadRequest with the vendor's message
        """
        return read_request(http, self.quirks, key=provider)

    def event_encoder(self, request: Request) -> ChunkWriter:
        """Writes the answer to one request; usage comes unless its stream_options say otherwise."""
        wanted = [
            own["stream_options"] for own in request.provider_options.values() if "stream_options" in own
        ]
        usage = all(isinstance(options, dict) and options.get("include_usage") for options in wanted)
        return ChunkWriter(self.quirks, model=request.model, include_usage=usage)

    def complete_response(self, streamed: bytes) -> bytes:
        """The response without a stream that says what a streamed body says."""
        return msgspec.json.encode(complete_response(streamed))

    def encode_error(self, error: ErrorInfo) -> HttpResponse:
        """The answer a vendor would give."""
        return error_response(error)
