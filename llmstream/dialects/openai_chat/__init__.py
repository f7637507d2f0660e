"""The `openai-chat` dialect: Chat Completions, as OpenAI and some seventy other servers speak it.

`wire.py` has the shapes, `decoder.py` reads them, with `reasoning.py` and `attachments.py` for what
stands beside the text; `../tool_calls.py` is the hard part. `request.py` and `messages.py` write
requests. What servers do differently is data, in `quirks.py`; `hosted` there is what many of them share.
The server side is `server_side/wires/openai_chat`.
"""

from __future__ import annotations

from collections.abc import Callable

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.json_text import as_data, on_one_line
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.dialects.openai_chat.decoder import OpenAIChatDecoder
from llmstream.dialects.openai_chat.messages import accepts_url
from llmstream.dialects.openai_chat.quirks import (
    OPENAI_AUDIO,
    AnyQuirks,
    MediaQuirks,
    ModelQuirks,
    Quirks,
    ReasoningQuirks,
    SchemaQuirks,
    SettingQuirks,
    ThinkingQuirks,
    ToolQuirks,
    UsageQuirks,
    change,
    hosted,
)
from llmstream.dialects.openai_chat.request import encode_request, output_abilities
from llmstream.dialects.openai_chat.thinking import facts_of
from llmstream.dialects.tool_calls import mint_call_id
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = [
    "OPENAI_AUDIO",
    "AnyQuirks",
    "MediaQuirks",
    "ModelQuirks",
    "OpenAIChat",
    "OpenAIChatDecoder",
    "Quirks",
    "ReasoningQuirks",
    "SchemaQuirks",
    "SettingQuirks",
    "ThinkingQuirks",
    "ToolQuirks",
    "UsageQuirks",
    "change",
    "hosted",
]

_VENDOR = "openai"
_PATH = "/chat/completions"


class OpenAIChat(Dialect, frozen=True):
    """The dialect, for one vendor's quirks; see `dialects.base.Dialect`.

    new_call_id: makes the ids of calls that come without one; unique across responses by default
    """

    quirks: Quirks = Quirks()
    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "openai-chat"

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
        return output_abilities(request, self.quirks)

    @property
    def counts_usage(self) -> bool:
        """Whether requests include the option for the chunk with token counts."""
        fixed = self.quirks.extra_body.get("stream_options")
        options = {"include_usage": self.quirks.settings.stream_options} if fixed is None else fixed
        return isinstance(options, dict) and bool(options.get("include_usage"))

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `dialects.model_facts`."""
        return facts_of(model, self.quirks.for_model(model))

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the list of models."""
        path = self.quirks.path
        if not path.endswith(_PATH):
            return None
        return ModelPage(HttpRequest(path.removesuffix(_PATH) + "/models", method="GET"), alone=False)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> OpenAIChatDecoder:
        """Creates a decoder for one response body."""
        return OpenAIChatDecoder(
            self.quirks,
            provider=provider,
            include_raw=include_raw,
            limits=limits,
            new_call_id=self.new_call_id,
        )

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as one chunk, which has a `message` for a `delta`."""
        return as_data(on_one_line(body), b"[DONE]")

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part can be sent as a URL, by the quirks."""
        return accepts_url(part, self.quirks.media)
