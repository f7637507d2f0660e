"""The `openai-chat` dialect: Chat Completions, as OpenAI and some seventy other servers speak it.

`wire.py` has the shapes, `decoder.py` reads them, with `reasoning.py` and `attachments.py` for what
stands beside the text; `../tool_calls.py` is the hard part. `request.py` and `messages.py` write
requests. What servers do differently is data: `quirks.py`; what many of them share, `presets.py`.
The server side is `serving/wires/openai_chat`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, OutputAbility, StreamLimits
from llmstream.dialects.errors import vendor_error
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
from llmstream.errors import LLMStreamError
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
        """What the model can be held to; see `Dialect`."""
        return output_abilities(request, self.quirks)

    @property
    def counts_usage(self) -> bool:
        """Whether requests ask for the chunk that counts tokens."""
        fixed = self.quirks.extra_body.get("stream_options")
        options = {"include_usage": self.quirks.settings.stream_options} if fixed is None else fixed
        return isinstance(options, dict) and bool(options.get("include_usage"))

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

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether the vendor fetches the part itself: never audio, images and files by its quirks."""
        return accepts_url(part, self.quirks.media)
