"""A server for pages, in a process that tests kill and start again."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress
from pathlib import Path

from aiohttp import web

ROOT = Path(__file__).resolve().parents[2]


async def serve_on_a_free_port(application: web.Application) -> None:
    """What the process does: it says its port, and serves until it is killed."""
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.Event().wait()


class Server:
    """The process, which is there again some time after it was killed.

    module: the program, which is given the folder
    path:   of its url
    """

    def __init__(self, module: str, folder: Path, path: str = "") -> None:
        self.folder, self.url, self.kills = folder, "", 0
        self._module, self._path = module, path
        self.up = asyncio.Event()
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        with (self.folder / "errors").open("a") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", self._module, str(self.folder)),
                cwd=ROOT,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
            )
        assert self._process.stdout is not None
        self.url = f"http://127.0.0.1:{int(await self._process.stdout.readline())}{self._path}"
        self.up.set()

    async def kill(self) -> None:
        assert self._process is not None
        self.up.clear()
        self.kills += 1
        with suppress(ProcessLookupError):  # a kill that was cancelled while it waited
            self._process.kill()
        await self._process.wait()
