"""A PostgreSQL server of the tests' own, from Debian's package; without it they are skipped."""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

NO_POSTGRES = "PostgreSQL is not installed (apt-get install postgresql)"
NO_DRIVER = "the extra `postgres` is not installed"


def binaries() -> Path | None:
    """The folder of the newest server."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    return found[-1].parent if found else None


class PostgresServer:
    """A server on a socket in a folder, that can be killed and started again.

    It refuses to run as root, so it runs as the user of Debian's package then.
    """

    def __init__(self, folder: Path) -> None:
        bin_folder = binaries()
        assert bin_folder is not None
        self._bin = bin_folder
        self._user = "postgres" if os.geteuid() == 0 else None
        self._folder, self._data = folder, folder / "data"
        if self._user is not None:
            os.chmod(folder, 0o711)
            os.chown(folder, pwd.getpwnam(self._user).pw_uid, -1)
        self._run("initdb", "--no-sync", "--auth=trust", "--username=test", "--pgdata", str(self._data))
        self.start()

    def _run(self, program: str, *arguments: str) -> None:
        subprocess.run(
            [str(self._bin / program), *arguments],
            user=self._user,
            cwd=self._folder,
            check=True,
            timeout=120,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
        )

    def start(self) -> None:
        options = f"-c listen_addresses= -c unix_socket_directories={self._folder} -c fsync=off"
        arguments = ("--pgdata", str(self._data), "--log", str(self._folder / "log"), "--options", options)
        self._run("pg_ctl", "start", "--wait", *arguments)

    def stop(self) -> None:
        self._run("pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata", str(self._data))

    def database(self, name: str) -> str:
        """Makes an empty database; returns its address."""
        self._run("createdb", "--host", str(self._folder), "--username", "test", name)
        return f"postgresql://test@/{name}?host={self._folder}"


def started() -> PostgresServer:
    """A server in a folder with a path that is short enough for a socket; skips the test without one."""
    if binaries() is None:
        pytest.skip(NO_POSTGRES)
    if importlib.util.find_spec("psycopg") is None:
        pytest.skip(NO_DRIVER)
    return PostgresServer(Path(tempfile.mkdtemp(prefix="pg")))


def removed(server: PostgresServer) -> None:
    """Stops a server and deletes its folder."""
    server.stop()
    shutil.rmtree(server._folder, ignore_errors=True)
