"""Requests besides responses: capabilities, availability, token counts, the end of a stored answer."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import msgspec

from llmstream.chats.content import Audio, Document, File, Image, Reasoning, Text, ToolCall, ToolResult
from llmstream.dialects.base import Dialect, Encoded
from llmstream.dialects.model_facts import (
    ListedModel,
    ModelPage,
    count_in,
    listed_in,
    names_in,
)
from llmstream.errors import AuthenticationError, DeadlineExceeded, LLMStreamError, PermissionDenied
from llmstream.exchange import HttpRequest
from llmstream.providers.base import Provider
from llmstream.request import Request, ToolSpec
from llmstream.streams.attempts import scrub, without_secrets
from llmstream.streams.call_plan import Prepared
from llmstream.streams.history import Inliner, repaired
from llmstream.transport.deadlines import Deadlines

if TYPE_CHECKING:
    import aiohttp

    from llmstream.transport.download import DownloadLimits

__all__ = [
    "Capabilities",
    "ModelCheck",
    "TokenCount",
    "capabilities_of",
    "check_model",
    "count_tokens",
    "end_stored",
    "list_models",
]

# Protects against endless responses; no list of models comes near this size.
_MAX_BODY_BYTES: Final = 16 * 1024 * 1024
# A server that returns the same page token again would cause an endless loop.
_MAX_PAGES: Final = 100
# For English text; other scripts have fewer characters a token. The result is marked as estimated.
_CHARS_PER_TOKEN: Final = 4
# Roughly one image, or a page or two of a document.
_TOKENS_OF_A_FILE: Final = 1_000

# Statuses of a server without such an endpoint; 400 and 422 come from proxies that serve a single path.
_NO_PAGE: Final = frozenset({400, 404, 405, 422, 501})


class Addressed(Protocol):
    """The part of `Model` that a look-up needs: address and key."""

    name: str
    provider: Provider
    deadlines: Deadlines
    downloads: DownloadLimits | None
    _session: aiohttp.ClientSession | None

    async def _addressed(
        self, encoded: Encoded, request: Request, headers: Mapping[str, str] = {}
    ) -> Prepared:
        """Adds address, key and headers: ready to be sent."""

    def _decode_error(self, status: int, headers: dict[str, str], body: bytes) -> LLMStreamError:
        """The typed error for a response that is not a stream."""


class ModelCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The result of checking a model. A server that is unavailable or refuses the key is an error instead.

    reachable: it responded and accepted the key; None if it has no list of models, so no request was sent
    known:     whether the vendor has the model; None if it does not list its models
    similar:   names close to an unknown one
    """

    provider: str
    model: str
    reachable: bool | None = None
    known: bool | None = None
    similar: tuple[str, ...] = ()


class TokenCount(msgspec.Struct, frozen=True):
    """The number of tokens of a prompt, including system prompt and tools.

    estimated: not counted by the vendor: a quarter of the characters, and a thousand for each file
    """

    input_tokens: int
    estimated: bool = False


async def check_model(model: Addressed) -> ModelCheck:
    """See `Model.check`."""
    dialect, name = model.provider.dialect, model.name
    page = dialect.model_page(name)
    if page is None:  # still reports a missing key or an invalid address
        await model._addressed(Encoded(HttpRequest("/", method="GET")), Request(model=name))
        return ModelCheck(provider=model.provider.name, model=name)
    known, names = await _found(model, page)
    similar = () if known else tuple(difflib.get_close_matches(name, sorted(names), n=5, cutoff=0.4))
    return ModelCheck(provider=model.provider.name, model=name, reachable=True, known=known, similar=similar)


async def _found(model: Addressed, page: ModelPage) -> tuple[bool | None, set[str]]:
    """Whether the vendor has the model, and the names that it lists."""
    names = await _names(model, page.http)
    if page.alone and names is not None:
        return True, names
    if page.alone:  # either the model or the endpoint may be missing: the list shows which
        names = await _names(model, _list_request(page))
    if not names:
        return None, set()
    return _bare(model.name) in map(_bare, names), names


def _list_request(page: ModelPage) -> HttpRequest:
    return HttpRequest(page.http.url.rpartition("/")[0], method="GET") if page.alone else page.http


async def list_models(model: Addressed) -> list[ListedModel] | None:
    """Asks a vendor which models it has, in its order.

    model:  any model of the provider; only address and key are used
    returns: None if the vendor has no list
    raises: the vendor's error, such as for a refused key; TransportError
    """
    page = model.provider.dialect.model_page(model.name)
    if page is None:
        return None
    http = _list_request(page)
    found: dict[str, ListedModel] = {}
    query = ""
    for _ in range(_MAX_PAGES):
        url = f"{http.url}?{query}" if query else http.url
        try:
            body = await _fetched(model, msgspec.structs.replace(http, url=url), Request(model=model.name))
        except LLMStreamError as error:
            if error.status not in _NO_PAGE or isinstance(error, AuthenticationError | PermissionDenied):
                raise
            return list(found.values()) or None
        listed, query = listed_in(body)
        before = len(found)
        for entry in listed:
            found.setdefault(entry.name, entry)
        if not query or len(found) == before:
            break
    return list(found.values())


async def _names(model: Addressed, http: HttpRequest) -> set[str] | None:
    """The names on a page of the list; None if the server has no such endpoint."""
    try:
        return names_in(await _fetched(model, http, Request(model=model.name)))
    except LLMStreamError as error:
        if error.status not in _NO_PAGE or isinstance(error, AuthenticationError | PermissionDenied):
            raise
        return None


