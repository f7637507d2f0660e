"""The newest SDKs in an environment of their own, and the versions that npm has beside them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import venv
from collections.abc import Sequence
from pathlib import Path

from drift.packages import NPM, SDKS

__all__ = ["run_there"]

_ROOT = Path(__file__).parents[1]
_FOLDER = _ROOT / ".drift"
_VENV = _FOLDER / "venv"
_NPM_WAIT_S = 30.0  # for one version; a registry that is not reached answers after minutes, or never


def run_there(arguments: Sequence[str], *, npm: bool) -> int:
    """Installs what is newest, then runs the same command in that environment."""
    python = _python()
    if not python.exists():
        print(f"making {_VENV.relative_to(_ROOT)}", flush=True)
        venv.create(_VENV, with_pip=True)
    print(f"installing the newest {', '.join(SDKS)} (the first time takes some minutes)", flush=True)
    installed = subprocess.run(
        [
            python,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--upgrade",
            "--disable-pip-version-check",
            str(_ROOT),
            *SDKS,
        ]
    )
    if installed.returncode:
        print(
            "pip could not install them; see above. `scripts/drift --quick` needs no network.",
            file=sys.stderr,
        )
        return 2
    if npm:
        _tell_npm()
    return subprocess.call([python, "-m", "drift", "--here", *arguments], cwd=_ROOT)


def _python() -> Path:
    folder = _VENV / ("Scripts" if sys.platform == "win32" else "bin")
    return folder / ("python.exe" if sys.platform == "win32" else "python")


def _tell_npm() -> None:
    """Prints the newest versions on npm: where a vendor's SDK for Node is ahead, look at it by hand."""
    program = shutil.which("npm")
    if program is None:
        print("npm: not installed, so its versions are skipped")
        return
    for package in NPM:
        print(f"npm {package}: {_npm_version(program, package)}", flush=True)


def _npm_version(program: str, package: str) -> str:
    try:
        answer = subprocess.run(
            [program, "view", package, "version", "--json"],
            capture_output=True,
            timeout=_NPM_WAIT_S,
            check=True,
        )
        return str(json.loads(answer.stdout))
    except subprocess.TimeoutExpired:
        return f"skipped: no answer within {_NPM_WAIT_S:.0f} s"
    except (subprocess.CalledProcessError, OSError, ValueError):
        return "skipped: npm could not say"
