"""What a call needs to know, made by a `Model` for one request."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

import msgspec

from llmstream.dialects.base import Decoder, Encoded
from llmstream.errors import LLMStreamError
from llmstream.exchange import HttpRequest
from llmstream.streams.observations import Observe
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.limiter import Limiter
from llmstream.transport.retry import Retry

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Plan", "Prepared"]


class Prepared(msgspec.Struct, frozen=True):
    """A request ready to be sent, and what was left out of it.

    secrets: texts that must not appear in an error, should the vendor echo them
    """

    encoded: Encoded
    http: HttpRequest
    secrets: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"Prepared({self.http!r})"


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a call needs to know.

    prepare:     asked before each attempt, since keys and signatures grow old
    new_keys:    whether `prepare` may give another key after a refusal
    model, call_id: what observations of the call are told by
    max_output_tokens: what the request may be answered with, for the limiter's estimate
    """

    provider: str
    prepare: Callable[[], Awaitable[Prepared]]
    decoder: Callable[[], Decoder]
    decode_error: Callable[[int, dict[str, str], bytes], LLMStreamError]
    content_type: str
    deadlines: Deadlines = Deadlines()
    retry: Retry = Retry()
    session: aiohttp.ClientSession | None = None
    include_raw: bool = False
    new_keys: bool = False
    model: str = ""
    call_id: str = ""
    limiter: Limiter | None = None
    max_output_tokens: int = 0
    observe: Observe | None = None
