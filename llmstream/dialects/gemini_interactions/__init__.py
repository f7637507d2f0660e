"""The `gemini-interactions` dialect: Google's Interactions API, which streams steps.

`wire.py` has the events; `decoder.py` reads the interaction and `steps.py` its steps; `request.py` writes
requests. The server side is `server_side/wires/gemini_interactions`.
"""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import msgspec

from llmstream.chats.content import Audio, Document, File, Image
from llmstream.dialects.base import Dialect, Encoded, Place, StreamLimits
from llmstream.dialects.gemini_interactions.decoder import BEGINNINGS, InteractionsDecoder
from llmstream.dialects.gemini_interactions.request import encode_request
from llmstream.dialects.gemini_interactions.wire import CONTINUATION, KEY
from llmstream.dialects.google import facts_of, wants_continuation, with_options, without_option
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.json_text import as_data, on_one_line, status_of
from llmstream.dialects.media import is_at_google
from llmstream.dialects.model_facts import ModelFacts, ModelPage
from llmstream.dialects.requests import options_of
from llmstream.events import Finish, Usage
from llmstream.exchange import HttpRequest
from llmstream.request import Request

__all__ = ["GeminiInteractions", "InteractionsDecoder"]


class GeminiInteractionsContinuation(msgspec.Struct, frozen=True):
    """Long responses in several parts; see `dialects.base.Continuation`."""

    def continues(self, request: Request, *, provider: str) -> bool:
        """Whether the request requires long responses to be continued."""
        # Google itself continues those of agents, and those made in the background.
        options = options_of(request, KEY, provider)
        left_to_google = options.get("background") or "agent" in options or "agent_config" in options
        return wants_continuation(request, KEY, provider) and not left_to_google

    def continued(self, request: Request, place: Place, *, provider: str) -> Request:
        """Adds the token to a request, and the id of the interaction if Google has stored it."""
        options: dict[str, object] = {"continuation_token": place.token}
        if place.response_id and options_of(request, KEY, provider).get("store") is not False:
            options["previous_interaction_id"] = place.response_id
        return with_options(request, provider, options)

    def place_of(self, request: Request) -> Place | None:
        """Returns the place that a request names."""
        options = options_of(request, KEY, KEY)
        token, owner = options.get("continuation_token"), options.get("previous_interaction_id")
        return Place(token, owner) if isinstance(token, str) else None

    def cut_off(self, place: Place, usage: Usage) -> Finish:
        """Returns the finish of an interaction that another one continues."""
        return Finish("length", usage, CONTINUATION, {KEY: {"continuation_token": place.token}})


class GeminiInteractions(Dialect, frozen=True):
    """The dialect; see `dialects.base.Dialect`.

    new_call_id: makes the ids of calls that come without one; unique across responses by default
    """

    new_call_id: Callable[[], str] = mint_call_id

    @property
    def name(self) -> str:
        """Name of the dialect."""
        return "gemini-interactions"

    @property
    def content_type(self) -> str:
        """Media type of a streamed response."""
        return "text/event-stream"

    def encode(self, request: Request, *, provider: str) -> Encoded:
        """Encodes the HTTP request, without base URL and API key.

        raises: InvalidRequest, Unsupported
        """
        return encode_request(without_option(request, KEY, provider), provider=provider)

    def facts(self, model: str) -> ModelFacts:
        """Returns what is known about a model; see `dialects.model_facts`."""
        return facts_of(model)

    def model_page(self, model: str) -> ModelPage | None:
        """Returns the page of one model."""
        return ModelPage(HttpRequest(f"/models/{quote(model, safe='')}", method="GET"), alone=True)

    def decoder(
        self, *, provider: str, include_raw: bool = False, limits: StreamLimits = StreamLimits()
    ) -> InteractionsDecoder:
        """Creates a decoder for one response body."""
        return InteractionsDecoder(
            provider=provider, include_raw=include_raw, limits=limits, new_call_id=self.new_call_id
        )

    @property
    def continuation(self) -> GeminiInteractionsContinuation:
        """Long responses in several parts."""
        return GeminiInteractionsContinuation()

    def streamed_form(self, body: bytes) -> bytes:
        """Rewrites a complete answer as the last event of a stream, which holds all of it."""
        line, status = on_one_line(body), status_of(body)
        if status is None:
            return as_data(line)
        kind = b"interaction.created" if status in BEGINNINGS else b"interaction.completed"
        return as_data(b'{"event_type":"%b","interaction":%b}' % (kind, line))

    def accepts_url(self, part: Image | Audio | Document | File) -> bool:
        """Whether a part can be sent as a URL: only files stored at Google."""
        return is_at_google(part.url)
