"""`llmstream gateway`: serving, reload, drain, keys and the log. What it answers is in tests/gateway."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from llmstream.cli import main
from llmstream.errors import InvalidRequest
from llmstream.gateway import Key, open_ledger
from llmstream.gateway.accounts import Row
from llmstream.gateway.routes import duration_s, read_budget

FILE = """
store = "gateway.db"
[models.fast]
use = "sim:demo"
price = { input = 1, output = 10 }
"""
QUESTION = {"model": "fast", "messages": [{"role": "user", "content": "Hello"}]}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "gateway.toml"
    path.write_text(FILE)
    return path


def address(process: subprocess.Popen[bytes]) -> str:
    assert process.stdout is not None
    found = re.search(rb"http://[0-9.:]+", process.stdout.readline())
    assert found is not None
    return found[0].decode()


def ask(url: str, key: str = "", model: str = "fast") -> str:
    headers = {"content-type": "application/json", **({"authorization": f"Bearer {key}"} if key else {})}
    body = json.dumps({**QUESTION, "model": model}).encode()
    with urllib.request.urlopen(
        urllib.request.Request(f"{url}/v1/chat/completions", body, headers), timeout=30
    ) as response:
        return json.load(response)["choices"][0]["message"]["content"]


def end(process: subprocess.Popen[bytes], number: int = signal.SIGTERM) -> bytes:
    process.send_signal(number)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 0
    return errors


@pytest.mark.slow
def test_demo_prints_how_to_connect(spawn: Any) -> None:
    with spawn("gateway", "--demo", "--listen", "127.0.0.1:0") as process:
        url = address(process)
        assert "simulated model" in ask(url, model="anything")
        end(process, signal.SIGINT)


@pytest.mark.slow
def test_serves_logs_and_asks_for_keys(spawn: Any, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with spawn("gateway", file, "--listen", "127.0.0.1:0") as process:
        url = address(process)
        assert ask(url).startswith("You said: Hello")
        assert (
            main(["gateway", "keys", "add", "ada", "--file", str(file), "--models", "fast", "--tag", "t1"])
            == 0
        )
        captured = capsys.readouterr()
        secret = captured.out.strip()
        assert secret.startswith("ls-")
        assert "shown only now" in captured.err
        assert ask(url, secret).startswith("You said: Hello")
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(url)
        assert main(["gateway", "keys", "revoke", "ada", "--file", str(file)]) == 0
        with pytest.raises(urllib.error.HTTPError, match="401"):
            ask(url, secret)
        end(process)
    capsys.readouterr()
    assert main(["gateway", "log", "--file", str(file)]) == 0
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split()[:5] == ["TIME", "KEY", "TAG", "ASKED", "MODEL"]
    assert " - " in first
    assert " ada  t1 " in second
    assert second.endswith("complete")
    assert main(["gateway", "log", "--file", str(file), "--by", "key", "--json"]) == 0
    sums = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {one["group"]: one["calls"] for one in sums} == {"": 1, "ada": 1}
    assert all(one["cost_usd"] > 0 for one in sums)
    assert main(["gateway", "keys", "list", "--file", str(file)]) == 0
    assert "revoked" in capsys.readouterr().out


@pytest.mark.slow
def test_reloads_on_sighup(spawn: Any, file: Path) -> None:
    with spawn("gateway", file, "--listen", "127.0.0.1:0") as process:
        url = address(process)
        assert ask(url)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(url, model="new")
        file.write_text(FILE.replace("models.fast", "models.new"))
        process.send_signal(signal.SIGHUP)
        assert process.stderr is not None
        assert b"reloaded" in process.stderr.readline()
        assert ask(url, model="new")
        file.write_text("broken")
        process.send_signal(signal.SIGHUP)
        assert b"the routes stay as they are" in process.stderr.readline()
        assert ask(url, model="new")
        end(process)


def test_check_finds_missing_keys(
    file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["gateway", "check", str(file)]) == 0
    assert capsys.readouterr().out.split() == ["fast", "sim:demo"]
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    file.write_text(
        'listen = "0.0.0.0:4000"\n[models.a]\nuse = ["openai:b", "anthropic:c"]\napi_key_env = "TEAM"'
    )
    assert main(["gateway", "check", str(file)]) == 2
    errors = capsys.readouterr().err
    assert "openai:b: the variable TEAM is not set" in errors
    assert "there is no key yet" in errors
    file.write_text('[models.a]\nuse = "openai:b"')
    assert main(["gateway", "check", str(file)]) == 2
    assert 'Set OPENAI_API_KEY, or name its variable: api_key_env = "..."' in capsys.readouterr().err


def test_keys_show_what_counts(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Of a budget, what was spent within its window."""
    assert main(["gateway", "log", "--file", str(file)]) == 0
    assert "no call is in the log" in capsys.readouterr().err
    ledger = open_ledger(file.parent / "gateway.db")
    key = Key(name="ada", budget_usd=1.0, budget_s=86400.0)
    ledger.add_key(key)
    now = time.time()
    for started, cost_usd in ((now - 3 * 86400, 0.5), (now, 0.25)):
        ledger.reserve(Row(started=started, key="ada"), key, 10, cost_usd)
    ledger.close()
    assert main(["gateway", "keys", "list", "--file", str(file)]) == 0
    head, ada = capsys.readouterr().out.splitlines()
    cells = dict(zip(head.split(), ada.split(), strict=True))
    assert (cells["BUDGET"], cells["SPENT"]) == ("1usd/1d", "0.25")


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["missing.toml"], "cannot read missing.toml"),
        (["check", "missing.toml"], "cannot read missing.toml"),
        (["a.toml", "b.toml"], "too many arguments: b.toml"),
        (["--demo", "--listen", "localhost"], 'listen is "HOST:PORT" with a port up to 65535'),
        (["--demo", "--listen", "localhost:65536"], "got 'localhost:65536'"),
        (["--demo", "--listen", "192.0.2.1:4000"], "it serves only this machine"),
        (["keys", "add", "ada", "--rpm", "0"], "--rpm: expected a number from 1 on, not '0'"),
        (["keys", "add", "ada", "--tpm=-5"], "--tpm: expected a number from 1 on, not '-5'"),
        (["log", "-n", "0"], "-n: expected a number from 1 on, not '0'"),
        (["--drain", "nan"], "--drain: expected a number such as 0.2, not 'nan'"),
    ],
)
def test_usage_errors_say_what_to_do(
    argv: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["gateway", *argv]) == 2
    assert problem in capsys.readouterr().err


def test_key_words_are_checked(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["add"], ["add", "bad name"], ["frobnicate"], ["revoke", "eve"]):
        assert main(["gateway", "keys", *words, "--file", str(file)]) == 2
    assert "keys add NAME" in capsys.readouterr().err


def test_budgets_and_durations_are_read() -> None:
    assert read_budget("20usd/30d") == (20.0, 30 * 86400.0)
    assert read_budget("0.5/1h") == (0.5, 3600.0)
    assert read_budget("5$") == (5.0, 30 * 86400.0)
    assert duration_s("90m") == 5400.0
    for text in ("20eur", "", "5usd/soon"):
        with pytest.raises(InvalidRequest):
            read_budget(text)
