"""Finds problems in a gateway's file, without sending a request."""

from __future__ import annotations

import os
from collections.abc import Iterator

from llmstream.errors import LLMStreamError, MissingKey
from llmstream.gateway.routes import Route, Settings, Target
from llmstream.gateway.running import ledger_of
from llmstream.providers.registry import find_provider
from llmstream.server_side.local_only import is_loopback

__all__ = ["problems_of"]


def problems_of(settings: Settings) -> list[str]:
    """Returns what would fail: missing keys of vendors, a store that does not answer, an open address without
    keys."""
    unreachable = [*_store(settings)]
    return [*_missing_keys(settings), *unreachable, *([] if unreachable else _address(settings))]


def _missing_keys(settings: Settings) -> Iterator[str]:
    for route in settings.routes.all:
        for target in route.targets:
            problem = _missing_key(route, target)
            if problem:
                yield problem


def _missing_key(route: Route, target: Target) -> str:
    provider = find_provider(target.model.partition(":")[0])
    variable = target.api_key_env
    if variable is not None:
        set_ = os.environ.get(variable)
        return "" if set_ else f"{route.pattern}: {target.model}: the variable {variable} is not set"
    try:
        provider.key(None)
        provider.address(target.base_url)
    except MissingKey as error:
        # Without a key, requests are signed.
        return "" if provider.sign is not None else f"{route.pattern}: {target.model}: {_for_a_file(error)}"
    except LLMStreamError as error:
        return f"{route.pattern}: {target.model}: {error.message}"
    return ""


def _for_a_file(error: MissingKey) -> str:
    """The message, with a remedy for the file instead of one for a program."""
    return error.message.replace(" or pass api_key=", ', or name its variable: api_key_env = "..."')


def _address(settings: Settings) -> Iterator[str]:
    host, _ = settings.address
    if is_loopback(host):
        return
    if settings.keys == "none":
        yield f'listen = "{settings.listen}" is open to other machines; keys = "none" is for loopback only'
    if not _has_keys(settings):
        yield (
            f'listen = "{settings.listen}" is open to other machines, and there is no key yet. Add one: '
            "llmstream gateway keys add NAME"
        )


def _has_keys(settings: Settings) -> bool:
    if "://" not in settings.store and not os.path.exists(settings.store):
        return False  # and must not be created by the check
    ledger = ledger_of(settings)
    try:
        return ledger.has_keys
    finally:
        ledger.close()


def _store(settings: Settings) -> Iterator[str]:
    if "://" in settings.store:
        try:
            ledger_of(settings).close()
        except LLMStreamError as error:
            yield error.message
