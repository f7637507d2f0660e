"""`python launch.py SERVER PORT`: runs the applications of this folder on a web server, until terminated."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

import applications


def uvicorn(port: int, http: str) -> None:
    import uvicorn

    uvicorn.run(applications.asgi_application(), port=port, http=http, ws="none", log_level="warning")


def hypercorn(port: int) -> None:
    from hypercorn.asyncio import serve
    from hypercorn.config import Config

    config = Config()
    config.bind = [f"127.0.0.1:{port}"]
    asyncio.run(serve(applications.asgi_application(), config))  # type: ignore[arg-type]


def granian(port: int) -> None:
    from granian.constants import Interfaces
    from granian.server.embed import Server

    asyncio.run(Server(applications.asgi_application(), port=port, interface=Interfaces.ASGI).serve())


def aiohttp(port: int) -> None:
    from aiohttp import web

    web.run_app(applications.aiohttp_application(), host="127.0.0.1", port=port, print=None)


def waitress(port: int) -> None:
    import waitress

    waitress.serve(
        applications.wsgi_application(), host="127.0.0.1", port=port, threads=8, channel_request_lookahead=1
    )


def gunicorn(port: int, worker: str) -> None:
    from gunicorn.app.base import BaseApplication

    class Site(BaseApplication):
        def load_config(self) -> None:
            options = {"bind": f"127.0.0.1:{port}", "worker_class": worker, "workers": 1, "threads": 8}
            # Preloaded: the worker is forked from a process that has imported, and used, everything.
            options |= {"preload_app": True, "loglevel": "warning", "graceful_timeout": 1}
            for name, value in options.items():
                self.cfg.set(name, value)

        def load(self) -> object:
            return applications.wsgi_application()

    Site().run()


SERVERS = {
    "uvicorn-h11": lambda port: uvicorn(port, "h11"),
    "uvicorn-httptools": lambda port: uvicorn(port, "httptools"),
    "hypercorn": hypercorn,
    "granian": granian,
    "aiohttp": aiohttp,
    "waitress": waitress,
    "gunicorn-gthread": lambda port: gunicorn(port, "gthread"),
}

if __name__ == "__main__":
    SERVERS[sys.argv[1]](int(sys.argv[2]))
