"""The `openai-responses` dialect: the Responses API, as OpenAI and a dozen other servers speak it.

Reading: `wire.py` has the shapes; `decoder.py` reads the response, `prose_items.py` its items with
their messages and reasoning, `call_items.py` their calls. Writing: `request.py`, `messages.py`,
`content.py`. Background responses, which are stored and read over several bodies:
`background.py`. Over a WebSocket: `sockets.py`. What servers do differently is data: `quirks.py`. The
server side is `server_side/wires/openai_responses`.

Data that the API wants back verbatim is in metadata under "openai", for every provider: item ids,
encrypted reasoning, phases, and complete items of tools that only this API knows. `provider` beside
it names who gave it: to any other provider, ids and encrypted forms do not go.
"""

from __future__ import annotations

from collections.abc import Callable

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.json_text import as_data, on_one_line, status_of
from llmstream.dialects.model_facts import ModelFacts, ModelPage, with_fields
from llmstream.dialects.openai_responses.background import ResponsesBackground
from llmstream.dialects.openai_responses.content import accepts_url
from llmstream.dialects.openai_responses.decoder import OpenAIResponsesDecoder
from llmstream.dialects.openai_responses.quirks import (
    AnyQuirks,
    DeliveryQuirks,
    InputQuirks,
    ModelQuirks,
    OutputQuirks,
    Quirks,
    ThinkingQuirks,
    ToolQuirks,
    change,
)
from llmstream.dialects.openai_responses.request import encode_request
from llmstream.dialects.openai_responses.sockets import ResponsesSockets
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gpt import GPT
from llmstream.request import Request

__all__ = [
    "AnyQuirks",
    "DeliveryQuirks",
    "InputQuirks",
    "ModelQuirks",
    "OpenAIResponses",
    "OpenAIResponsesDecoder",
    "OutputQuirks",
    "Quirks",
    "ThinkingQuirks",
    "ToolQuirks",
    "change",
]

_VENDOR = "openai"
_PATH = "/responses"
_COUNTING = "/input_tokens"

# The fields that the endpoint accepts. source: developers.openai.com, "Get input token counts", 2026-11
_COUNTED = (
    *("model", "input", "instructions", "tools", "tool_choice", "parallel_tool_calls", "reasoning", "text"),
    *("truncation", "conversation", "previous_response_id"),
)


class OpenAIResponses(Dialect, frozen=True):
    """The dialect, for one vendor's quirks; see `dialects.base.Dialect`."""

    quirks: Quirks = Quirks()

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "openai-responses"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, self.quirks, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced; see `Dialect`."""
        return (
            ("json_schema", "tool", "json_object")
            if self.quirks.output.json_object
            else ("json_schema", "tool")
        )

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `dialects.model_facts`."""
        quirks = self.quirks.for_model(model)
        if not quirks.thinking.supported:
            return ModelFacts(efforts=())
        if not quirks.reasoning_model_rules:
            return ModelFacts(efforts=quirks.thinking.known_efforts)
        rules = GPT.find(model)
        return ModelFacts(
            reasoning=rules.reasons if rules.efforts is not None else None,
            efforts=rules.efforts,
            context_tokens=rules.context_tokens,
            max_output_tokens=rules.max_output_tokens,
        )

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the list of models."""
        path = self.quirks.path
        if not path.endswith(_PATH):
            return None
        return ModelPage(HttpRequest(path.removesuffix(_PATH) + "/models", method="GET"), alone=False)

    @property
    def count_request(self) -> Callable[[HttpRequest], HttpRequest] | None:
        """Makes the request to `input_tokens`."""
        return lambda http: with_fields(http, http.url + _COUNTING, _COUNTED)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> OpenAIResponsesDecoder:
        """Creates a decoder for one response body."""
        return OpenAIResponsesDecoder(provider=provider, include_raw=include_raw, limits=limits)

    @property
    def background(self) -> ResponsesBackground:
        """Responses in the background, which the vendor stores."""
        return ResponsesBackground(self.quirks)

    @property
    def sockets(self) -> ResponsesSockets | None:
        """Responses over WebSockets, where the server has them."""
        return ResponsesSockets(self.quirks) if self.quirks.delivery.websocket else None

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the last event of a stream, which holds all of it."""
        line = on_one_line(body)
        if status_of(line, ("object",)) != "response":
            return as_data(line)
        status = status_of(line) or "completed"
        return as_data(b'{"type":"response.%b","response":%b}' % (status.encode(), line))

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part can be sent as a URL: images and files by the quirks, recordings never."""
        if isinstance(part, Audio):
            return not self.quirks.input.audio
        return accepts_url(part.url, self.quirks.input)
