"""What every provider stands on: the `Provider` type, credentials, addresses and routes.

A vendor's module takes all it needs from here.
"""

from llmstream.providers.base.address import (
    Route,
    checked_address,
    extended,
    filled,
    is_local,
    join,
    path_segment,
    split_address,
    version_of,
    versioned,
    versioned_host,
    with_path,
    without_version,
)
from llmstream.providers.base.provider import (
    Auth,
    ChooseWire,
    Provider,
    Sign,
    Wire,
    bearer,
    key_header,
    no_auth,
)

__all__ = [
    "Auth",
    "ChooseWire",
    "Provider",
    "Route",
    "Sign",
    "Wire",
    "bearer",
    "checked_address",
    "extended",
    "filled",
    "is_local",
    "join",
    "key_header",
    "no_auth",
    "path_segment",
    "split_address",
    "version_of",
    "versioned",
    "versioned_host",
    "with_path",
    "without_version",
]
