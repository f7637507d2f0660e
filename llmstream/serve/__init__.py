"""Serves a stream or a run to browsers and other clients: response bodies for every Python web server.

`Body` is a response without a server: status, headers, and an async iterator of bytes. `respond` of
`serve.starlette` (FastAPI too), `serve.aiohttp`, `serve.asgi` (Litestar and others), `serve.django` or
`serve.wsgi` sends it.
"""

from llmstream.serve.body import Body, Source
from llmstream.serve.encoding import status_of
from llmstream.serve.writers import UNBUFFERED, SSEWriter, TextWriter, Writer

__all__ = ["UNBUFFERED", "Body", "SSEWriter", "Source", "TextWriter", "Writer", "status_of"]
