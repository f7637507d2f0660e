"""`llmstream web`: its arguments, its tools and its address. The page itself is in tests/web."""

from __future__ import annotations

import json
import re
import signal
import socket
import stat
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from llmstream.cli import main
from llmstream.cli.tool_sources import tools_of_file


def address(process: subprocess.Popen[bytes]) -> tuple[str, str]:
    """The address and the token that a command prints."""
    assert process.stdout is not None
    found = re.search(rb"(http://[0-9.:]+)/#token=(\S+)", process.stdout.readline())
    assert found is not None
    return found[1].decode(), found[2].decode()


def call(url: str, token: str, path: str, body: Any = None) -> Any:
    headers = {"authorization": f"Bearer {token}", "content-type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{url}/api/{path}", data, headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        return json.load(response)


def end(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, b"")


@pytest.mark.slow
def test_the_demonstration_needs_no_model(
    spawn: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    with spawn("web", "--no-open", "--port", 0) as process:
        url, token = address(process)
        found = call(url, token, "settings")
        assert found["model"] == "sim:demo"
        assert list(found["tools"]) == ["weather", "book_table"]
        assert found["suggestions"]
        end(process)
    files = [file for file in tmp_path.rglob("*") if file.is_file()]
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    with spawn("web", "--no-open", "--port", 0) as process:
        assert address(process)[1] == token
        end(process)


@pytest.mark.slow
def test_history_off_stores_nothing(spawn: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("LLMSTREAM_HISTORY", "off")
    with spawn("web", "--no-open", "--port", 0) as process:
        assert len(address(process)[1]) >= 32
        end(process)
    assert list(tmp_path.iterdir()) == []


def test_tools_of_the_guide(tmp_path: Path) -> None:
    guide = Path(__file__).resolve().parents[2] / "docs" / "guides" / "web-chat.md"
    found = re.search(r'```python title="tools.py"\n(.*?)```', guide.read_text(), re.DOTALL)
    assert found is not None
    file = tmp_path / "tools.py"
    file.write_text(found[1])
    assert [tool.name for tool in tools_of_file(str(file))] == ["search", "restart"]


@pytest.mark.slow
def test_tools_of_a_user_ask_first(spawn: Any, tmp_path: Path) -> None:
    file = tmp_path / "tools.py"
    file.write_text("def restart(machine: str) -> str:\n    'Restarts it.'\n    return 'up'\n")
    for more, waits in (((), True), (("--yes",), False)):
        with spawn("web", "--no-open", "--port", 0, "-m", "sim:demo", "--tools", file, *more) as process:
            url, token = address(process)
            assert call(url, token, "settings")["tools"] == {"restart": "Restarts it."}
            view = call(url, token, "conversations", {"prompt": "Restart"})
            while view["openRun"]:
                view = call(url, token, f"conversations/{view['id']}")
            assert view["waiting"] is waits
            end(process)


def test_a_missing_key_is_named_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--no-open", "-m", "openai:gpt-5-mini"]) == 2
    assert "Set OPENAI_API_KEY" in capsys.readouterr().err


def test_an_unknown_effort_is_refused_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--no-open", "--reasoning", "hihg"]) == 2
    assert "argument --reasoning: expected none" in capsys.readouterr().err


def test_a_port_in_use(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert main(["web", "--no-open", "--port", str(port)]) == 2
    assert f"port {port}: it is in use. Pass another --port" in capsys.readouterr().err


def test_a_port_that_is_none(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("http", "65536", "-1"):
        assert main(["web", "--no-open", f"--port={text}"]) == 2
        assert f"expected a number from 0 to 65535, not '{text}'" in capsys.readouterr().err


def test_an_address_of_another_machine(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["web", "--no-open", "--host", "192.0.2.1", "--port", "0"]) == 2
    assert "Pass another with --host" in capsys.readouterr().err


def test_the_page_is_not_loaded_by_others() -> None:
    code = "import sys, llmstream.cli.web; print([m for m in sys.modules if m.startswith('llmstream.web')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
