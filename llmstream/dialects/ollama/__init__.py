"""Ollama's own chat API: newline-delimited JSON from `POST /api/chat`, in both directions."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.errors import vendor_error
from llmstream.dialects.model_facts import ModelPage
from llmstream.dialects.ollama.decoder import OllamaDecoder
from llmstream.dialects.ollama.request import encode_request, is_inline
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["Ollama"]


def _new_call_id() -> str:
    return "call_" + secrets.token_hex(8)


class Ollama(Dialect, frozen=True, kw_only=True):
    """The dialect. Paths count from the server's root ("http://localhost:11434").

    new_call_id: makes ids for calls of daemons that send none
    """

    new_call_id: Callable[[], str] = _new_call_id

    @property
    def name(self) -> str:
        """As in `llmstream replay --dialect`."""
        return "ollama"

    @property
    def content_type(self) -> str:
        """Media type of a streamed answer."""
        return "application/x-ndjson"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """The HTTP request, without address and key.

        raises: Unsupported for images by URL, audio and documents
        """
        return encode_request(request, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """What the model can be held to; see `Dialect`."""
        return ("json_schema", "json_object")  # tools there are, but none can be forced

    def model_page(self, model: str) -> ModelPage | None:
        """The list of the models that are there."""
        return ModelPage(HttpRequest("/api/tags", method="GET"), alone=False)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> OllamaDecoder:
        """A decoder for one response body."""
        return OllamaDecoder(
            provider=provider, new_id=self.new_call_id, include_raw=include_raw, limits=limits
        )

    def decode_error(
        self, status: int, headers: Mapping[str, str], body: bytes, *, provider: str
    ) -> LLMStreamError:
        """The typed error of an answer that is no stream."""
        return vendor_error(status, headers, body, provider=provider)

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part may stay a URL: images only where the URL itself holds them in base64."""
        return not isinstance(part, Image) or is_inline(part)
