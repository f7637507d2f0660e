"""Stored API keys: in the system's keyring if there is one, else in a file that only its owner can read.

A key is stored under the environment variable that it stands in for, such as OPENAI_API_KEY, so
that the providers of one vendor share it. The variable itself takes precedence. The file has the names of all
stored keys, and null for those in the keyring: the keyring is read only for a key that is in it.
"""

from __future__ import annotations

import functools
import importlib
import os
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from llmstream.cli.config import config_file, read_json, write_json
from llmstream.cli.terminal import print_message
from llmstream.errors import InvalidRequest
from llmstream.providers.base import Provider
from llmstream.providers.registry import find_provider

__all__ = [
    "Place",
    "api_key_for",
    "in_environment",
    "key_variables",
    "keys_path",
    "remove_key",
    "store_key",
    "stored_places",
]

Place: TypeAlias = Literal["keyring", "file"]

# Name of our entries in the keyring.
_SERVICE: Final = "llmstream"


def keys_path() -> Path:
    """Returns the path of the file."""
    return config_file("keys.json")


def key_variables(provider: Provider) -> tuple[str, ...]:
    """Returns the environment variables that may hold the provider's key or token, preferred first."""
    return (*provider.key_env, *provider.token_env)


def in_environment(provider: Provider) -> str:
    """Returns the variable that is set and holds the provider's key, or ""."""
    return next((name for name in key_variables(provider) if os.environ.get(name, "").strip()), "")


def stored_places() -> dict[str, Place]:
    """Returns the variables that have a stored key, and where each is."""
    return {name: "keyring" if key is None else "file" for name, key in _read().items()}


def api_key_for(spec: str) -> str | None:
    """Returns the stored key for a model, for `Model(api_key=...)`.

    spec:    "provider:model" or "provider"
    returns: None if none is stored, or if the environment has one, which takes precedence
    raises:  InvalidRequest for an unknown provider, or if the key cannot be read
    """
    provider = find_provider(spec.partition(":")[0])
    if in_environment(provider):
        return None
    stored = _read()
    # A token is sent in another header than a key, and Model(api_key=) sends a key.
    name = next((name for name in provider.key_env if name in stored), None)
    if name is None:
        return None
    key = stored[name]
    return _from_keyring(name) if key is None else key


def store_key(name: str, key: str, *, file: bool = False) -> Place:
    """Stores a key and returns where.

    name: the environment variable that it stands in for
    file: do not use the keyring
    """
    stored = _read()
    ring = None if file else _usable_keyring()
    if ring is None:
        # Otherwise the older key would stay in the keyring unnoticed.
        if stored.get(name, "") is None:
            _delete_from_keyring(name)
        write_json(keys_path(), {**stored, name: key})
        return "file"
    try:
        ring.set_password(_SERVICE, name, key)
    # Backends raise errors of their own, such as of D-Bus.
    except Exception as error:
        raise InvalidRequest(
            f"the system keyring refused the key ({type(error).__name__}). To use a file: add --file."
        ) from None
    # After the keyring: a name in the file without a stored key could not be read.
    write_json(keys_path(), {**stored, name: None})
    return "keyring"


def remove_key(name: str) -> bool:
    """Removes a stored key; returns whether there was one."""
    stored = _read()
    if name not in stored:
        return False
    if stored.pop(name) is None:
        _delete_from_keyring(name)
    write_json(keys_path(), stored)
    return True


def _read() -> dict[str, str | None]:
    path = keys_path()
    try:
        state = path.stat()
    except OSError:
        return {}
    # A copy: callers change it.
    return dict(_content(path, state.st_mode, state.st_mtime_ns, state.st_ino))


@functools.lru_cache(maxsize=1)
def _content(path: Path, mode: int, *_version: int) -> dict[str, str | None]:
    """Reads the file once for each version of it; warns if other users can read it."""
    if sys.platform != "win32" and mode & (stat.S_IRWXG | stat.S_IRWXO):
        print_message(f"warning: other users can read {path}. Run: chmod 600 {path}")
    return read_json(path, dict[str, str | None], {})


def _usable_keyring() -> Any:
    """Returns the keyring module if it is installed and has a secure backend, else None."""
    try:
        keyring = importlib.import_module("keyring")
        # 0 and below: no backend; below 1: files that are not encrypted.
        return keyring if keyring.get_keyring().priority >= 1 else None
    # A broken backend must not prevent storing in the file.
    except Exception:
        return None


def _from_keyring(name: str) -> str:
    ring = _usable_keyring()
    try:
        key = ring.get_password(_SERVICE, name) if ring is not None else None
    # As above: backends raise errors of their own.
    except Exception:
        key = None
    if not isinstance(key, str):
        raise InvalidRequest(
            f"the key for {name} is in the system keyring, which cannot be read now. Unlock it, set {name}, "
            "or store the key again with llmstream keys set."
        )
    return key


def _delete_from_keyring(name: str) -> None:
    ring = _usable_keyring()
    if ring is not None:
        # It may have been deleted with the system's own tool.
        with suppress(Exception):
            ring.delete_password(_SERVICE, name)
