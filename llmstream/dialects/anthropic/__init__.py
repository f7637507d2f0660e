"""Anthropic's Messages API, in both directions, wherever it is served.

`Anthropic()` is api.anthropic.com and the gateways that imitate it; `VERTEX` is Google Vertex AI,
the same stream under another request; `BEDROCK_INVOKE` is AWS InvokeModel, the events inside AWS frames.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal
from urllib.parse import quote

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.anthropic.decoder import AnthropicDecoder
from llmstream.dialects.anthropic.messages import accepts_url
from llmstream.dialects.anthropic.quirks import BEDROCK_INVOKE_QUIRKS, VERTEX_QUIRKS, Quirks
from llmstream.dialects.anthropic.request import dropping_bound_thinking, encode_request
from llmstream.dialects.anthropic.wire import InvokeFrames
from llmstream.dialects.aws import answer_error
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.decoder import Framing
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.model_facts import ModelFacts, ModelPage, with_fields
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.framing.sse import SSEDecoder
from llmstream.model_rules.claude import CLAUDE
from llmstream.request import Request

__all__ = ["BEDROCK_INVOKE", "VERTEX", "Anthropic", "Quirks"]


_PATH: Final = "/v1/messages"
_COUNTING: Final = "/count_tokens"
_COUNTED: Final = (
    *("model", "messages", "system", "tools", "tool_choice", "thinking", "output_config", "mcp_servers"),
)
"""What the endpoint takes (platform.claude.com/docs/en/api/messages/count_tokens, 2026-11)."""


class Anthropic(Dialect, frozen=True):
    """The dialect.

    framing: of the answer
    quirks:  how the server's requests differ
    """

    framing: Literal["sse", "aws-event-stream"] = "sse"
    quirks: Quirks = Quirks()

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`."""
        return "anthropic"

    @property
    def content_type(self) -> str:
        """Media type of a streamed answer."""
        return "text/event-stream" if self.framing == "sse" else "application/vnd.amazon.eventstream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(request, provider=provider, quirks=self.quirks)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """What the model can be held to; see `Dialect`."""
        rules = CLAUDE.find(request.model)
        thinks = request.reasoning is not None and request.reasoning.effort != "none"
        schema: tuple[OutputAbility, ...] = ("json_schema",) if self.quirks.holds_to_schemas(rules) else ()
        # With reasoning on, the API forces no tool.
        return schema if thinks or not rules.forced_tools else (*schema, "tool")

    def takes_prefix(self, request: Request) -> bool:
        """Whether the model goes on with an answer that is begun for it; none does that while it thinks."""
        thinks = request.reasoning is not None and request.reasoning.effort != "none"
        return not thinks and CLAUDE.find(request.model).prefix

    def repaired(self, http: HttpRequest, error: LLMStreamError) -> HttpRequest | None:
        """The request as the vendor would take it; None where the error is about something else."""
        return dropping_bound_thinking(http, error, betas_in_body=self.quirks.betas_in_body)

    def facts(self, model: str) -> ModelFacts:
        """What is known of a model; see `dialects.model_facts`."""
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
        """The page of one model; clouds that serve Claude have none."""
        if self.quirks.path != _PATH:
            return None
        return ModelPage(HttpRequest(f"/v1/models/{quote(model, safe='')}", method="GET"), alone=True)

    @property
    def counts_tokens(self) -> bool:
        """By `count_request`."""
        return True

    def count_request(self, http: HttpRequest) -> HttpRequest | None:
        """The request to `count_tokens`; clouds that serve Claude have it elsewhere, or not at all."""
        return with_fields(http, f"{_PATH}{_COUNTING}", _COUNTED) if http.url == _PATH else None

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> AnthropicDecoder:
        """A decoder for one response body."""
        framing: Framing
        if self.framing == "sse":
            framing = SSEDecoder(max_bytes=limits.max_event_bytes)
        else:
            framing = InvokeFrames(provider=provider, max_bytes=limits.max_event_bytes)
        return AnthropicDecoder(framing, provider=provider, include_raw=include_raw, limits=limits)

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of an answer that is no stream; header names are lower case."""
        read = vendor_error if self.framing == "sse" else answer_error
        return read(status, headers, body, provider=provider)

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the server fetches the part itself: images and PDFs, unless it fetches nothing."""
        return accepts_url(part, quirks=self.quirks)


VERTEX: Final = Anthropic(quirks=VERTEX_QUIRKS)
BEDROCK_INVOKE: Final = Anthropic("aws-event-stream", BEDROCK_INVOKE_QUIRKS)
