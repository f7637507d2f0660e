"""API keys: stored in the system's keyring if there is one, else in a file that only its owner can read.

A key is stored under the environment variable that it stands in for, such as OPENAI_API_KEY, so
that the providers of one vendor share it. The variable itself takes precedence. The file has the names of all
stored keys, and null for those in the keyring: the keyring is read only for a key that is in it.

`llmstream keys` stores, lists and removes them. It never prints one.
"""

from __future__ import annotations

import argparse
import functools
import importlib
import os
import re
import stat
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from llmstream.cli.config import config_file, read_json, write_json
from llmstream.cli.errors import SUCCESS
from llmstream.cli.terminal import print_message, wrapped, write_bytes
from llmstream.errors import InvalidRequest
from llmstream.providers.base import Provider
from llmstream.providers.likely_models import likely_models
from llmstream.providers.registry import all_providers, find_provider, provider_names

__all__ = [
    "Place",
    "api_key_for",
    "configure",
    "in_environment",
    "key_variables",
    "keys_path",
    "remove_key",
    "run",
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


# The command.

_EPILOG: Final = """\
set reads the key from the terminal without showing it, or from standard input. It goes to the
system keyring if the package keyring is installed and has a secure backend, else to a file that
only you can read. An environment variable takes precedence
over a stored key.

Stored keys are for the llmstream commands. The Python library does not read them: it takes keys
from the environment and from api_key=.

exit status: 0 success, 2 usage error, 130 interrupted (Ctrl-C), 141 the reader of the pipe closed it

examples:
  llmstream keys set openai                   asks for the key
  pass show openai | llmstream keys set openai
  llmstream keys list
  llmstream keys remove openai
  llmstream keys path                         prints the path of the file
"""

# Tokens of clouds have some thousand; a file given by mistake has more.
_MAX_KEY_CHARS: Final = 16_384
# A longer argument may be a key, and is not repeated in an error.
_PROVIDER: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")


def configure(parser: argparse.ArgumentParser) -> None:
    """Adds the command's arguments."""
    parser.epilog = _EPILOG
    parser.add_argument("action", choices=("set", "list", "path", "remove"), help="what to do")
    parser.add_argument("provider", metavar="PROVIDER", nargs="?", help="name of a provider, such as openai")
    # Takes all remaining arguments, so that a key given by mistake is not repeated in argparse's error.
    parser.add_argument("rest", nargs="*", help=argparse.SUPPRESS)
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="with list: print a JSON array")
    output.add_argument("-q", "--quiet", action="store_true", help="with list: print providers alone")
    parser.add_argument("--file", action="store_true", help="store in the file, even if there is a keyring")


def run(arguments: argparse.Namespace) -> int:
    """Runs one action."""
    if arguments.rest:
        raise InvalidRequest(
            "too many arguments. A key is never given as an argument: the shell's history and the list of "
            "processes would show it. Run `llmstream keys set PROVIDER`, which asks for it."
        )
    match arguments.action:
        case "set":
            _set(_provider(arguments.provider), file=arguments.file)
        case "remove":
            _remove(_provider(arguments.provider))
        case "path":
            print(keys_path())
        case _:
            _list(as_json=arguments.json, quiet=arguments.quiet)
    return SUCCESS


def _provider(name: str | None) -> Provider:
    """Finds a provider that has a key.

    raises: InvalidRequest, which repeats the name only if it cannot be a key
    """
    if not name:
        raise InvalidRequest("name a provider, such as openai; `llmstream providers` lists all")
    known = name.strip().lower().replace("_", "-")
    try:
        provider = find_provider(known)
    except InvalidRequest:
        shown = f" {known!r}" if _PROVIDER.fullmatch(known) and not known.startswith("sk-") else ""
        near = [model.partition(":")[0] for model in likely_models(f"{known}:MODEL")]
        hint = f"Did you mean {' or '.join(near)}? " if near and near[0] in provider_names() else ""
        raise InvalidRequest(f"unknown provider{shown}. {hint}`llmstream providers` lists all.") from None
    if not provider.key_env:
        raise InvalidRequest(f"{provider.name} takes no API key; see `llmstream providers {provider.name}`.")
    return provider


def _set(provider: Provider, *, file: bool) -> None:
    name = provider.key_env[0]
    place = store_key(name, _read_key(provider), file=file)
    where = "the system keyring" if place == "keyring" else str(keys_path())
    print(wrapped(f"Stored the key for {provider.name} in {where}."))
    found = in_environment(provider)
    if found:
        print_message(f"warning: {found} is set in the environment and takes precedence over the stored key")


def _read_key(provider: Provider) -> str:
    """Reads the key, without echo from a terminal.

    raises: InvalidRequest for a text that cannot be a key; the message does not show it
    """
    if sys.stdin.isatty():
        try:
            import getpass  # only for the command

            text = getpass.getpass(f"Key for {provider.name} (not shown): ")
        except EOFError:
            text = ""
    else:
        # One character more detects a longer text without reading it all.
        text = sys.stdin.read(_MAX_KEY_CHARS + 1)
    key = text.strip()
    if not key:
        raise InvalidRequest("no key was given, and nothing was stored")
    # Otherwise each request would fail later with an unrelated error.
    if len(key) > _MAX_KEY_CHARS or not (key.isascii() and key.isprintable()) or " " in key:
        raise InvalidRequest(
            "this is not a key: a key is one line of ASCII without spaces. Nothing was stored."
        )
    return key


def _remove(provider: Provider) -> None:
    # A provider may read several variables.
    found = [name for name in provider.key_env if remove_key(name)]
    if not found:
        raise InvalidRequest(
            f"no key is stored for {provider.name}; `llmstream keys list` lists those that are"
        )
    print(f"Removed the key for {provider.name}.")


class _Stored(msgspec.Struct, frozen=True, rename="camel"):
    """One stored key in JSON; never the key.

    variable:      environment variable that the key stands in for
    place:         "keyring" or "file"
    overridden_by: environment variable that overrides it, or None
    """

    provider: str | None
    variable: str
    place: str
    overridden_by: str | None


def _list(*, as_json: bool, quiet: bool) -> None:
    """Prints one line for each stored key: its provider, its variable, its place."""
    stored = _stored()
    if as_json:
        write_bytes(msgspec.json.format(msgspec.json.encode(stored), indent=2) + b"\n")
        return
    if quiet:
        print("".join(f"{key.provider}\n" for key in stored if key.provider), end="")
        return
    if not stored:
        print(wrapped("No keys are stored. To store one: llmstream keys set openai"))
        return
    names = max(len(key.provider or "?") for key in stored)
    variables = max(len(key.variable) for key in stored)
    for key in stored:
        hidden = f" ({key.overridden_by} is set and wins)" if key.overridden_by else ""
        print(f"{key.provider or '?':<{names}}  {key.variable:<{variables}}  {key.place}{hidden}")


def _stored() -> list[_Stored]:
    # Of the names that share a key, the shortest is the vendor's own.
    providers = sorted(all_providers(), key=lambda provider: (len(provider.name), provider.name))
    found = []
    for variable, place in stored_places().items():
        owner = next((provider for provider in providers if variable in key_variables(provider)), None)
        wins = (in_environment(owner) or None) if owner else None
        found.append(_Stored(owner.name if owner else None, variable, place, wins))
    return sorted(found, key=lambda key: (key.provider or "?", key.variable))
