"""Decides which dialect a request belongs to, and whether it is for a stream."""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from typing import Final

import msgspec

from llmstream.dialects.base import DIALECTS, Dialect, dialect_class
from llmstream.exchange import HttpRequest
from llmstream.server_side.wires import ServerSide

__all__ = ["Router", "as_streamed", "default_dialects", "is_complete", "is_complete_requested"]


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
