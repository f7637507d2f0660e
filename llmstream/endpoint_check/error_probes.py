"""Probes of refusals: each error has to have its status, its type and a readable message."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.endpoint_check.exchange import Exchange, Line
from llmstream.endpoint_check.probe import Probe, excerpt, found
from llmstream.endpoint_check.report import Finding
from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    LLMStreamError,
    NotFound,
    PermissionDenied,
    ProviderError,
    TransportError,
)
from llmstream.exchange import carries_secret
from llmstream.request import Request

__all__ = ["ERROR_PROBES"]

_NO_MODEL: Final = "no-such-model-llmstream-check"
_NO_KEY: Final = "not-a-key-llmstream-check"
_CONVERSATIONS: Final = ("messages", "contents", "input")
"""Names of the conversation in a body, by dialect."""


async def _wrong_model(line: Line) -> Finding:
    def other(request: Request) -> Request:
        return msgspec.structs.replace(request, model=_NO_MODEL)

    exchange = await line.ask("Say hello.", change=other, max_output_tokens=16)
    if exchange.error is None:
        return found(
            "degraded",
            "a model that does not exist gets an answer",
            meaning="A misspelt name is not noticed: another model answers.",
        )
    return _judged(exchange, 404, NotFound, "a wrong model")


async def _bad_key(line: Line) -> Finding:
    if any(map(carries_secret, line.model._headers)):
        return found("skipped", "the key is in the model's headers")
    model = copy.copy(line.model)
    model._api_key = _NO_KEY
    exchange = await line.ask("Say hello.", model=model, max_output_tokens=16)
    if exchange.error is None and not model.provider.key_required:
        return found("skipped", "the endpoint checks no keys")
    if exchange.error is None:
        meaning = "Whoever reaches the address can use it."
        return found("degraded", "a wrong key is accepted", meaning=meaning)
    return _judged(exchange, 401, AuthenticationError, "a wrong key", PermissionDenied)


async def _bad_request(line: Line) -> Finding:
    name = line.model.provider.name
    try:
        encoded = line.model.provider.dialect.encode(line.model.request("Say hello."), provider=name)
        body = msgspec.json.decode(encoded.http.body)
    except (LLMStreamError, msgspec.MsgspecError, ValueError) as error:
        return found("skipped", f"no request could be made: {error}")
    field = next((field for field in _CONVERSATIONS if field in body), "messages")
    options: dict[str, Any] = {"provider_options": {name: {field: 42}}}
    exchange = await line.ask("Say hello.", max_output_tokens=16, **options)
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
    got = f"{what} gets {error.status or 'no status'} ({type(error).__name__})"
    shown = excerpt(exchange.error_body)
    if isinstance(error, TransportError):
        return found("broken", f"{what} breaks the connection: {error.code}", meaning=_RETRIED)
    if exchange.status is not None and exchange.status < 400:
        meaning = "Proxies, caches and other clients take it for an answer."
        return found(
            "broken", f"{what} gets an error with HTTP {exchange.status}", meaning=meaning, evidence=shown
        )
    if (form := _form(exchange, error)) is not None:
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


def _form(exchange: Exchange, error: LLMStreamError) -> Finding | None:
    """The finding for an error body that is no JSON object; None for one that is."""
    body = exchange.error_body.strip()
    meaning = "The reason cannot be read by a program; people see markup or a bare text."
    if body[:1] == b"<":
        return found("degraded", "as a page of HTML", meaning=meaning)
    if not body:
        return found("degraded", "without a body", meaning="Nobody learns the reason.")
    try:
        value = msgspec.json.decode(body)
    except (msgspec.MsgspecError, ValueError):
        return found("degraded", "as plain text, not JSON", meaning=meaning)
    return None if isinstance(value, dict | list) else found("degraded", "not as a JSON object")


def _probe(name: str, title: str, run: Callable[[Line], Any]) -> Probe:
    return Probe(name=name, title=title, run=run)


ERROR_PROBES: Final = (
    _probe("wrong-model", "unknown model: 404", _wrong_model),
    _probe("wrong-key", "unknown key: 401", _bad_key),
    _probe("bad-request", "malformed request: 400", _bad_request),
)
