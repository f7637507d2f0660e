"""The user's configuration, and the names that commands take: of models, and of dialects.

    $XDG_CONFIG_HOME/llmstream, else ~/.config/llmstream; %APPDATA%\\llmstream on Windows
    config.json  the default model, as `llmstream models default` writes it
    keys.json    API keys, as `llmstream keys set` writes them

Only the command line reads these files; the library takes keys from its caller and the environment.
source: XDG Base Directory Specification 0.8
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from llmstream.dialects.base import DIALECTS, Dialect, dialect_class
from llmstream.errors import InvalidRequest
from llmstream.files import replace_file
from llmstream.first_use import prepared
from llmstream.providers.likely_models import did_you_mean, likely_models
from llmstream.providers.registry import find_provider

__all__ = [
    "INVENTORS",
    "MODEL_HELP",
    "SIMULATED",
    "Config",
    "Wire",
    "base_url",
    "checked_model",
    "config_file",
    "default_model",
    "read_json",
    "stored_model",
    "wire_of",
    "write_default",
    "write_json",
]


T = TypeVar("T")

MODEL_HELP: Final = "model to use (default: $LLMSTREAM_MODEL, else that of `llmstream models default`)"
"""Help of the option --model."""


class Config(msgspec.Struct, omit_defaults=True):
    """Content of config.json.

    model: "provider:model", or ""
    """

    model: str = ""


def config_file(name: str) -> Path:
    """Returns the path of a file in the folder; creates nothing."""
    given = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification demands that relative paths are ignored.
    if os.path.isabs(given):
        base = Path(given)
    elif sys.platform == "win32" and os.environ.get("APPDATA"):
        base = Path(os.environ["APPDATA"])
    else:
        base = Path(os.path.expanduser("~")) / ".config"
    return base / "llmstream" / name


def default_model() -> str:
    """Returns the model of $LLMSTREAM_MODEL, else the stored one, else ""."""
    return os.environ.get("LLMSTREAM_MODEL", "").strip() or stored_model()


def stored_model() -> str:
    """Returns the model that `llmstream models default` stored, or ""."""
    return read_json(config_file("config.json"), Config, Config()).model


def write_default(model: str) -> None:
    """Stores the default model; "" removes it."""
    write_json(config_file("config.json"), Config(model))


def read_json(path: Path, form: type[T], missing: T) -> T:
    """Reads a file of the folder; returns `missing` if it does not exist.

    raises: InvalidRequest if it cannot be read or decoded; the message does not quote its content
    """
    try:
        data = path.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return missing
    except OSError as error:
        raise InvalidRequest(f"cannot read {path}: {error.strerror or error}") from None
    try:
        return msgspec.json.decode(data, type=prepared(form))
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise InvalidRequest(f"{path} is damaged. Correct or delete it.") from None


def write_json(path: Path, value: object) -> None:
    """Replaces a file in one step, mode 0600, in a folder of mode 0700.

    raises: InvalidRequest if it cannot be written
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        replace_file(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
    except OSError as error:
        raise InvalidRequest(f"cannot write {path}: {error.strerror or error}") from None


# Names of models, of the form "provider:model".


def checked_model(spec: str) -> str:
    """Returns the name if it has a known provider and a model.

    raises: InvalidRequest that suggests likely names
    """
    name, colon, model = spec.partition(":")
    if name and colon and model.strip():
        try:
            find_provider(name)
        except InvalidRequest as error:
            found = likely_models(spec)
            if not found:
                raise
            raise InvalidRequest(
                f"unknown provider {name!r}. {did_you_mean(found)}`llmstream providers` lists all."
            ) from error
        return spec
    found = likely_models(spec)
    example = "" if found else ", such as openai:gpt-5-mini"
    raise InvalidRequest(
        f"{spec!r} does not name a provider. {did_you_mean(found)}Write provider:model{example}; "
        "`llmstream providers` lists the providers."
    )


# Dialects by name, with the quirks of a provider if one is given, and their simulated addresses.

INVENTORS: Final[Mapping[str, str]] = {
    "openai-chat": "openai",
    "openai-responses": "openai-responses",
    "anthropic": "anthropic",
    "gemini": "google",
    "gemini-interactions": "google-interactions",
    "bedrock-converse": "bedrock",
    "cohere": "cohere",
    "mistral": "mistral",
    "ollama": "ollama",
}
"""Name of a dialect to the provider that invented it. A new dialect is one line here."""

# Clouds that serve another vendor's API: (dialect, provider) to the dialect's arguments.
_HOSTED: Final[Mapping[tuple[str, str], Mapping[str, Any]]] = {
    ("anthropic", "bedrock-invoke"): {"framing": "aws-event-stream"},
    ("anthropic", "vertex"): {},
}


SIMULATED: Final[Mapping[str, str]] = {
    "openai-chat": "/v1",
    "openai-responses": "/v1",
    "anthropic": "",
    "gemini": "/v1beta",
    "gemini-interactions": "/v1beta",
    "bedrock-converse": "",
    "cohere": "",
    "mistral": "/mistral",
    "ollama": "",
}
"""Dialects of the simulator: name to the path in the base URL of its clients."""


class Wire(NamedTuple):
    """A dialect with the quirks of one provider.

    warning: why the provider's quirks are missing, or None
    """

    dialect: Dialect
    provider: str
    warning: str | None = None


def wire_of(name: str, provider: str | None) -> Wire:
    """Returns the dialect of that name, with the quirks of the provider or else of its inventor.

    An unknown provider only gives a warning.
    raises: InvalidRequest for an unknown dialect
    """
    if name not in DIALECTS:
        raise InvalidRequest(f"unknown dialect {name!r}. Dialects: {', '.join(DIALECTS)}.")
    make = dialect_class(name)
    if provider is None:
        return Wire(make(), INVENTORS[name])
    hosted = _HOSTED.get((name, provider))
    if hosted is not None:
        return Wire(make(**hosted), provider)
    try:
        known = find_provider(provider)
    # Recordings may be older than a provider, or of another package: the dialect suffices to decode.
    except InvalidRequest:
        return Wire(make(), provider, f"unknown provider {provider!r}; decoding as plain {name}")
    if known.dialect.name != name:
        speaks = f"{provider} speaks {known.dialect.name}, not {name}; decoding as plain {name}"
        return Wire(make(), provider, speaks)
    return Wire(known.dialect, known.name)


def base_url(url: str, dialect: str) -> str:
    """Returns the base URL for a client of that dialect at a simulator."""
    return url + SIMULATED[dialect]
