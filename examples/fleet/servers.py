"""A private redis-server and a private PostgreSQL in a temporary folder, from Debian's packages.

They listen on Unix sockets only, keep nothing, and end with the block.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redis_server() -> Iterator[str]:
    """Starts a server; gives its address."""
    if shutil.which("redis-server") is None:
        sys.exit("redis-server is not installed: apt-get install redis-server, or pass --redis ADDRESS")
    with tempfile.TemporaryDirectory(prefix="redis") as folder:
        path = f"{folder}/redis.sock"
        options = ["--port", "0", "--unixsocket", path, "--dir", folder, "--save", ""]
        server = subprocess.Popen(["redis-server", *options], stdout=subprocess.DEVNULL)
        try:
            _wait_for(path)
            yield f"unix://{path}"
        finally:
            server.terminate()
            server.wait()


def _wait_for(path: str) -> None:
    for _ in range(1_000):
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(path)
            client.sendall(b"PING\r\n")
            if client.recv(64).startswith(b"+PONG"):
                return
        time.sleep(0.01)
    sys.exit("redis-server does not start")


@contextmanager
def postgres_server() -> Iterator[str]:
    """Makes a cluster and starts its server; gives the address of a database."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"))
    if not found:
        sys.exit("PostgreSQL is not installed: apt-get install postgresql, or pass --postgres ADDRESS")
    programs = found[-1].parent
    # The server refuses to run as root.
    user = pwd.getpwnam("postgres") if os.geteuid() == 0 else None
    # Its folder has a short path, for the sake of the socket.
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        if user is not None:
            os.chmod(folder, 0o711)
            os.chown(folder, user.pw_uid, -1)

        def run(program: str, *arguments: str) -> None:
            name = None if user is None else user.pw_name
            command = [str(programs / program), *arguments]
            null = subprocess.DEVNULL
            subprocess.run(command, check=True, user=name, cwd=folder, timeout=120, stdin=null, stdout=null)

        data = f"{folder}/data"
        run("initdb", "--no-sync", "--auth=trust", "--username=fleet", "--pgdata", data)
        options = f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off"
        run("pg_ctl", "start", "--wait", "--pgdata", data, "--log", f"{folder}/log", "--options", options)
        try:
            run("createdb", "--host", folder, "--username", "fleet", "fleet")
            yield f"postgresql://fleet@/fleet?host={folder}"
        finally:
            run("pg_ctl", "stop", "--wait", "--mode=immediate", "--pgdata", data)
