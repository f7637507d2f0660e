"""A gateway: clients of every vendor's API, answered by any model.

`Gateway(routes)` is an ASGI application (`.asgi`), an application of aiohttp.web (`.aiohttp()`), or a
function from request to response (`.answer`). `llmstream gateway FILE` runs one from a file.
"""

from llmstream.gateway.gateway import Gateway
from llmstream.gateway.ledger import Budget, Key, Ledger, open_ledger
from llmstream.gateway.routes import Limits, Price, Route, Routes, Target, load_settings
from llmstream.gateway.running import asgi, gateway_of
from llmstream.gateway.telemetry import Telemetry

__all__ = [
    "Budget",
    "Gateway",
    "Key",
    "Ledger",
    "Limits",
    "Price",
    "Route",
    "Routes",
    "Target",
    "Telemetry",
    "asgi",
    "gateway_of",
    "load_settings",
    "open_ledger",
]
