"""The ledger: keys, what they may use, and a row for each call.

A call is entered with its maximum usage before it is made, and updated with its actual usage afterwards. So a
crashed gateway loses no call, and several processes on one ledger do not overspend together. The stores are
`sqlite_ledger.py`, for the processes of one machine, and `redis_ledger.py`, for several machines.
"""

from __future__ import annotations

import hashlib
import os
import secrets
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import Any, ClassVar, Final, Literal, TypedDict, Unpack

import msgspec

from llmstream import addresses
from llmstream.errors import InvalidRequest, LLMStreamError, PermissionDenied, RateLimited
from llmstream.gateway.accounts import Row

__all__ = ["Budget", "Busy", "Key", "Ledger", "Sum", "open_ledger"]

# A prefix that people and scanners for leaked secrets recognize.
_PREFIX: Final = "ls-"
MINUTE_S: Final = 60.0
HOUR_S: Final = 3600
DAY_S: Final = 86400.0
# A process id may have been reused, and processes of other machines cannot be checked.
LOST_AFTER_S: Final = 7200.0


class Budget(msgspec.Struct, frozen=True):
    """The amount that calls of a key or of a tag may spend within a sliding window."""

    of: Literal["key", "tag"]
    name: str
    usd: float
    window_s: float

    @property
    def payer(self) -> str:
        """The key of its sum in the store."""
        return tag_payer(self.name) if self.of == "tag" else self.name


class Key(msgspec.Struct, frozen=True, kw_only=True):
    """A client's key, without its secret.

    models:              names and patterns of models that it may use
    requests_per_minute: None for no separate limit
    tokens_per_minute:   input and output
    budget_usd:          the limit within `budget_s`, a sliding window
    tag:                 of all its calls; without one, clients may name a tag in `x-llmstream-tag`
    created, revoked:    Unix times, in s
    """

    name: str
    models: tuple[str, ...] = ("*",)
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    budget_usd: float | None = None
    budget_s: float = 30 * DAY_S
    tag: str = ""
    created: float = 0.0
    revoked: float | None = None

    def may_use(self, model: str) -> bool:
        """Whether it may use the model of this name."""
        return any(fnmatchcase(model, pattern) for pattern in self.models)

    @property
    def budget(self) -> Budget | None:
        """Its budget, if it has one."""
        return None if self.budget_usd is None else Budget("key", self.name, self.budget_usd, self.budget_s)


class Sum(msgspec.Struct, frozen=True):
    """Calls of one group: a key, a tag, a model, a day.

    unknown_cost: number of calls with unknown cost
    """

    group: str
    calls: int
    failed: int
    input_tokens: int
    output_tokens: int
    cost_usd: float
    unknown_cost: int


class Busy(Exception):
    """Raised if a change would have to wait for another process or thread."""


class Filter(TypedDict, total=False):
    """Calls of a key, of a tag, of models with a text in their name or the one asked for, by how they ended,
    since a Unix time."""

    key: str
    tag: str
    model: str
    outcome: str
    since: float


GroupedBy = Literal["key", "tag", "model", "route", "day"]


class Ledger(ABC):
    """Keys and calls in a store. Its methods block; threads may share it.

    is_remote: whether a method waits for another machine, so that an event loop calls it in a thread
    raises:    ConnectionFailed, of every method, if a remote store does not answer
    """

    is_remote: ClassVar[bool] = False

    @abstractmethod
    def close(self) -> None:
        """Closes the store."""

    def add_key(self, key: Key) -> str:
        """Stores a key and returns its secret, which is not stored: only its SHA-256 is.

        raises: InvalidRequest if the name is taken, also by a revoked key
        """
        secret = _PREFIX + secrets.token_urlsafe(32)
        if not self._put_key(key, digest(secret)):
            raise InvalidRequest(f"there is already a key named {key.name!r}. Use another name.")
        return secret

    @abstractmethod
    def _put_key(self, key: Key, found_by: bytes) -> bool:
        """Stores a key; False if its name is in use."""

    @abstractmethod
    def keys(self) -> list[Key]:
        """All keys by name, with those that were revoked."""

    @abstractmethod
    def revoke(self, name: str) -> None:
        """Revokes a key; its calls stay in the log.

        raises: InvalidRequest if there is none of this name
        """

    @abstractmethod
    def find(self, secrets_given: Sequence[str]) -> Key | None:
        """Returns the key of the first valid secret."""

    @property
    @abstractmethod
    def has_keys(self) -> bool:
        """Whether there is a key, even a revoked one: a gateway that had keys must not become open."""

    @abstractmethod
    def reserve(
        self,
        row: Row,
        key: Key,
        tokens: int,
        cost_usd: float | None,
        tag_budget: Budget | None = None,
        *,
        waits: bool = True,
    ) -> None:
        """Enters a call with its maximum usage; sets `row.id`.

        waits:  whether it may wait for another process or thread; else it raises Busy, and changes nothing
        raises: RateLimited if that exceeds a limit or a budget, with the time until it would not;
                PermissionDenied if a budget cannot be checked because the price is unknown
        """

    @abstractmethod
    def settle(self, row: Row, *, waits: bool = True) -> None:
        """Replaces the reserve of a call by its actual usage. Idempotent.

        waits: as of `reserve`
        """

    def tidy(self) -> None:  # noqa: B027  # most stores need nothing
        """Periodic maintenance of the store; may be slow."""

    @abstractmethod
    def rows(self, *, limit: int = 100, **wanted: Unpack[Filter]) -> list[Row]:
        """The latest matching calls, newest first."""

    @abstractmethod
    def sums(self, group: GroupedBy, **wanted: Unpack[Filter]) -> list[Sum]:
        """Sums of the matching calls by a field or by day (UTC), most expensive first; days in order."""

    @abstractmethod
    def recover(self) -> int:
        """Marks open calls of gateways that died as lost; returns their number. Their reserve stays spent."""

    @abstractmethod
    def secret(self, name: str) -> bytes:
        """Returns 32 random bytes that are the same for all processes on this store."""

    @abstractmethod
    def carry(self, entries: Sequence[tuple[str, bytes]], keep_s: float) -> None:
        """Stores data by the id of a call, for `keep_s`."""

    @abstractmethod
    def carried(self, call_ids: Sequence[str]) -> dict[str, bytes]:
        """Returns the data of those calls that have any."""


