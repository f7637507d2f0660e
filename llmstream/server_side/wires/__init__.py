"""The server side of every dialect, one folder each: `reader` reads requests, `writer` writes responses.

`server_side(dialect)` finds it. `checks` rejects valid JSON that the vendor would reject.
"""

from __future__ import annotations

from importlib import import_module

from llmstream.dialects.base import Dialect
from llmstream.dialects.names import DIALECTS
from llmstream.errors import Unsupported
from llmstream.server_side.wires.base import EventEncoder, ServerSide

__all__ = ["EventEncoder", "ServerSide", "server_side"]


def server_side(dialect: Dialect) -> ServerSide:
    """Returns the server side of a dialect, with the same quirks.

    raises: Unsupported for a dialect without a server side
    """
    if dialect.name not in DIALECTS:
        raise Unsupported(f"the dialect {dialect.name} has no server side. Pass a ServerSide instead.")
    module = import_module(f"{__name__}.{dialect.name.replace('-', '_')}")
    side: ServerSide = module.server_side(dialect)
    return side
