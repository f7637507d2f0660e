"""The small pages beside the models: what real clients look up before they ask."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.serving.wires import ServerSide
from llmstream.simulator.utterance import tokens_of

__all__ = ["count_tokens", "is_public", "lookup"]

_EPOCH: Final = "2026-01-01T00:00:00Z"
_EPOCH_S: Final = 1767225600
_NAME: Final = re.compile(r"/[^/:]+")
_CAPABILITIES: Final = ("completion", "tools", "thinking", "vision")


def lookup(http: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """The answer to a request for models or version, or None for any other request.

    `/v1/models` serves clients of OpenAI, Anthropic and Cohere alike; who brings a key of Google's or
    comes with Mistral's client is answered in their words; `/api/...` is Ollama's. A name behind
    `/models/` is found whatever it is, for the simulator answers under any.
    """
    path, _, query = http.url.partition("?")
    if http.method == "POST" and path.endswith("/api/show"):
        return _json(_shown())
    if http.method not in ("GET", "HEAD"):
        return None
    if path == "/":
        return HttpResponse(200, b"Ollama is running", {"content-type": "text/plain; charset=utf-8"})
    if path.endswith("/api/version"):
        return _json({"version": "0.12.0"})
    if path.endswith("/api/tags"):
        return _json({"models": [_tag(name) for name in models]})
    place, found, name = path.rpartition("/models")
    if not found or (name and not _NAME.fullmatch(name)):
        return None
    is_google = "x-goog-api-key" in http.headers or place.endswith("/v1beta") or "key=" in query
    is_mistral = place.startswith("/mistral/") or "mistral" in http.headers.get("user-agent", "")
    entry = _google_model if is_google else _mistral_model if is_mistral else _model
    if name:
        return _json(entry(unquote(name[1:])))
    entries = [entry(one) for one in models]
    if is_google:
        return _json({"models": entries})
    found_by_cohere = [{"name": one, "endpoints": ["chat"], "finetuned": False} for one in models]
    pages = {"has_more": False, "first_id": None, "last_id": None}
    return _json({"object": "list", "data": entries, "models": found_by_cohere, **pages})


def is_public(http: HttpRequest) -> bool:
    """Whether a page is shown to everybody; lists of models want a key, as the vendors' do."""
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
    """What clients ask of each model on Ollama's list: llm-ollama offers none that does not say this."""
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
        "digest": hashlib.sha256(name.encode()).hexdigest(),  # names of one digest are one model to clients
        "details": details,
    }


def _json(value: object) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), {"content-type": "application/json"})


class _Page(msgspec.Struct, frozen=True):
    """One vendor's path, the path of the answer, the request inside the body, and the message."""

    path: re.Pattern[str]
    answer_path: str
    asked: Callable[[dict[str, Any]], dict[str, Any]]
    said: Callable[[int], dict[str, Any]]


_PAGES: Final = (
    _Page(  # Anthropic: no max_tokens, which the answer needs
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


def count_tokens(http: HttpRequest, sides: Iterable[ServerSide]) -> HttpResponse | None:
    """The answer to a request for a count, or None for any other request.

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
        raise BadRequest("the body is no JSON object", status=400)
    asked = msgspec.structs.replace(
        http, url=page.path.sub(page.answer_path, path), body=msgspec.json.encode(page.asked(body))
    )
    side = next((side for side in sides if side.accepts(asked)), None)
    if side is None:
        return None
    said = page.said(tokens_of(side.decode_request(asked)))
    return HttpResponse(200, msgspec.json.encode(said), {"content-type": "application/json"})


def _inside(body: dict[str, Any], name: str) -> dict[str, Any]:
    inner = body.get(name)
    return inner if isinstance(inner, dict) else body