def open_ledger(
    where: str | os.PathLike[str], *, clock: Callable[[], float] | None = None, keep_s: float | None = None
) -> Ledger:
    """Opens the store of an address: a path, "sqlite:PATH", "redis://...", "rediss://..." or "unix://...".

    clock:  the time in place of the machine's, for tests
    keep_s: how long the log keeps a call; by default SQLite keeps all, and Redis 90 days
    raises: InvalidRequest for another address, and for one where there is no store; ConnectionFailed if a
            server does not answer; Unsupported without the extra `redis`
    """
    given: dict[str, Any] = {name: value for name, value in (("clock", clock), ("keep_s", keep_s)) if value}
    place = os.fspath(where)
    if addresses.is_redis(place):
        from llmstream.gateway.redis_ledger import RedisLedger

        return RedisLedger(place, **given)
    if "://" in place:
        raise InvalidRequest(
            f"the gateway cannot use a store at {addresses.shown(place)!r}. Use a path or redis://HOST:PORT/0."
        )
    from llmstream.gateway.sqlite_ledger import SQLiteLedger

    return SQLiteLedger(addresses.sqlite_path(place) or place, **given)


# What the stores share.


def digest(secret: str) -> bytes:
    """The lookup key of a secret. Secrets are random, so a slow hash would add no protection."""
    return hashlib.sha256(secret.encode("utf-8", "surrogateescape")).digest()


def tag_payer(tag: str) -> str:
    """The sum key of a tag; names of keys begin with a letter or a digit."""
    return f"#{tag}"


def payers_of(row: Row) -> list[str]:
    """The keys of the sums to which a call is added."""
    return [row.key, tag_payer(row.tag)] if row.tag else [row.key]


def budgets_of(key: Key, tag_budget: Budget | None, row: Row, cost_usd: float | None) -> list[Budget]:
    """The budgets that apply to a call.

    raises: PermissionDenied if there is one, and the price is unknown
    """
    own = key.budget if row.key else None
    found = [one for one in (own, tag_budget) if one is not None]
    if found and cost_usd is None:
        raise PermissionDenied(
            f"The {found[0].of} {found[0].name} has a budget, but no price of {row.model} is known. The "
            f"operator can set `price` in the route {row.route!r}.",
            status=403,
            reason="unknown_price",
        )
    return found


def limited(limit: str, key: Key, wait_s: float) -> LLMStreamError:
    """The error of a call beyond a limit of its key."""
    who = f"The key {key.name}" if key.name else "This gateway"
    return RateLimited(
        f"{who} is limited to {limit}.", status=429, reason="rate_limit_exceeded", retry_after_s=wait_s
    )


def over_budget(budget: Budget, spent: float, cost_usd: float, wait_s: float) -> LLMStreamError:
    """The error of a call beyond a budget."""
    return RateLimited(
        f"The {budget.of} {budget.name} has {max(0.0, budget.usd - spent):.4f} of its {budget.usd:g} USD "
        f"left, and this request may cost {cost_usd:.4f}. Ask for fewer output tokens, or wait.",
        status=429,
        reason="budget_exceeded",
        retry_after_s=wait_s,
    )


# Identifies a process even if a restarted container reuses the process id.
_TOKEN: Final = secrets.token_hex(4)


def this_process() -> str:
    """Identifies the process that enters a call."""
    return f"{socket.gethostname()}:{os.getpid()}:{_TOKEN}"


def is_lost(owner: str, age_s: float) -> bool:
    """Whether the process that entered an open call of that age is gone."""
    if age_s > LOST_AFTER_S:
        return True
    host, _, rest = owner.rpartition(":")[0].rpartition(":")
    if owner == this_process() or host != socket.gethostname():
        return False
    return rest == str(os.getpid()) or not _is_alive(rest)


def _is_alive(process: str) -> bool:
    try:
        os.kill(int(process), 0)
    except (ProcessLookupError, ValueError):
        return False
    except PermissionError:
        return True
    return True
