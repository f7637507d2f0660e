"""Routes as data: the model names that clients request, and the models that respond."""

from __future__ import annotations

import functools
import os
import re
import tomllib
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.addresses import sqlite_path
from llmstream.errors import InvalidRequest, LLMStreamError, NotFound
from llmstream.first_use import prepared
from llmstream.gateway.telemetry import TelemetrySettings
from llmstream.providers.registry import find_provider, our_provider_names
from llmstream.streams.attempts import Retry
from llmstream.streams.model import Model
from llmstream.usage import Usage

__all__ = [
    "Limits",
    "Price",
    "Route",
    "Routes",
    "Settings",
    "Target",
    "duration_s",
    "load_settings",
    "read_address",
    "read_budget",
    "routes_of",
]

_WILD: Final = "*"
_DAY_S: Final = 86400.0
_UNITS_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 7 * 86400.0}
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")
_BUDGET: Final = re.compile(r"(\d+(?:\.\d+)?)\s*(?:usd|\$)?(?:/(.+))?", re.IGNORECASE)

_MAX_PORT: Final = 65_535

# In place of the file's `store`: an address may have a password.
_STORE_VARIABLE: Final = "LLMSTREAM_GATEWAY_STORE"


class Price(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Prices in US dollars per million tokens, for models that are in no price list.

    cached_input: of tokens read from a cache; by default `input`
    """

    input: float
    output: float
    cached_input: float | None = None

    def cost(self, usage: Usage) -> float:
        """What the tokens cost."""
        cached = min(usage.cached_input_tokens or 0, usage.input_tokens or 0)
        fresh = (usage.input_tokens or 0) - cached
        for_cached = self.input if self.cached_input is None else self.cached_input
        return (fresh * self.input + cached * for_cached + (usage.output_tokens or 0) * self.output) / 1e6


class Target(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One model that may answer.

    model:       "provider:model"; `provider:*` uses the name that the client requested
    base_url:    as of `Model`
    api_key_env: environment variable of its key, in place of the vendor's usual one
    headers:     sent with every request
    price:       in place of the price list's
    lane:        "translate" decodes and writes again even where the client speaks the vendor's wire
    retries:     on the translate lane, before the next model is tried. By default none: the client's SDK
                 repeats a refused request itself, after the time that the vendor names
    """

    model: str
    base_url: str | None = None
    api_key_env: str | None = None
    headers: dict[str, str] = {}
    price: Price | None = None
    lane: Literal["auto", "translate"] = "auto"
    retries: int = 0


class Route(msgspec.Struct, frozen=True):
    """The models of one name.

    pattern: the name, or a pattern with `*`
    targets: the first answers; each further one if those before it fail before their first content
    models:  existing models instead of `targets`: a `Model` with middleware, for example
    record:  records the bytes of each call in a folder
    drain:   reads a response to its end if its client disconnects, for exact usage
    other_paths: passes paths outside all wires, such as /v1/embeddings, to the vendor of the first model
    """

    pattern: str
    targets: tuple[Target, ...] = ()
    models: tuple[Model[Any], ...] = ()
    record: bool = False
    drain: bool = False
    other_paths: bool = False

    def asked(self, name: str) -> list[tuple[Model[Any], Target]]:
        """Returns the models for a name that a client requested.

        raises: InvalidRequest for a target that names no known provider
        """
        if self.models:
            return [(model, Target(f"{model.provider.name}:{model.name}")) for model in self.models]
        # `openai/*` passes the part after the slash; any other pattern the complete name.
        inner = name[len(self.pattern) - 1 :] if self.pattern.endswith("/*") else name
        filled = (msgspec.structs.replace(one, model=one.model.replace(_WILD, inner)) for one in self.targets)
        return [(_model(_Frozen(one)), one) for one in filled]


RouteLike: TypeAlias = "str | Model[Any] | Iterable[str | Model[Any]]"


class Routes:
    """Finds the route of a name: an exact one, else the longest pattern that fits."""

    def __init__(self, routes: Iterable[Route]) -> None:
        found = list(routes)
        self.all: Final = tuple(found)
        self._exact = {route.pattern: route for route in found if _WILD not in route.pattern}
        wild = [route for route in found if _WILD in route.pattern]
        # The longest pattern is the most specific one, in whatever order the file has them.
        self._wild = sorted(wild, key=lambda route: len(route.pattern), reverse=True)

    @property
    def names(self) -> tuple[str, ...]:
        """The names without a pattern, as lists of models show them."""
        return tuple(self._exact)

    def find(self, name: str) -> Route:
        """Returns the route of a name.

        raises: NotFound
        """
        route = self._exact.get(name)
        if route is None:
            route = next((one for one in self._wild if fnmatchcase(name, one.pattern)), None)
        if route is None:
            known = ", ".join(self._exact) or "none by name"
            raise NotFound(
                f"The gateway has no model {name!r}. It has: {known}.", status=404, reason="model_not_found"
            )
        return route


def routes_of(given: Mapping[str, RouteLike] | Routes) -> Routes:
    """Returns routes given in a program: name or pattern to "provider:model", a `Model`, or several."""
    if isinstance(given, Routes):
        return given
    routes = []
    for pattern, use in given.items():
        uses = [use] if isinstance(use, str | Model) else list(use)
        if not uses:
            raise InvalidRequest(f"the route {pattern!r} has no model")
        if all(isinstance(one, str) for one in uses):
            routes.append(Route(pattern, tuple(Target(one) for one in uses if isinstance(one, str))))
        else:
            models = tuple(one if isinstance(one, Model) else Model(one) for one in uses)
            routes.append(Route(pattern, models=models))
    return Routes(routes)


class _Frozen:
    """A target as a key of the cache: its headers are a dict, which has no hash."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self._key = msgspec.json.encode(target)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Frozen) and self._key == other._key


# Creating a `Model` is slower than a lookup. Bounded, because with a pattern the client chooses the names.
@functools.lru_cache(maxsize=512)
def _model(frozen: _Frozen) -> Model[Any]:
    target = frozen.target
    variable = target.api_key_env
    return Model(
        target.model,
        base_url=target.base_url,
        # Read at each call, so that an operator can change a key without a restart.
        api_key=None if variable is None else lambda: os.environ.get(variable, ""),
        headers=target.headers,
        retry=Retry(max_retries=target.retries),
    )


# The file.


def duration_s(text: str) -> float:
    """Reads a duration: "30m", "24h", "7d".

    raises: InvalidRequest
    """
    found = _DURATION.fullmatch(text.strip())
    if found is None or float(found[1]) <= 0:
        raise InvalidRequest(f"{text!r} is not a duration. Write 30m, 24h or 7d.")
    return float(found[1]) * _UNITS_S[found[2]]


def read_budget(text: str) -> tuple[float, float]:
    """Reads "20usd/30d" as dollars and seconds; 30 days without a window.

    raises: InvalidRequest
    """
    found = _BUDGET.fullmatch(text.strip())
    if found is None:
        raise InvalidRequest(f"{text!r} is not a budget. Write 20usd/30d.")
    return float(found[1]), duration_s(found[2] or "30d")


class _RouteTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    use: str | list[str | Target]
    base_url: str | None = None
    api_key_env: str | None = None
    headers: dict[str, str] = {}
    price: Price | None = None
    lane: Literal["auto", "translate"] = "auto"
    retries: int = 0
    record: bool = False
    drain: bool = False
    other_paths: bool = False

    def targets(self) -> tuple[Target, ...]:
        uses = [self.use] if isinstance(self.use, str) else self.use
        return tuple(self._target(one) if isinstance(one, str) else one for one in uses)

    def _target(self, spec: str) -> Target:
        return Target(
            spec, self.base_url, self.api_key_env, self.headers, self.price, self.lane, self.retries
        )


class Limits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of each key that has none of its own; None is no limit."""

    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None


class RecordingSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where calls of routes with `record` are stored.

    max_call_bytes: of each request and each response
    max_bytes:      of all calls together; the oldest are removed first
    """

    folder: str = "recordings"
    max_call_bytes: int = 10 * 1024 * 1024
    max_bytes: int = 1024 * 1024 * 1024


class _File(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    models: dict[str, _RouteTable]
    listen: str = "127.0.0.1:4000"
    store: str = "gateway.db"
    keys: Literal["required", "none", "auto"] = "auto"
    limits: Limits = Limits()
    max_body_bytes: int = 32 * 1024 * 1024
    metrics: bool | None = None
    keep_log: str | None = None
    tags: dict[str, str] = {}
    recordings: RecordingSettings = RecordingSettings()
    telemetry: TelemetrySettings | None = None


class Settings(msgspec.Struct, frozen=True):
    """A gateway's file.

    listen: host and port
    store:  of keys, budgets and the log: path of an SQLite file, or the address of a Redis server
    keys:   "auto" requires a key as soon as there is one, or where other machines can reach the gateway
    metrics: serves /metrics; None if prometheus-client is installed
    keep_log_s: how long the log keeps a call; by default SQLite keeps all, and Redis 90 days
    tags:    budgets of tags, such as "20usd/30d"
    recordings: for routes with `record`
    telemetry:  OpenTelemetry; None is off
    """

    routes: Routes
    listen: str
    store: str
    keys: Literal["required", "none", "auto"]
    limits: Limits
    max_body_bytes: int
    metrics: bool | None
    keep_log_s: float | None
    tags: dict[str, str]
    recordings: RecordingSettings
    telemetry: TelemetrySettings | None = None

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return read_address(self.listen)


def read_address(text: str) -> tuple[str, int]:
    """Reads "HOST:PORT".

    raises: InvalidRequest
    """
    host, _, port = text.rpartition(":")
    # Five digits at most: int() raises an error of its own beyond 4,300.
    if not host or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > _MAX_PORT:
        raise InvalidRequest(f'listen is "HOST:PORT" with a port up to {_MAX_PORT}, got {text!r}')
    return host.strip("[]"), int(port)


def load_settings(path: str | os.PathLike[str]) -> Settings:
    """Reads gateway.toml; a relative `store` is in the same folder. LLMSTREAM_GATEWAY_STORE overrides it.

    raises: InvalidRequest that names the field; OSError if the file cannot be read
    """
    where = Path(path)
    try:
        found = msgspec.convert(tomllib.loads(where.read_text("utf-8")), prepared(_File))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, msgspec.ValidationError) as error:
        raise InvalidRequest(f"{where}: {error}") from None
    routes = Routes(
        Route(name, table.targets(), record=table.record, drain=table.drain, other_paths=table.other_paths)
        for name, table in found.models.items()
    )
    settings = Settings(
        routes,
        found.listen,
        _place_of_store(where, os.environ.get(_STORE_VARIABLE) or found.store),
        found.keys,
        found.limits,
        found.max_body_bytes,
        found.metrics,
        None if found.keep_log is None else duration_s(found.keep_log),
        found.tags,
        msgspec.structs.replace(found.recordings, folder=str(where.parent / found.recordings.folder)),
        found.telemetry,
    )
    _check(where, settings)
    return settings


def _place_of_store(where: Path, store: str) -> str:
    if "://" in store:
        return store
    return str(where.parent / (sqlite_path(store) or store))


def _check(where: Path, settings: Settings) -> None:
    """raises: InvalidRequest that names the route."""
    _ = settings.address
    if settings.keep_log_s is not None and settings.keep_log_s < _DAY_S:
        raise InvalidRequest(f"{where}: keep_log is at least 1d, because budgets look back a day")
    for budget in settings.tags.values():
        read_budget(budget)
    if not settings.routes.all:
        raise InvalidRequest(f"{where}: [models] has no route")
    for route in settings.routes.all:
        if not route.targets:
            raise InvalidRequest(f"{where}: models.{route.pattern!r}: `use` has no model")
        for target in route.targets:
            try:
                provider, colon, model = target.model.partition(":")
                if not (provider and colon and model):
                    raise InvalidRequest(f'{target.model!r} is not "provider:model"')
                # Checked at the start, not at the first request hours later.
                find_provider(provider, model)
                if _WILD in model and _WILD not in route.pattern:
                    raise InvalidRequest(f"{target.model!r} needs a pattern with *")
                if target.base_url is not None:
                    find_provider(provider).address(target.base_url)
            except LLMStreamError as error:
                raise InvalidRequest(f"{where}: models.{route.pattern!r}: {error.message}") from None


def sibling_providers(name: str) -> list[str]:
    """Returns providers of the same vendor on its other wires, by their names: openai, openai-responses."""
    names = our_provider_names()
    base = name
    for suffix in _WIRES_OF_A_VENDOR:
        base = base.removesuffix(suffix)
    return [
        one
        for one in (base, *(base + suffix for suffix in _WIRES_OF_A_VENDOR))
        if one in names and one != name
    ]


_WIRES_OF_A_VENDOR: Final = ("-chat", "-responses", "-anthropic", "-interactions")
