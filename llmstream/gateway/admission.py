"""Admission: who may call, before a body is read; how much, before a model is called."""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, Literal, TypeVar
from urllib.parse import parse_qsl

import msgspec

from llmstream.errors import (
    AuthenticationError,
    BadRequest,
    ConnectionFailed,
    InvalidRequest,
    LLMStreamError,
    Overloaded,
    PermissionDenied,
)
from llmstream.exchange import HttpRequest
from llmstream.gateway.accounts import Row
from llmstream.gateway.ledger import Budget, Busy, Key, Ledger, open_ledger
from llmstream.gateway.routes import Limits, read_budget
from llmstream.server_side.local_only import host_is_local, is_foreign_page

__all__ = ["Admission", "Refused", "ledger_of", "tag_budgets"]

_T = TypeVar("_T")

_log: Final = logging.getLogger("llmstream.gateway")

# Anthropic's, Azure's and Google's; other clients send `Authorization: Bearer`.
_KEY_HEADERS: Final = ("x-api-key", "api-key", "x-goog-api-key")
# The access key id of a request signed for AWS; the signature cannot be checked without the secret.
_AWS_CREDENTIAL: Final = re.compile(r"AWS4-HMAC-SHA256\s+Credential=([^/,\s]+)/")

_TAG_HEADER: Final = "x-llmstream-tag"
_TAG: Final = re.compile(r"[A-Za-z0-9][\w.@:/-]{0,63}", re.ASCII)

_ANONYMOUS: Final = Key(name="")

# Concurrent requests to a remote ledger; each waits for a round trip.
_ASKERS: Final = 8

# If changes block the event loop for this long, a thread makes them for a while. A single slow change may
# have waited for a busy CPU.
_SLOW_S: Final = 0.005
_SLOW_IN_A_ROW: Final = 3
_SLOW_FOR_S: Final = 10.0
# Some 4 MB of an SQLite file's WAL.
_CHANGES_BEFORE_TIDY: Final = 250


class Refused(Exception):
    """The gateway itself refuses a request; `error` is sent to the client unchanged."""

    def __init__(self, error: LLMStreamError) -> None:
        super().__init__(error.message)
        self.error = error


