"""The user's configuration: its folder, and the default model; names of models that are checked.

    $XDG_CONFIG_HOME/llmstream, else ~/.config/llmstream; %APPDATA%\\llmstream on Windows
    config.json  the default model, as `llmstream models default` writes it
    keys.json    API keys, as `llmstream keys set` writes them

Only the command line reads these files; the library takes keys from its caller and the environment.
source: XDG Base Directory Specification 0.8
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from llmstream.errors import InvalidRequest
from llmstream.files import replace_file
from llmstream.first_use import prepared
from llmstream.providers.likely_models import did_you_mean, likely_models
from llmstream.providers.registry import find_provider

__all__ = [
    "MODEL_HELP",
    "Config",
    "checked_model",
    "config_file",
    "default_model",
    "read_json",
    "stored_model",
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


# Checks model names of the form "provider:model".


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
