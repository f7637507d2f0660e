"""Probes of refusals: each error has to have its status, its type and a readable message."""

from __future__ import annotations

import copy
from typing import Any, Final

import msgspec

from llmstream.dialects.decoder import UNREADABLE
from llmstream.endpoint_check.endpoint import Endpoint, Exchange
from llmstream.endpoint_check.probe import Probe, excerpt, failure, found
from llmstream.endpoint_check.report import Finding
from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    CallerError,
    LLMStreamError,
    NotFound,
    PermissionDenied,
    ProviderError,
    RateLimited,
    TransportError,
)
from llmstream.exchange import carries_secret
from llmstream.request import Request

__all__ = ["ERROR_PROBES"]

_NO_MODEL: Final = "no-such-model-llmstream-check"
_NO_KEY: Final = "not-a-key-llmstream-check"
# Names of the conversation in a body, by dialect.
_CONVERSATIONS: Final = ("messages", "contents", "input")


async def _wrong_model(endpoint: Endpoint) -> Finding:
    def other(request: Request) -> Request:
        return msgspec.structs.replace(request, model=_NO_MODEL)

    exchange = await endpoint.ask("Say hello.", change=other, max_output_tokens=16)
    if exchange.error is None:
        return found(
            "degraded",
            "a model that does not exist gets an answer",
            meaning="A misspelt name is not noticed: another model answers.",
        )
    return _judged(exchange, 404, NotFound, "a wrong model")


async def _bad_key(endpoint: Endpoint) -> Finding:
    # A wrong `api_key` would be sent in addition to the right one.
    if any(map(carries_secret, endpoint.model._headers)):
        return found("skipped", "the key is in the model's headers")
    model = copy.copy(endpoint.model)
    model._api_key = _NO_KEY
    exchange = await endpoint.ask("Say hello.", model=model, max_output_tokens=16)
    if exchange.error is None and not model.provider.key_required:
        return found("skipped", "the endpoint checks no keys")
    if exchange.error is None:
        meaning = "Whoever reaches the address can use it."
        return found("degraded", "a wrong key is accepted", meaning=meaning)
    return _judged(exchange, 401, AuthenticationError, "a wrong key", PermissionDenied)


async def _bad_request(endpoint: Endpoint) -> Finding:
    name = endpoint.model.provider.name
    try:
        encoded = endpoint.model.provider.dialect.encode(endpoint.model.request("Say hello."), provider=name)
        body = msgspec.json.decode(encoded.http.body)
    except (LLMStreamError, msgspec.MsgspecError, ValueError) as error:
        return found("skipped", f"no request could be made: {error}")
    field = next((field for field in _CONVERSATIONS if field in body), "messages")
    # A number where a list belongs: wrong for every server, and written by our own encoder.
    options: dict[str, Any] = {"provider_options": {name: {field: 42}}}
    exchange = await endpoint.ask("Say hello.", max_output_tokens=16, **options)
    if exchange.error is None:
        return found(
            "degraded",
            f"a malformed request ({field}: 42) gets an answer",
            meaning="Mistakes in requests are not noticed.",
        )
    return _judged(exchange, 400, BadRequest, "a malformed request")


def _judged(
    exchange: Exchange,
    status: int,
    kind: type[LLMStreamError],
    what: str,
    *tolerated: type[LLMStreamError],
) -> Finding:
    """Whether an error has the status and the type that programs expect."""
    error = exchange.error
    assert error is not None
    # Neither is evidence about the requested refusal.
    if isinstance(error, RateLimited | CallerError) and (problem := failure(exchange, what)):
        return problem
    got = f"{what} gets {error.status or 'no status'} ({type(error).__name__})"
    shown = excerpt(exchange.error_body)
    if isinstance(error, TransportError):
        return found("broken", f"{what} breaks the connection: {error.code}", meaning=_RETRIED)
    if exchange.status is not None and exchange.status < 400:
        meaning = "Proxies, caches and other clients take it for an answer."
        return found(
            "broken", f"{what} gets an error with HTTP {exchange.status}", meaning=meaning, evidence=shown
        )
    if (form := _form(exchange)) is not None:
        return msgspec.structs.replace(form, detail=f"{got}, {form.detail}", evidence=shown)
    if isinstance(error, kind):
        return found("ok", f"{error.status}: {excerpt(error.message, 60)}")
    if error.retryable:
        return found("degraded", f"{got}, not {status}", meaning=_RETRIED, evidence=shown)
    if isinstance(error, (*tolerated, BadRequest, ProviderError)):
        meaning = f"except {kind.__name__} does not catch it."
        return found("degraded", f"{got}, not {status}", meaning=meaning, evidence=shown)
    return found("broken", got, evidence=shown)


_RETRIED: Final = "The error looks temporary: the request is repeated in vain."


def _form(exchange: Exchange) -> Finding | None:
    """The finding for an error body that is not a JSON object; None for one that is."""
    body = exchange.error_body.strip()
    meaning = "The reason cannot be read by a program; people see markup or a bare text."
    if body[:1] == b"<":
        return found("degraded", "as a page of HTML", meaning=meaning)
    if not body:
        return found("degraded", "without a body", meaning="The client does not learn the reason.")
    try:
        value = msgspec.json.decode(body)
    except UNREADABLE:
        return found("degraded", "as plain text, not JSON", meaning=meaning)
    # Google sends errors of a stream as a list.
    return None if isinstance(value, dict | list) else found("degraded", "not as a JSON object")


ERROR_PROBES: Final = (
    Probe(name="wrong-model", title="unknown model: 404", run=_wrong_model),
    Probe(name="wrong-key", title="unknown key: 401", run=_bad_key),
    Probe(name="bad-request", title="malformed request: 400", run=_bad_request),
)
