"""The SDKs: which are installed, in which version, and what their readers find in them."""

from __future__ import annotations

import importlib
import importlib.metadata
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from drift.packages import SDKS
from drift.wires import Wire

__all__ = ["Sdk", "meaningless", "read", "version_of"]

_MEANINGLESS = Path(__file__).with_name("meaningless.toml")


class Sdk(NamedTuple):
    """What was found in one SDK.

    version: None where it is not installed
    trouble: why its reader gave up: the SDK has moved its types; None otherwise
    """

    package: str
    version: str | None
    wires: tuple[Wire, ...] = ()
    trouble: str | None = None


def read(packages: tuple[str, ...] = tuple(SDKS)) -> Iterator[Sdk]:
    """Every SDK in turn. One that is not installed has no version."""
    for package in packages:
        version = version_of(package)
        if version is None:
            yield Sdk(package, None)
            continue
        try:
            reader = importlib.import_module(f"drift.vendors.{SDKS[package]}")
            yield Sdk(package, version, tuple(reader.wires(meaningless())))
        except (ImportError, AttributeError, KeyError, AssertionError) as error:
            trouble = (
                f"{package} {version} has moved its types ({type(error).__name__}: {error}). "
                f"Look for them and edit drift/vendors/{SDKS[package]}.py."
            )
            yield Sdk(package, version, trouble=trouble)


def version_of(package: str) -> str | None:
    """The installed version, or None."""
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def meaningless() -> Mapping[str, Mapping[str, str]]:
    """Wire to patterns of what is left out by design, with the reasons."""
    with _MEANINGLESS.open("rb") as file:
        return tomllib.load(file)
