"""Admission: who may call before a body is read, and how much before a model is asked."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Literal
from urllib.parse import parse_qsl

import msgspec

from llmstream.errors import AuthenticationError, InvalidRequest, LLMStreamError, PermissionDenied
from llmstream.exchange import HttpRequest
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import Key, Ledger
from llmstream.gateway.routes import Limits
from llmstream.simulator.admission import host_is_local, is_foreign_page

__all__ = ["Admission", "Refused"]

_log: Final = logging.getLogger("llmstream.gateway")

# Anthropic's, Azure's and Google's; the others send `Authorization: Bearer`.
_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
# The access key id of a request signed for AWS; the signature cannot be checked without the secret.
_AWS_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")

_ANYONE: Final = Key(name="")


class Refused(Exception):
    """The gateway refuses a request itself: `error` is for its client, as it is."""

    def __init__(self, error: LLMStreamError) -> None:
        super().__init__(error.message)
        self.error = error


class Admission:
    """Keys and limits of one gateway.

    ledger:       keys, limits and the log; None admits everyone and keeps nothing
    keys:         "auto" requires a key as soon as the ledger has one
    allow_remote: whether other machines may reach the gateway; then a key is required
    limits:       of each key that has none of its own
    """

    def __init__(
        self,
        ledger: Ledger | None,
        *,
        keys: Literal["required", "none", "auto"] = "auto",
        allow_remote: bool = False,
        limits: Limits = Limits(),
    ) -> None:
        # An open relay spends the operator's money, so that the safe combination is the only one that starts.
        if allow_remote and (ledger is None or keys == "none"):
            raise InvalidRequest(
                "a gateway that other machines can reach needs keys. Pass keys=PATH, and add one with "
                "`llmstream gateway keys add NAME`."
            )
        self.ledger = ledger
        self.limits = limits
        self._keys = keys
        self._allow_remote = allow_remote
        # One thread keeps the order: a call is entered before it is settled.
        self._thread = ThreadPoolExecutor(1, "llmstream-ledger") if ledger is not None else None

    def admit(self, http: HttpRequest) -> Key:
        """Returns the client's key; one without a name for anyone.

        raises: Refused
        """
        if not self._allow_remote:
            # A page of the web may resolve its own name to 127.0.0.1 (DNS rebinding).
            if not host_is_local(http.headers.get("host", "localhost")):
                raise _refused("the gateway serves this machine only, but the Host header names another")
            if is_foreign_page(http.headers):
                raise _refused("the gateway serves this machine only; the Origin header names another")
        ledger = self.ledger
        if ledger is None or not self._is_key_required(ledger):
            return self._limited(_ANYONE)
        given = given_secrets(http)
        key = ledger.find(given)
        if key is None:
            problem = "The gateway does not know this key" if given else "No key was sent"
            raise Refused(
                AuthenticationError(
                    f"{problem}. Send one of the gateway's keys, which begin with ls-.",
                    status=401,
                    reason="invalid_api_key",
                )
            )
        return self._limited(key)

    def check_model(self, key: Key, model: str) -> None:
        """raises: Refused if the key may not use the model"""
        if not key.may_use(model):
            allowed = ", ".join(key.models)
            raise _refused(f"The key {key.name} may not use {model!r}. It may use: {allowed}.")

    async def reserve(self, row: Row, key: Key, tokens: int, cost_usd: float | None) -> None:
        """Enters a call.

        raises: Refused if a limit or a budget does not allow it
        """
        if self.ledger is None or self._thread is None:
            return
        loop = asyncio.get_running_loop()
        try:
            # SQLite may wait for another process, and must not hold the event loop meanwhile. The client
            # waits until the reserve is in the file, so that a gateway that dies then knows of the call.
            await loop.run_in_executor(self._thread, self.ledger.reserve, row, key, tokens, cost_usd)
        except LLMStreamError as error:
            raise Refused(error) from None

    def settle(self, row: Row) -> None:
        """Writes what a call has used, behind the caller's back: a client that left must not stop it."""
        self.later(lambda ledger: ledger.settle(row) if row.id else None)

    def later(self, change: Callable[[Ledger], object]) -> None:
        """Runs a change on the ledger's thread; nothing without a ledger."""
        ledger = self.ledger
        if ledger is not None and self._thread is not None:
            try:
                self._thread.submit(change, ledger)
            except RuntimeError:  # closed, while a call was still being cut off
                _log.error("a call ended after the ledger was closed; its reserve stays in the log")

    def close(self) -> None:
        """Waits until all calls are written, and closes the ledger."""
        if self._thread is not None:
            self._thread.shutdown(wait=True)
        if self.ledger is not None:
            self.ledger.close()

    def _is_key_required(self, ledger: Ledger) -> bool:
        if self._allow_remote or self._keys == "required":
            return True
        return self._keys == "auto" and ledger.has_keys

    def _limited(self, key: Key) -> Key:
        """The key with the gateway's limits where it has none of its own."""
        limits = self.limits
        if limits.requests_per_minute is None and limits.tokens_per_minute is None:
            return key
        return msgspec.structs.replace(
            key,
            requests_per_minute=key.requests_per_minute or limits.requests_per_minute,
            tokens_per_minute=key.tokens_per_minute or limits.tokens_per_minute,
        )


def given_secrets(http: HttpRequest) -> list[str]:
    """Returns the keys of a request, in any vendor's header or Google's parameter."""
    headers = http.headers
    given = [headers[name].strip() for name in _KEY_HEADERS if headers.get(name)]
    authorization = headers.get("authorization", "")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() == "bearer":
        given.append(token.strip())
    elif signed := _AWS_CREDENTIAL.match(authorization):
        given.append(signed[1])
    query = http.url.partition("?")[2]
    # Google's SDKs for browsers send the key in the query.
    given += [value for name, value in parse_qsl(query) if name == "key"]
    return given


def _refused(message: str) -> Refused:
    return Refused(PermissionDenied(message, status=403, reason="forbidden"))


def ledger_of(given: Ledger | str | Path | None) -> Ledger | None:
    """Returns a ledger; opens the file of a path."""
    return given if given is None or isinstance(given, Ledger) else Ledger(given)
