"""The `anthropic` dialect: Anthropic's Messages API, on every provider that serves it.

`Anthropic()` is api.anthropic.com and compatible gateways; `VERTEX` is Google Vertex AI, the same stream
for another request; `BEDROCK_INVOKE` is AWS InvokeModel, the same events inside AWS frames.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal
from urllib.parse import quote

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.anthropic.decoder import AnthropicDecoder
from llmstream.dialects.anthropic.messages import accepts_url
from llmstream.dialects.anthropic.quirks import BEDROCK_INVOKE_QUIRKS, VERTEX_QUIRKS, Quirks
from llmstream.dialects.anthropic.request import dropping_bound_thinking, encode_request
from llmstream.dialects.anthropic.wire import invoke_frame, invoke_frames
from llmstream.dialects.aws import answer_error
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.decoder import Framing
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.json_text import as_data, on_one_line, status_of
from llmstream.dialects.model_facts import ModelFacts, ModelPage, with_fields
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.framing.sse import SSEDecoder
from llmstream.model_rules.claude import CLAUDE
from llmstream.request import Request

__all__ = ["BEDROCK_INVOKE", "VERTEX", "Anthropic", "Quirks"]


_PATH: Final = "/v1/messages"
_COUNTING: Final = "/count_tokens"

# Fields of the endpoint. source: platform.claude.com/docs/en/api/messages/count_tokens, 2026-11
_COUNTED: Final = (
    *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "mcp_servers"),
)


class Anthropic(Dialect, frozen=True):
    """Dialect of the Messages API.

    framing: of the response
    quirks:  differences between servers
    """

    framing: Literal["sse", "aws-event-stream"] = "sse"
    quirks: Quirks = Quirks()

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`."""
        return "anthropic"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream" if self.framing == "sse" else "application/vnd.amazon.eventstream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, provider=provider, quirks=self.quirks)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced; see `Dialect`."""
        rules = CLAUDE.find(request.model)
        thinks = request.reasoning is not None and request.reasoning.effort != "none"
        schema: tuple[OutputAbility, ...] = ("json_schema",) if self.quirks.holds_to_schemas(rules) else ()
        # The API does not support forced tools together with reasoning.
        return schema if thinks or not rules.forced_tools else (*schema, "tool")

    def takes_prefix(self, request: Request) -> bool:
        """Whether the model continues an assistant message; no model does while it thinks."""
        thinks = request.reasoning is not None and request.reasoning.effort != "none"
        return not thinks and CLAUDE.find(request.model).prefix

    def repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        """Returns a request that avoids the error; None if the error is about something else."""
        return dropping_bound_thinking(http, error, betas_in_body=self.quirks.betas_in_body)

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `ModelFacts`."""
        rules = CLAUDE.find(model)
        known = "claude" in model.lower()
        off = ("none",) if rules.efforts and rules.off != "never" else ()
        return ModelFacts(
            reasoning=rules.thinking != "none" if known else None,
            efforts=(*off, *rules.efforts) if known else None,
            context_tokens=rules.context_tokens,
            max_output_tokens=rules.max_output_tokens,
        )

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the page of one model; clouds that serve Claude have none."""
        if self.quirks.path != _PATH:
            return None
        return ModelPage(HttpRequest(f"/v1/models/{quote(model, safe='')}", method="GET"), alone=True)

    @property
    def count_request(self) -> Callable[[HttpRequest], HttpRequest] | None:
        """Makes the request to `count_tokens`; clouds have it at another path, or not at all."""
        if self.quirks.path != _PATH:
            return None
        return lambda http: with_fields(http, f"{_PATH}{_COUNTING}", _COUNTED)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> AnthropicDecoder:
        """Creates a decoder for one response body."""
        framing: Framing
        if self.framing == "sse":
            framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        else:
            framing = invoke_frames(provider=provider, max_bytes=limits.max_event_bytes)
        return AnthropicDecoder(framing, provider=provider, include_raw=include_raw, limits=limits)

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the first event of a stream, which may hold complete blocks."""
        line = on_one_line(body)
        events = [line]
        if status_of(line, ("type",)) == "message":
            events = [b'{"type":"message_start","message":%b}' % line, b'{"type":"message_stop"}']
        return as_data(*events) if self.framing == "sse" else b"".join(map(invoke_frame, events))

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """Returns the typed error of a response that is not a stream; header names are lower case."""
        read = vendor_error if self.framing == "sse" else answer_error
        return read(status, headers, body, provider=provider)

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the server fetches the part: images and PDFs, on servers that fetch URLs."""
        return accepts_url(part, quirks=self.quirks)


VERTEX: Final = Anthropic(quirks=VERTEX_QUIRKS)
BEDROCK_INVOKE: Final = Anthropic("aws-event-stream", BEDROCK_INVOKE_QUIRKS)