async def count_tokens(model: Addressed, request: Request) -> TokenCount:
    """See `Model.count_tokens`."""
    provider = model.provider
    dialect: Dialect = provider.counter() if provider.counter else provider.dialect
    count_request = dialect.count_request
    if count_request is None:
        return TokenCount(_estimate(request), estimated=True)
    messages, _ = repaired(request.messages)
    ready = msgspec.structs.replace(request, messages=tuple(messages))
    ready = await Inliner(dialect, model.downloads).inline(ready)
    asked = count_request(dialect.encode(ready, provider=provider.name).http)
    try:
        counted = count_in(await _fetched(model, asked, ready))
    except LLMStreamError as error:
        if error.status not in (404, 405, 501):
            raise
    else:
        if counted is not None:
            return TokenCount(counted)
    return TokenCount(_estimate(request), estimated=True)


async def _fetched(model: Addressed, http: HttpRequest, request: Request) -> bytes:
    """The complete response to one request.

    raises: the vendor's error, with keys masked; TransportError, LimitExceeded
    """
    from llmstream.transport.http import send  # imports aiohttp

    prepared, deadlines = await model._addressed(Encoded(http), request), model.deadlines
    limit_s = deadlines.first_event_s
    try:
        async with asyncio.timeout(limit_s) as timer:
            response = await send(prepared.http, deadlines, model._session)
            try:
                if response.status < 400:
                    return await response.read_all(_MAX_BODY_BYTES)
                body = await response.read_error()
            finally:
                response.close()
        raise model._decode_error(response.status, response.headers, body)
    except LLMStreamError as error:
        error.provider = error.provider or model.provider.name
        model.provider.explain(error, prepared.http)
        failure = scrub(error, partial(without_secrets, secrets=prepared.secrets()))
    except TimeoutError:
        if not timer.expired():
            raise
        failure = DeadlineExceeded(f"no answer within {limit_s:g} s", reason="first-event")
    raise failure from None


def _bare(name: str) -> str:
    """A name without parts that servers add or omit: Google's collection, Ollama's default tag."""
    return name.removeprefix("models/").removesuffix(":latest").lower()


def _estimate(request: Request) -> int:
    characters = files = 0
    for message in request.messages:
        for part in message.parts:
            match part:
                case Text(text) | Reasoning(text):
                    characters += len(text)
                case ToolCall(_, name, arguments):
                    characters += len(name) + len(arguments)
                case ToolResult(content=content):
                    characters += len(content)
                    files += len(part.parts)
                case Image() | Audio() | Document() | File():
                    files += 1
                case _:
                    pass
    for tool in request.tools:
        if isinstance(tool, ToolSpec):
            characters += len(msgspec.json.encode(tool))
    if request.response_format is not None and request.response_format.schema is not None:
        characters += len(msgspec.json.encode(request.response_format.schema))
    return -(-characters // _CHARS_PER_TOKEN) + files * _TOKENS_OF_A_FILE


class Capabilities(msgspec.Struct, frozen=True, kw_only=True):
    """What a model supports; None if unknown. A model newer than the tables has its family's newest rules.

    reasoning:    supports reasoning
    efforts:      the effort levels, in order; () if it accepts none, or only a token budget
    schemas:      supports answers that conform to a JSON schema
    json:         supports answers in any JSON
    forced_tools: can be forced to call a tool, without reasoning
    prefix:       continues an answer that the request begins
    stored_answers: the vendor can store an answer, to be resumed after a break
    counts_tokens: the vendor counts tokens; else `Model.count_tokens` estimates
    lists_models: the vendor lists its models; else `Model.check` cannot know
    context_tokens, max_output_tokens: sizes
    """

    reasoning: bool | None = None
    efforts: tuple[str, ...] | None = None
    schemas: bool = False
    json: bool = False
    forced_tools: bool = False
    prefix: bool = False
    stored_answers: bool = False
    counts_tokens: bool = False
    lists_models: bool = False
    context_tokens: int | None = None
    max_output_tokens: int | None = None


def capabilities_of(model: str, provider: Provider) -> Capabilities:
    """The capabilities of a provider's model."""
    dialect = provider.dialect
    counter = provider.counter() if provider.counter else dialect
    request = Request(model=model)
    abilities = dialect.output_abilities(request)
    facts = dialect.facts(model)
    return Capabilities(
        reasoning=facts.reasoning,
        efforts=facts.efforts,
        schemas="json_schema" in abilities,
        json=bool({"json_object", "json_schema"} & set(abilities)),
        forced_tools="tool" in abilities,
        prefix=dialect.takes_prefix(request),
        stored_answers=bool(dialect.background and dialect.background.store(request, provider="")),
        counts_tokens=counter.count_request is not None,
        lists_models=dialect.model_page(model) is not None,
        context_tokens=facts.context_tokens,
        max_output_tokens=facts.max_output_tokens,
    )


async def end_stored(
    prepared: Prepared,
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError],
    deadlines: Deadlines,
    session: aiohttp.ClientSession | None,
) -> None:
    """Cancels an answer at the vendor.

    raises: the vendor's error; TransportError
    """
    from llmstream.transport.http import send  # imports aiohttp

    limit_s = deadlines.first_event_s
    try:
        async with asyncio.timeout(limit_s) as timer:
            response = await send(prepared.http, deadlines, session)
            try:
                body = await response.read_error()
            finally:
                response.close()
    except TimeoutError:
        if limit_s is None or not timer.expired():
            raise
        raise DeadlineExceeded(
            f"the vendor did not confirm within {limit_s:g} s that the answer is ended", reason="first-event"
        ) from None
    if response.status >= 400:
        raise decode_error(response.status, response.headers, body)
