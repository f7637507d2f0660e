"""The endpoints that count the tokens of a prompt, as Anthropic, Google and OpenAI have them."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from llmstream.dialects.base import Dialect
from llmstream.dialects.model_facts import CountsTokens
from llmstream.exchange import HttpRequest, HttpResponse
from llmstream.simulator.utterance import tokens_of

__all__ = ["counted"]


def counted(http: HttpRequest, dialects: Iterable[Dialect]) -> tuple[Dialect, HttpResponse] | None:
    """Whose request it is, and how many tokens it has: as many as an answer to it would say.

    raises: BadRequest in the vendor's words
    """
    if http.method != "POST":
        return None
    for dialect in dialects:
        asked = dialect.counted(http) if isinstance(dialect, CountsTokens) else None
        if asked is not None:
            tokens = tokens_of(dialect.decode_request(asked))
            said = {"totalTokens": tokens} if dialect.name == "gemini" else {"input_tokens": tokens}
            body = msgspec.json.encode(said)
            return dialect, HttpResponse(200, body, {"content-type": "application/json"})
    return None
