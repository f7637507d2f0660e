"""The server side of every dialect, one folder each: `reader` reads requests, `writer` writes responses.

`server_side(dialect)` finds it. `checks` rejects valid JSON that the vendor would reject.
"""

from __future__ import annotations

from importlib import import_module

from llmstream.dialects.base import Dialect
from llmstream.dialects.names import DIALECTS
from llmstream.errors import Unsupported
from llmstream.serving.wires.base import EventEncoder, ServerSide

__all__ = ["EventEncoder", "ServerSide", "server_side"]


def server_side(dialect: Dialect, *, provider: str | None = None) -> ServerSide:
    """Returns the server side of a dialect, with the same quirks.

    provider: key in `provider_options` for fields without an option of ours; by default the vendor's name
    raises:   Unsupported for a dialect without a server side
    """
    folder = dialect.name.replace("-", "_")
    if dialect.name not in DIALECTS:
        raise Unsupported(f"the dialect {dialect.name} has no server side. Pass a ServerSide instead.")
    module = import_module(f"{__name__}.{folder}")
    keyed = {"provider": provider} if provider is not None and folder.startswith("openai") else {}
    side: ServerSide = module.server_side(dialect, **keyed)
    return side
