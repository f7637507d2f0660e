"""The `ollama` dialect: Ollama's chat API, newline-delimited JSON from `POST /api/chat`."""

from __future__ import annotations

import secrets
from collections.abc import Callable

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.json_text import on_one_line
from llmstream.dialects.model_facts import ModelPage
from llmstream.dialects.ollama.decoder import OllamaDecoder
from llmstream.dialects.ollama.request import encode_request, is_inline
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["Ollama"]


def _new_call_id() -> str:
    return "call_" + secrets.token_hex(8)


class Ollama(Dialect, frozen=True, kw_only=True):
    """Dialect of Ollama's chat API. Paths are relative to the server's root ("http://localhost:11434").

    new_call_id: makes ids for calls without one
    """

    new_call_id: Callable[[], str] = _new_call_id

    @property
    def name(self) -> str:
        """Name of the dialect, as in `llmstream replay --dialect`."""
        return "ollama"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "application/x-ndjson"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: Unsupported for images by URL, audio and documents
        """
        return encode_request(request, provider=provider)

    def output_abilities(self, request: Request) -> tuple[OutputAbility, ...]:
        """Returns how JSON output can be enforced; see `Dialect`."""
        # Tools are supported, but a call cannot be forced.
        return ("json_schema", "json_object")

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the list of installed models."""
        return ModelPage(HttpRequest("/api/tags", method="GET"), alone=False)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> OllamaDecoder:
        """Creates a decoder for one response body."""
        return OllamaDecoder(
            provider=provider, new_id=self.new_call_id, include_raw=include_raw, limits=limits
        )

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the only line of a stream."""
        return on_one_line(body) + b"\n"

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the part can be sent as a URL: only images as data URLs."""
        return not isinstance(part, Image) or is_inline(part)
