"""The client's side of a call: its dialect, the model it names, the form of its errors and heartbeats."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote

import msgspec

from llmstream.errors import BadRequest, ErrorInfo, error_from_info
from llmstream.events import ErrorEvent, Event, Finish
from llmstream.exchange import HttpRequest, HttpResponse, carries_secret
from llmstream.providers.base import NOT_FOUND_AT
from llmstream.request import Request
from llmstream.serve.writers import PING, UNBUFFERED
from llmstream.server_side.routing import as_streamed, is_complete
from llmstream.server_side.wires import EventEncoder, ServerSide

__all__ = [
    "MODEL_IN_PATH",
    "ClientCall",
    "WireWriter",
    "client_error",
    "error_reply",
    "is_our_fault",
    "sent_headers",
    "with_model",
]

# An unknown model name for the checks of a request: the rules of the named model do not apply to the model
# that answers instead.
_NEUTRAL: Final = "llmstream-gateway"

# Raw bytes: decoding and encoding a body would lose its field order and white space, on which vendors' prompt
# caches may depend.
_MODEL_FIELD: Final = re.compile(rb'("model"\s*:\s*)"(?:[^"\\]|\\.)*"')
# Wires that name the model in the path: Gemini, Vertex, Bedrock.
MODEL_IN_PATH: Final = re.compile(
    r"(?P<before>/(?:models|model|tunedModels)/)(?P<model>[^/?]+?)(?=(?::|%3A)[A-Za-z]+(?:$|\?)|/[a-z-]+(?:$|\?))"
)

# In-band errors that the vendor's own clients raise. On other wires a client may treat the end of the body as
# the end of the response, so the connection is cut after the error.
_RAISED_BY_CLIENTS: Final = frozenset({"anthropic", "openai-responses", "bedrock-converse", "ollama"})

# OpenAI's and Anthropic's SDKs obey a `retry-after` up to 60 s, and use a shorter wait for longer ones.
_SHORT_WAIT_S: Final = 60.0

# The event that Anthropic sends while idle, which its SDKs skip.
_ANTHROPIC_PING: Final = b'event: ping\ndata: {"type": "ping"}\n\n'

# Errors of the gateway's own configuration: clients cannot fix them, and must not conclude that their key is
# wrong.
_OUR_FAULTS: Final = frozenset({"authentication", "permission-denied", "missing-key"})
# Messages of these errors contain hosts and exceptions.
_OF_TRANSPORT: Final = frozenset(
    {"connection-failed", "connection-lost", "tls-error", "proxy-error", "redirect-refused", "protocol-error"}
)


# Of one connection only (RFC 9110, 7.6.1), or of the sender's own account and address. `accept-encoding`: a
# compressed response could not be monitored.
_NOT_SENT_ON: Final = frozenset(
    [
        "connection",
        "keep-alive",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "expect",
        "host",
        "content-length",
        "accept-encoding",
        "forwarded",
        "via",
        "x-real-ip",
        "origin",
        "referer",
        "openai-organization",
        "openai-project",
        "x-amz-date",
        "x-amz-content-sha256",
    ]
)
# Set by proxies in front of the gateway, by browsers, or by us.
_FOREIGN: Final = re.compile(r"x-forwarded-|sec-|proxy-|x-llmstream-|cf-")
# Its name has the word "key".
_NO_SECRETS: Final = frozenset({"idempotency-key"})
# Of one vendor's API and its SDKs.
_OF_VENDORS: Final = re.compile(r"(anthropic|openai|x-goog|x-amz|x-amzn|x-stainless)-")


class _ModelOf(msgspec.Struct):
    model: Any = None
    stream: Any = None
    max_tokens: Any = None
    max_completion_tokens: Any = None
    max_output_tokens: Any = None
    generationConfig: Any = None  # Gemini's
    generation_config: Any = None  # of Gemini's Interactions
    inferenceConfig: Any = None  # Bedrock's
    options: Any = None  # Ollama's


# Where wires have the limit below the top of the body.
_NESTED_LIMITS: Final = (
    ("generationConfig", "maxOutputTokens"),
    ("generation_config", "max_output_tokens"),
    ("inferenceConfig", "maxTokens"),
    ("options", "num_predict"),
)

_decode: Final = msgspec.json.Decoder(_ModelOf).decode


class ClientCall(msgspec.Struct, frozen=True):
    """A client's request.

    side:     of its dialect
    http:     as received
    model:    the requested name
    streamed: whether it wants a stream
    most_output_tokens: the client's limit; None if it sets none
    other:    whether the path belongs to no wire, such as /v1/embeddings; `model` may be ""
    """

    side: ServerSide
    http: HttpRequest
    model: str
    streamed: bool
    most_output_tokens: int | None = None
    other: bool = False

    @property
    def path(self) -> str:
        """Without the query."""
        return self.http.url.partition("?")[0]

    @classmethod
    def of_other(cls, side: ServerSide, http: HttpRequest) -> ClientCall:
        """Reads the model of a request outside all wires, if it names one.

        side: for the form of errors
        """
        found = MODEL_IN_PATH.search(http.url)
        name: Any = unquote(found["model"]) if found is not None else None
        if name is None and http.body[:1] == b"{":
            name = _fields(http.body).model
        return cls(side, http, name if isinstance(name, str) else "", streamed=False, other=True)

    @classmethod
    def of(cls, side: ServerSide, http: HttpRequest) -> ClientCall:
        """Reads the model's name, and whether a stream is wanted; the rest of the body is not checked.

        raises: BadRequest if the body is not JSON or names no model
        """
        # Decoded once, and only the needed fields: bodies of agents have hundreds of kilobytes.
        fields = _fields(http.body)
        # Wires have it in different places: a field of the body, another path, an `alt=sse` in the query.
        complete = as_streamed(http) is not None or is_complete(side, http, fields.stream)
        most = _most_output_tokens(fields)
        found = MODEL_IN_PATH.search(http.url)
        if found is not None:
            return cls(side, http, unquote(found["model"]), not complete, most)
        model = fields.model
        if not isinstance(model, str) or not model:
            raise BadRequest(
                "the request names no model", status=400, reason="invalid_request", param="model"
            )
        return cls(side, http, model, not complete, most)

    def request(self) -> Request:
        """Decodes the request, checked as the vendor checks it, except for rules of its own models.

        raises: LLMStreamError with the vendor's message
        """
        neutral = with_model(as_streamed(self.http) or self.http, _NEUTRAL)
        return msgspec.structs.replace(self.side.decode_request(neutral), model=self.model)


def _most_output_tokens(found: _ModelOf) -> int | None:
    given = [found.max_completion_tokens, found.max_output_tokens, found.max_tokens]
    for outer, name in _NESTED_LIMITS:
        inner = getattr(found, outer)
        given.append(inner.get(name) if isinstance(inner, dict) else None)
    return next((one for one in given if isinstance(one, int) and one > 0), None)


def _fields(body: bytes) -> _ModelOf:
    try:
        return _decode(body)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise BadRequest("the body is not a JSON object", status=400, reason="invalid_request") from None


def with_model(http: HttpRequest, model: str) -> HttpRequest:
    """Returns the request for another model: only the name in the path or the body changes."""
    url, in_path = MODEL_IN_PATH.subn(lambda found: found["before"] + quote(model, safe=":@"), http.url, 1)
    if in_path:
        return msgspec.structs.replace(http, url=url)
    return msgspec.structs.replace(http, body=_renamed(http.body, model))


def _renamed(body: bytes, model: str) -> bytes:
    name = msgspec.json.encode(model)
    renamed, count = _MODEL_FIELD.subn(lambda found: found[1] + name, body)
    if count == 1:
        return renamed
    # Tools and texts may have a field of this name too. Each value keeps its bytes, and only the space
    # between the outermost fields is lost.
    fields: dict[str, msgspec.Raw] = msgspec.json.decode(body, type=dict[str, msgspec.Raw])
    return msgspec.json.encode({**fields, "model": msgspec.Raw(name)})


def sent_headers(headers: Mapping[str, str], *, foreign: bool = False) -> dict[str, str]:
    """Returns the client's headers that may go to a vendor: without credentials and hop-by-hop headers.

    foreign: whether the vendor uses another wire
    """
    listed = {name.strip().lower() for name in headers.get("connection", "").split(",")}
    return {
        name: value
        for name, value in headers.items()
        if name not in _NOT_SENT_ON
        and name not in listed
        and not _FOREIGN.match(name)
        and not (foreign and _OF_VENDORS.match(name))
        and (name in _NO_SECRETS or not carries_secret(name))
    }


def is_our_fault(error: ErrorInfo) -> bool:
    """Whether the vendor refused the gateway itself, such as for its key."""
    return error.code in _OUR_FAULTS


def client_error(error: ErrorInfo) -> ErrorInfo:
    """Returns an error as a client of the gateway may see it: without hosts, keys and accounts."""
    if is_our_fault(error):
        message = "The gateway could not sign in to the model's vendor. Ask the gateway's operator."
        return ErrorInfo("server-error", message, retryable=False, status=502)
    if error.code in _OF_TRANSPORT:
        return msgspec.structs.replace(error, message=error.public_message, status=502)
    if error.code == "not-found":
        return msgspec.structs.replace(error, message=error.message.partition(NOT_FOUND_AT)[0])
    return error


def error_reply(side: ServerSide, error: ErrorInfo) -> HttpResponse:
    """Returns the error in the form of the client's wire, with our code in `x-llmstream-error`."""
    reply = side.encode_error(error)
    headers = {**reply.headers, "x-llmstream-error": error.code, "cache-control": "no-store"}
    if error.retry_after_s is not None:
        # In whole seconds, rounded up: a client that retries slightly early is refused again.
        headers["retry-after"] = str(max(1, -int(-error.retry_after_s // 1)))
        if error.retry_after_s > _SHORT_WAIT_S:
            # SDKs of OpenAI and Anthropic retry a 429 with waits of their own, which would not help.
            headers["x-should-retry"] = "false"
    return msgspec.structs.replace(reply, headers=headers)


class WireWriter:
    """Writes a streamed response on the client's wire, for `serve.Body`.

    A failure after the first byte is written in the wire's own form. If its clients may overlook that,
    `close` raises, which cuts the connection, so that no client treats an incomplete response as complete.
    """

    def __init__(self, side: ServerSide, encoder: EventEncoder) -> None:
        self.content_type = side.content_type
        self.headers = dict(UNBUFFERED)
        self.heartbeat = _heartbeat(side)
        self._side = side
        self._feed = encoder.feed
        self._close = encoder.close
        self._error: ErrorInfo | None = None
        self._failed = False

    def feed(self, event: Event) -> bytes:
        """Returns the bytes of one event."""
        kind = type(event)
        if kind is ErrorEvent:
            # The error goes to the client: remove addresses, keys and accounts of the operator.
            assert isinstance(event, ErrorEvent)
            self._error = client_error(event.error)
            event = ErrorEvent(self._error)
        elif kind is Finish:
            assert isinstance(event, Finish)
            self._failed = event.finish_reason == "error"
        return self._feed(event)

    def close(self) -> bytes:
        """Returns the bytes that end the body.

        raises: LLMStreamError if the response failed and the wire's clients may overlook its error
        """
        if self._failed and self._side.name not in _RAISED_BY_CLIENTS:
            raise error_from_info(
                self._error or ErrorInfo("stream-error", "the stream failed", retryable=True)
            )
        return self._close()

    def refuse(self, error: ErrorInfo) -> HttpResponse:
        """Returns the error of a response that failed before its first byte."""
        return error_reply(self._side, client_error(error))


def _heartbeat(side: ServerSide) -> bytes:
    """Bytes that the clients of a wire ignore; b"" where there are none (NDJSON, AWS event streams)."""
    if side.content_type != "text/event-stream":
        return b""
    # Comments without ids: a comment after an `id:` line breaks openai-python 3.54.
    return _ANTHROPIC_PING if side.name == "anthropic" else PING
