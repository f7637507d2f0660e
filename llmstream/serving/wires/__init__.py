"""The server side of every dialect, a folder each: `reader` reads requests, `writer` writes responses.

`server_side(dialect)` finds it. What the vendor refuses beyond the shape of a request is in `checks`.
"""

from __future__ import annotations

from importlib import import_module

from llmstream.dialects.base import Dialect
from llmstream.dialects.names import DIALECTS
from llmstream.errors import Unsupported
from llmstream.serving.wires.base import EventEncoder, ServerSide

__all__ = ["EventEncoder", "ServerSide", "server_side"]


def server_side(dialect: Dialect, *, provider: str | None = None) -> ServerSide:
    """The server side of a dialect, with the same quirks.

    provider: key in `provider_options` of request fields that no option of ours stands for; by default
              the vendor's own name
    raises:   Unsupported for a dialect that has no server side here
    """
    folder = dialect.name.replace("-", "_")
    if dialect.name not in DIALECTS:
        raise Unsupported(f"the dialect {dialect.name} has no server side; give a ServerSide instead.")
    module = import_module(f"{__name__}.{folder}")
    keyed = {"provider": provider} if provider is not None and folder.startswith("openai") else {}
    side: ServerSide = module.server_side(dialect, **keyed)
    return side
