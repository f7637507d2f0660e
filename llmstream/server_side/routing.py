"""What a request to a server is for: a dialect's response, streamed or complete, or a page before that.

Clients look up lists of models, versions and token counts before they request a response.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from llmstream.dialects.base import DIALECTS, Dialect, dialect_class
from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.request import Request
from llmstream.server_side.wires import ServerSide

__all__ = [
    "Router",
    "TokenCountRequest",
    "as_streamed",
    "count_request",
    "default_dialects",
    "is_complete",
    "is_complete_requested",
    "is_public",
    "lookup",
]


# Responses.


def default_dialects() -> list[Dialect]:
    """Returns the default dialects.

    Mistral's uses the path of Chat Completions, so it is served below `/mistral`. Claude's dialects on
    the clouds have their own paths.
    """
    from llmstream.dialects.anthropic import BEDROCK_INVOKE, VERTEX

    return [*(dialect_class(name)() for name in DIALECTS), BEDROCK_INVOKE, VERTEX]


class Router:
    """The server sides of one server."""

    def __init__(self, sides: Sequence[ServerSide]) -> None:
        self._sides = tuple(sides)

    def find(self, http: HttpRequest) -> ServerSide | None:
        """Returns the side that accepts a request, whether it is for a stream or not; None if none does."""
        streamed = as_streamed(http) or http
        accepting = [side for side in self._sides if side.accepts(streamed)]
        # Two dialects may share a path, so a dialect's name at the beginning of the path decides.
        named = (side for side in accepting if http.url.startswith(f"/{side.name}/"))
        return next(named, accepting[0] if accepting else None)

    def guess(self, http: HttpRequest) -> ServerSide:
        """Guesses the vendor of a request that no side accepts, for the form of the error."""
        # The vendor's own dialect takes precedence over variants.
        by_name = {side.name: side for side in reversed(self._sides)}
        name = "openai-chat"
        if "anthropic-version" in http.headers:
            name = "anthropic"
        elif http.url.startswith("/api/"):
            name = "ollama"
        # Without its first letter, in `generateContent` and in `streamGenerateContent`.
        elif "x-goog-api-key" in http.headers or "/v1beta/" in http.url or "enerateContent" in http.url:
            name = "gemini"
        elif http.url.startswith("/model/"):
            name = "bedrock-converse"
        elif "rawPredict" in http.url:
            name = "anthropic"
        # A server with some dialects only answers in a form that one of them has.
        return by_name.get(name, self._sides[0])


# Dialects whose vendors respond without a stream unless the body has `"stream": true`. Clouds that serve them
# name it in the path: `invoke-with-response-stream`, `MODEL:streamRawPredict`.
_COMPLETE_BY_DEFAULT: Final = frozenset(
    {"openai-chat", "openai-responses", "anthropic", "gemini-interactions", "cohere", "mistral"}
)

# Paths of responses without a stream, and the corresponding paths with one.
_STREAMED: Final = {
    re.compile(r"(?<=/)([^/]+)(:|%3A)generateContent(?=/?$)", re.IGNORECASE): r"\1:streamGenerateContent",
    re.compile(r"(?<=/)([^/]+)(:|%3A)rawPredict(?=/?$)", re.IGNORECASE): r"\1:streamRawPredict",
    re.compile(r"(?<=/)converse(?=/?$)"): "converse-stream",
    re.compile(r"(?<=/)invoke(?=/?$)"): "invoke-with-response-stream",
}


def as_streamed(http: HttpRequest) -> HttpRequest | None:
    """Returns the corresponding request for a stream; None if the path does not exclude one."""
    path, mark, query = http.url.partition("?")
    replaced = _streamed_path(path)
    return None if replaced is None else msgspec.structs.replace(http, url=replaced + mark + query)


@functools.lru_cache(maxsize=1024)
def _streamed_path(path: str) -> str | None:
    for pattern, streamed in _STREAMED.items():
        replaced, count = pattern.subn(streamed, path)
        if count:
            return replaced
    return None


def is_complete_requested(side: ServerSide, http: HttpRequest) -> bool:
    """Whether the request is for a response without a stream, at a path that serves both."""
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return False
    return is_complete(side, http, body.get("stream") if isinstance(body, dict) else None)


def is_complete(side: ServerSide, http: HttpRequest, wanted: object) -> bool:
    """Whether the response comes in one piece, by the field `stream` of the body; None without it."""
    if wanted is None:
        action = http.url.partition("?")[0].rpartition("/")[2].lower()
        wanted = side.name not in _COMPLETE_BY_DEFAULT or "stream" in action
    return not wanted


# Pages: lists of models, versions, token counts.

_EPOCH: Final = "2026-01-01T00:00:00Z"
# 1 January 2026: a fixed time, so that pages are equal in every run.
_EPOCH_S: Final = 1767225600
# After a slash or a colon comes an action, not a name.
_NAME: Final = re.compile(r"/[^/:]+")
_CAPABILITIES: Final = ("completion", "tools", "thinking", "vision")


def lookup(http: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """Returns the page of models or of a version; None for any other request.

    `/v1/models` serves clients of OpenAI, Anthropic and Cohere. A request with a Google key or from
    Mistral's client gets that vendor's format; `/api/...` is Ollama's. Any name after `/models/` is
    found, because the simulator accepts all names.
    """
    path, _, query = http.url.partition("?")
    if http.method == "POST" and path.endswith("/api/show"):
        return _json(_shown())
    if http.method not in ("GET", "HEAD"):
        return None
    # Ollama's CLI and clients check here, without a key, whether the server runs.
    if path == "/":
        return HttpResponse(200, b"Ollama is running", {"content-type": "text/plain; charset=utf-8"})
    if path.endswith("/api/version"):
        return _json({"version": "0.12.0"})
    if path.endswith("/api/tags"):
        return _json({"models": [_tag(name) for name in models]})
    place, found, name = path.rpartition("/models")
    if not found or (name and not _NAME.fullmatch(name)):
        return None
    # Google also accepts a key as a query parameter.
    is_google = "x-goog-api-key" in http.headers or place.endswith("/v1beta") or "key=" in query
    # Its client requires fields that OpenAI's list lacks, and sends no header of its own but this one.
    is_mistral = place.startswith("/mistral/") or "mistral" in http.headers.get("user-agent", "")
    entry = _google_model if is_google else _mistral_model if is_mistral else _model
    if name:
        return _json(entry(unquote(name[1:])))
    entries = [entry(one) for one in models]
    if is_google:
        return _json({"models": entries})
    cohere_models = [{"name": one, "endpoints": ["chat"], "finetuned": False} for one in models]
    pages = {"has_more": False, "first_id": None, "last_id": None}
    return _json({"object": "list", "data": entries, "models": cohere_models, **pages})


def is_public(http: HttpRequest) -> bool:
    """Whether a page needs no key; lists of models need one, as those of the vendors."""
    path = http.url.partition("?")[0]
    return path == "/" or path.endswith("/api/version")


def _google_model(name: str) -> dict[str, Any]:
    return {
        "name": f"models/{name}",
        "version": "001",
        "displayName": name,
        "inputTokenLimit": 1_048_576,
        "outputTokenLimit": 65_536,
        "supportedGenerationMethods": ["generateContent", "countTokens"],
        "thinking": True,
    }


def _mistral_model(name: str) -> dict[str, Any]:
    abilities = {"completion_chat": True, "function_calling": True, "reasoning": True, "vision": True}
    return {**_model(name), "type": "base", "capabilities": abilities}


def _shown() -> dict[str, Any]:
    """Describes a model of Ollama's list; llm-ollama ignores models without this page."""
    details = _tag("sim")["details"]
    return {"details": details, "model_info": {}, "capabilities": list(_CAPABILITIES), "modified_at": _EPOCH}


