"""Types whose first use is in a function: one thread at a time prepares them.

msgspec 0.22 reads the fields of a Struct when it is first decoded to. Two threads that do so at once, such as
two event loops in one process, end the process with a segmentation fault. Decoders that a module makes when
it is imported need nothing: an import has a lock.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any, Final, TypeVar, overload

import msgspec

__all__ = ["make_decoder", "prepared"]

T = TypeVar("T")

_lock: Final = threading.RLock()


@overload
def make_decoder(
    kind: type[T], *, dec_hook: Callable[[type, Any], Any] | None = None
) -> msgspec.json.Decoder[T]: ...


@overload
def make_decoder(
    kind: Any, *, dec_hook: Callable[[type, Any], Any] | None = None
) -> msgspec.json.Decoder[Any]: ...


def make_decoder(
    kind: Any, *, dec_hook: Callable[[type, Any], Any] | None = None
) -> msgspec.json.Decoder[Any]:
    """Makes a decoder of a type that another thread may use for the first time, too."""
    with _lock:
        return msgspec.json.Decoder(kind, dec_hook=dec_hook)


def prepared(kind: type[T]) -> type[T]:
    """Returns a type, for `msgspec.convert`, or `type=` of `msgspec.json.decode`."""
    found: Any = kind
    try:
        _prepare(found)
    except TypeError:  # a type without a hash, or one that msgspec does not support
        pass
    return kind


# Bounded: types may be made while a program runs.
@functools.lru_cache(maxsize=1024)
def _prepare(kind: Any) -> None:
    # Types that msgspec does not know are left to a hook.
    make_decoder(kind, dec_hook=lambda kind, value: value)
