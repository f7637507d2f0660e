"""The Containerfile, the systemd unit and the example of a file, as far as no engine runs them."""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from gateway_parts import serving

from llmstream.cli.gateway import configure
from llmstream.gateway import Gateway, load_settings

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy" / "gateway"
CONTAINER = (DEPLOY / "Containerfile").read_text("utf-8").replace("\\\n", "")


def listed(instruction: str) -> list[str]:
    """The command of an instruction of the Containerfile."""
    found = re.search(rf"^{instruction} (\[.*\])$", CONTAINER, re.MULTILINE)
    assert found is not None
    return json.loads(found[1])


def test_example_of_a_file_is_valid() -> None:
    settings = load_settings(DEPLOY / "gateway.toml")
    assert settings.address == ("127.0.0.1", 4000)
    assert len(settings.routes.all) == 3


def test_container_installs_what_there_is() -> None:
    """What it copies is there, and all that the build needs; the extras exist."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    copied = re.findall(r"^COPY (?!--from)(.*) \S+$", CONTAINER, re.MULTILINE)
    names = {name for line in copied for name in line.split()}
    assert all((ROOT / name).exists() for name in names)
    assert {"pyproject.toml", "llmstream"} <= names
    extras = re.search(r"'\.\[(.*)\]'", CONTAINER)
    assert extras is not None
    assert set(extras[1].split(",")) <= set(project["optional-dependencies"])


def test_commands_are_understood() -> None:
    unit = (DEPLOY / "llmstream-gateway.service").read_text("utf-8")
    started = re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE)
    assert started is not None
    for command in ([*listed("ENTRYPOINT"), *listed("CMD")], started[1].split()):
        program, action, *arguments = command
        assert (program, action) == ("/opt/llmstream/bin/llmstream", "gateway")
        parser = argparse.ArgumentParser()
        configure(parser)
        given = parser.parse_args(arguments)
        assert given.operands == ["/etc/llmstream/gateway.toml"]
        stops = re.search(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert stops is not None
        assert float(stops[1]) > given.drain


async def test_health_check_asks_the_gateway() -> None:
    _, flag, code = listed("HEALTHCHECK CMD")
    async with serving(Gateway({"*": "sim:demo"})) as url:
        for address, status in ((url, 0), ("http://127.0.0.1:1", 1)):
            program = code.replace("http://127.0.0.1:4000", address)
            process = await asyncio.create_subprocess_exec(
                sys.executable, flag, program, stderr=asyncio.subprocess.DEVNULL
            )
            assert await process.wait() == status


def test_systemd_takes_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    program = tmp_path / "llmstream"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    unit = tmp_path / "llmstream-gateway.service"
    text = (DEPLOY / "llmstream-gateway.service").read_text("utf-8")
    unit.write_text(text.replace("/opt/llmstream/bin/llmstream", str(program)))
    done = subprocess.run(
        ["systemd-analyze", "verify", str(unit)], capture_output=True, text=True, timeout=60
    )
    complaints = [line for line in done.stderr.splitlines() if unit.name in line]
    assert complaints == []