class Admission:
    """Keys and limits of one gateway.

    ledger:       keys, limits and the log; None admits everyone and stores nothing
    keys:         "auto" requires a key as soon as the ledger has one
    allow_remote: whether other machines may reach the gateway; then a key is required
    limits:       for keys without limits of their own
    tags:         budgets of tags
    """

    def __init__(
        self,
        ledger: Ledger | None,
        *,
        keys: Literal["required", "none", "auto"] = "auto",
        allow_remote: bool = False,
        limits: Limits = Limits(),
        tags: Mapping[str, Budget] | None = None,
    ) -> None:
        # An open relay spends the operator's money, so only safe combinations are allowed to start.
        if allow_remote and (ledger is None or keys == "none"):
            raise InvalidRequest(
                "a gateway that other machines can reach needs keys. Pass keys=PATH, and add one with "
                "`llmstream gateway keys add NAME`."
            )
        self.ledger = ledger
        self.limits = limits
        self.tags = tags or {}
        self._keys = keys
        self._allow_remote = allow_remote
        askers = _ASKERS if ledger is not None and ledger.is_remote else 1
        self._asking = ThreadPoolExecutor(askers, "llmstream-ledger")
        # A single thread preserves the order in which calls end.
        self._writing = ThreadPoolExecutor(1, "llmstream-ledger-writer")
        self._unwritten: deque[Callable[[Ledger], object]] = deque()
        self._slow, self._slow_until = 0, -math.inf
        self._changes = 0

    async def admit(self, http: HttpRequest) -> Key:
        """Returns the client's key; an anonymous one if none is needed.

        raises: Refused
        """
        if not self._allow_remote:
            # A web page may resolve its own name to 127.0.0.1 (DNS rebinding).
            if not host_is_local(http.headers.get("host", "localhost")):
                raise _refused("the gateway serves this machine only, but the Host header names another")
            if is_foreign_page(http.headers):
                raise _refused("the gateway serves this machine only; the Origin header names another")
        if not await self._is_key_required():
            return self._limited(_ANONYMOUS)
        given = given_secrets(http)
        key = await self.ask(lambda ledger: ledger.find(given))
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

    def tag_of(self, key: Key, http: HttpRequest) -> str:
        """Returns the tag of a call: that of its key, else the client's.

        raises: Refused for an invalid name
        """
        given = http.headers.get(_TAG_HEADER, "")
        if key.tag or not given:
            return key.tag
        if not _TAG.fullmatch(given):
            text = f"{_TAG_HEADER} is up to 64 letters, digits and . _ @ : / -"
            raise Refused(BadRequest(text, status=400, reason="invalid_request", param=_TAG_HEADER))
        return given

    async def ask(
        self,
        question: Callable[[Ledger], _T],
        *,
        waits: bool = False,
        given_up: Callable[[], object] | None = None,
    ) -> _T | None:
        """Queries the ledger; None without one.

        waits:    whether it may wait for another process even if the ledger is on this machine
        given_up: called, in any thread, if the query succeeds after this task was cancelled
        raises:   Refused if the ledger cannot be reached: then no call is admitted
        """
        ledger = self.ledger
        if ledger is None:
            return None
        if not (waits or ledger.is_remote):
            return question(ledger)
        asking = self._asking.submit(question, ledger)
        try:
            return await asyncio.wrap_future(asking)
        except asyncio.CancelledError:
            if given_up is not None:
                asking.add_done_callback(lambda done: _succeeded(done) and given_up())
            raise
        except ConnectionFailed as error:
            _log.error("%s", error)
            message = "The gateway cannot reach its store. Try again later."
            raise Refused(Overloaded(message, status=503, retry_after_s=1.0)) from error

    async def reserve(self, row: Row, key: Key, tokens: int, cost_usd: float | None) -> None:
        """Enters a call.

        raises: Refused if a limit or a budget does not allow it
        """
        tag_budget = self.tags.get(row.tag)
        # The client waits until the reserve is stored, so that a crashed gateway does not lose the call.
        try:
            if self._at_once(
                lambda ledger: ledger.reserve(row, key, tokens, cost_usd, tag_budget, waits=False)
            ):
                return
            await self.ask(
                lambda ledger: ledger.reserve(row, key, tokens, cost_usd, tag_budget),
                waits=True,
                # No request was sent to a model, so none of the reserve was used.
                given_up=lambda: self.settle(
                    msgspec.structs.replace(row, outcome="left", cost_usd=0.0, estimated=False)
                ),
            )
        except LLMStreamError as error:
            raise Refused(error) from None

    def settle(self, row: Row) -> None:
        """Writes the usage of a call in the background: a client that disconnects must not stop it."""
        if not row.id:
            return
        try:
            # After pending ones, in the order in which calls end.
            if not self._unwritten and self._at_once(lambda ledger: ledger.settle(row, waits=False)):
                return
        except Exception as error:
            _log.error("a call waits to be written: %s", error)
        self.later(lambda ledger: ledger.settle(row))

    def _at_once(self, change: Callable[[Ledger], object]) -> bool:
        """Makes a change in the event loop, unless that may take long; returns whether it was made.

        A change takes 30 us, a round trip to a thread ten times as long.
        """
        ledger, began = self.ledger, time.monotonic()
        if ledger is None or ledger.is_remote or began < self._slow_until:
            return ledger is None
        try:
            change(ledger)
        except Busy:
            return False
        finally:
            self._slow = self._slow + 1 if time.monotonic() - began > _SLOW_S else 0
            if self._slow == _SLOW_IN_A_ROW:
                self._slow, self._slow_until = 0, began + _SLOW_FOR_S
        self._changes += 1
        if self._changes % _CHANGES_BEFORE_TIDY == 0:
            self.later(lambda ledger: ledger.tidy())
        return True

    def later(self, change: Callable[[Ledger], object]) -> None:
        """Makes a change on the ledger's thread; nothing without a ledger.

        Failed writes are retried with the next change, and at the end.
        """
        if self.ledger is not None:
            self._unwritten.append(change)
            try:
                self._writing.submit(self._write, self.ledger)
            except RuntimeError:  # closed while a call was still being cancelled
                _log.error("a call ended after the ledger was closed; its reserve stays in the log")

    def _write(self, ledger: Ledger) -> None:
        while self._unwritten:
            try:
                self._unwritten[0](ledger)
            except Exception as error:
                _log.error("%d changes wait to be written: %s", len(self._unwritten), error)
                return
            self._unwritten.popleft()

    def close(self) -> None:
        """Waits until all calls are written, and closes the ledger."""
        self._asking.shutdown(wait=True)  # first: this writes the released reserves
        if self.ledger is not None and self._unwritten:
            self._writing.submit(self._write, self.ledger)
        self._writing.shutdown(wait=True)
        if self.ledger is not None:
            if self._unwritten:
                _log.error("%d changes could not be written; reserves stay", len(self._unwritten))
            self.ledger.close()

    async def _is_key_required(self) -> bool:
        if self.ledger is None:
            return False
        if self._allow_remote or self._keys == "required":
            return True
        return self._keys == "auto" and bool(await self.ask(lambda ledger: ledger.has_keys))

    def _limited(self, key: Key) -> Key:
        """The key, with the gateway's limits as defaults."""
        limits = self.limits
        if limits.requests_per_minute is None and limits.tokens_per_minute is None:
            return key
        return msgspec.structs.replace(
            key,
            requests_per_minute=key.requests_per_minute or limits.requests_per_minute,
            tokens_per_minute=key.tokens_per_minute or limits.tokens_per_minute,
        )


def _succeeded(asking: Future[Any]) -> bool:
    return not asking.cancelled() and asking.exception() is None


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


def tag_budgets(given: Mapping[str, str]) -> dict[str, Budget]:
    """Returns the budgets of tags.

    given:  such as {"research": "20usd/30d"}
    raises: InvalidRequest
    """
    return {tag: Budget("tag", tag, *read_budget(text)) for tag, text in given.items()}


def ledger_of(given: Ledger | str | Path | None) -> Ledger | None:
    """Returns a ledger; opens that of an address."""
    return given if given is None or isinstance(given, Ledger) else open_ledger(given)
