"""Tokens of a prompt before it is asked: a path of its own at most vendors, with the body of a request."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec

from llmstream.errors import BadRequest
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.serving.wires import ServerSide
from llmstream.simulator.utterance import tokens_of

__all__ = ["count_tokens"]


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
