"""The small pages beside the models: what real clients look up before they ask."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final
from urllib.parse import unquote

import msgspec

from llmstream.errors import NotFound
from llmstream.exchange import HttpRequest, HttpResponse

__all__ = ["lookup"]

_ONE_MODEL: Final = re.compile(r"/models/([^/:]+)$")
_EPOCH: Final = "2026-01-01T00:00:00Z"
_EPOCH_S: Final = 1767225600


def lookup(http: HttpRequest, models: Sequence[str]) -> HttpResponse | None:
    """The answer to a GET for models or version, or None for any other request.

    `/v1/models` serves clients of OpenAI and of Anthropic alike, `/api/...` Ollama's.
    """
    if http.method not in ("GET", "HEAD"):
        return None
    path = http.url.partition("?")[0]
    if path == "/":
        return HttpResponse(200, b"Ollama is running", {"content-type": "text/plain; charset=utf-8"})
    if path.endswith("/api/version"):
        return _json({"version": "0.12.0"})
    if path.endswith("/api/tags"):
        return _json({"models": [_tag(name) for name in models]})
    one = _ONE_MODEL.search(path)
    if one is not None:
        return _page_of(unquote(one[1]), models)
    if path.endswith("/models"):
        entries = [_model(name) for name in models]
        return _json(
            {"object": "list", "data": entries, "has_more": False, "first_id": None, "last_id": None}
        )
    return None


def is_public(http: HttpRequest) -> bool:
    """Whether a page is shown to everybody; lists of models want a key, as the vendors' do."""
    path = http.url.partition("?")[0]
    return path == "/" or path.endswith("/api/version")


def _page_of(name: str, models: Sequence[str]) -> HttpResponse:
    """One model, in the forms of Anthropic, Cohere and Google at once.

    raises: NotFound where it is none of ours
    """
    if name not in models:
        raise NotFound(f"model: {name}", status=404, reason="not_found_error")
    return _json({**_model(name), "name": f"models/{name}"})


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
        "digest": "0" * 64,
        "details": details,
    }


def _json(value: object) -> HttpResponse:
    return HttpResponse(200, msgspec.json.encode(value), {"content-type": "application/json"})