def _model(name: str) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": _EPOCH_S,
        "owned_by": "llmstream",
        "type": "model",
        "display_name": name,
        "created_at": _EPOCH,
    }


def _tag(name: str) -> dict[str, Any]:
    details = {"format": "gguf", "family": "simulator", "parameter_size": "0B", "quantization_level": "none"}
    return {
        "name": name,
        "model": name,
        "modified_at": _EPOCH,
        "size": 0,
        # Clients treat names with the same digest as one model.
        "digest": hashlib.sha256(name.encode()).hexdigest(),
        "details": details,
    }


def _json(value: object) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), {"content-type": "application/json"})


class _Page(msgspec.Struct, frozen=True):
    """A vendor's path for token counts.

    request_path: path of the request to count, in place of `path`
    request_of:   extracts that request from the body
    response_of:  builds the response for a number of tokens
    """

    path: re.Pattern[str]
    request_path: str
    request_of: Callable[[dict[str, Any]], dict[str, Any]]
    response_of: Callable[[int], dict[str, Any]]


_PAGES: Final = (
    _Page(
        # Anthropic's body has no max_tokens, which a request needs.
        re.compile(r"/messages/count_tokens$"),
        "/messages",
        lambda body: {"max_tokens": 1, **body},
        lambda tokens: {"input_tokens": tokens},
    ),
    _Page(
        re.compile(r"/responses/input_tokens$"),
        "/responses",
        lambda body: body,
        lambda tokens: {"object": "response.input_tokens", "input_tokens": tokens},
    ),
    _Page(
        # Some HTTP clients escape the colon of a path.
        re.compile(r"(:|%3A)countTokens$", re.IGNORECASE),
        ":streamGenerateContent",
        lambda body: _inside(body, "generateContentRequest"),
        lambda tokens: {
            "totalTokens": tokens,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": tokens}],
        },
    ),
    _Page(
        re.compile(r"(?<=/)count-tokens$"),
        "converse-stream",
        lambda body: _inside(_inside(body, "input"), "converse"),
        lambda tokens: {"inputTokens": tokens},
    ),
)


class TokenCountRequest(msgspec.Struct, frozen=True):
    """A request to count tokens.

    side:        of the dialect
    http:        the request whose tokens are counted, as if it were for a response
    request:     the same, decoded
    response_of: builds the page for a number of tokens
    """

    side: ServerSide
    http: HttpRequest
    request: Request
    response_of: Callable[[int], dict[str, Any]]

    def page(self, tokens: int) -> HttpResponse:
        """Returns the vendor's page."""
        return _json(self.response_of(tokens))


def count_request(http: HttpRequest, sides: Iterable[ServerSide]) -> TokenCountRequest | None:
    """Returns a token-count request; None for any other request.

    raises: BadRequest with the vendor's message
    """
    path = http.url.partition("?")[0]
    page = next((page for page in _PAGES if page.path.search(path)), None)
    if http.method != "POST" or page is None:
        return None
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise BadRequest("the body is not a JSON object", status=400)
    counted = msgspec.structs.replace(
        http, url=page.path.sub(page.request_path, path), body=msgspec.json.encode(page.request_of(body))
    )
    side = next((side for side in sides if side.accepts(counted)), None)
    if side is None:
        return None
    return TokenCountRequest(side, counted, side.decode_request(counted), page.response_of)


def _inside(body: dict[str, Any], name: str) -> dict[str, Any]:
    # Clients may also send the request itself, without the object around it.
    inner = body.get(name)
    return inner if isinstance(inner, dict) else body
