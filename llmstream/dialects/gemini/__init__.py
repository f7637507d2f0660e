"""The `gemini` dialect: generateContent, as Google AI Studio and Vertex AI serve it.

`wire.py` has the shapes; `decoder.py` reads the chunks, `parts.py` what is in them, `calls.py` and
`partial_args.py` the calls; `request.py` and `messages.py` write requests. The server side is
`server_side/wires/gemini`. `VERTEX` is Vertex AI, where calls have no ids.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal

import msgspec

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, Place, StreamLimits
from llmstream.dialects.gemini.decoder import GeminiDecoder
from llmstream.dialects.gemini.request import encode_request
from llmstream.dialects.gemini.wire import CONTINUATION, path_for
from llmstream.dialects.google import KEY, facts_of, wants_continuation, with_options, without_option
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.media import is_at_google
from llmstream.dialects.model_facts import ModelFacts, ModelPage, with_fields
from llmstream.dialects.requests import options_of
from llmstream.events import Finish, Usage
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gemini import GEMINI
from llmstream.request import Request

__all__ = ["VERTEX", "Gemini", "GeminiDecoder"]


_COUNTING: Final = "countTokens"


class GeminiContinuation(msgspec.Struct, frozen=True):
    """Long responses in several parts; see `dialects.base.Continuation`."""

    def continues(self, request: Request, *, provider: str) -> bool:
        """Whether the request requires long responses to be continued."""
        return wants_continuation(request, KEY, provider)

    def continued(self, request: Request, place: Place, *, provider: str) -> Request:
        """Adds the token to a request. `maxOutputTokens` is unchanged: it counts over all responses."""
        return with_options(request, provider, {"continuationToken": place.token})

    def place_of(self, request: Request) -> Place | None:
        """Returns the place that a request names."""
        token = options_of(request, KEY, KEY).get("continuationToken")
        return Place(token) if isinstance(token, str) else None

    def cut_off(self, place: Place, usage: Usage) -> Finish:
        """Returns the finish of a response that another one continues."""
        return Finish("length", usage, CONTINUATION, {KEY: {"continuation_token": place.token}})


class Gemini(Dialect, frozen=True):
    """The dialect; see `dialects.base.Dialect`.

    vertex:      the server is Vertex AI, which refuses ids of calls
    schemas:     the fields for schemas: those that accept JSON schema, or the older ones that accept a
                 subset of OpenAPI
    new_call_id: makes the ids of calls that come without one; unique across responses by default
    """

    vertex: bool = False
    schemas: Literal["json-schema", "openapi"] = "json-schema"
    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "gemini"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        openapi = self.schemas == "openapi"
        request = without_option(request, KEY, provider)
        return encode_request(request, provider=provider, vertex=self.vertex, openapi=openapi)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced; see `Dialect`."""
        if request.tools and GEMINI.find(request.model).mixes_tools is False:
            return ("tool",)
        return ("json_schema", "tool", "json_object")

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `dialects.model_facts`."""
        return facts_of(model)

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the page of one model; None on Vertex AI, whose pages depend on the publisher."""
        if self.vertex:
            return None
        return ModelPage(HttpRequest(path_for(model).rpartition(":")[0], method="GET"), alone=True)

    @property
    def count_request(self) -> Callable[[HttpRequest], HttpRequest] | None:
        """Makes the request to `countTokens`: of its fields on Vertex AI, else of the complete request."""
        return self._count_request

    def _count_request(self, http: HttpRequest) -> HttpRequest:
        path = http.url.partition(":")[0]
        if self.vertex:
            names = ("contents", "systemInstruction", "tools", "generationConfig")
            return with_fields(http, f"{path}:{_COUNTING}", names)
        inner = {"model": path.removeprefix("/"), **http.json()}
        body = msgspec.json.encode({"generateContentRequest": inner})
        return HttpRequest(f"{path}:{_COUNTING}", body, http.headers)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> GeminiDecoder:
        """Creates a decoder for one response body: SSE, or the JSON array of requests without `alt=sse`."""
        return GeminiDecoder(
            provider=provider, include_raw=include_raw, limits=limits, new_call_id=self.new_call_id
        )

    @property
    def continuation(self) -> GeminiContinuation:
        """Long responses in several parts."""
        return GeminiContinuation()

    def streamed_form(self, body: bytes) -> bytes:
        """Returns the body unchanged: a stream without `alt=sse` is a list of such objects."""
        return body

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part can be sent as a URL: only files stored at Google."""
        return is_at_google(part.url)


VERTEX: Final = Gemini(vertex=True)
