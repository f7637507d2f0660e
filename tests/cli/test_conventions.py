"""What all commands have in common: statuses in the help, JSON and quiet output, pipes, Ctrl-C, colours."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from llmstream import events, grammar
from llmstream.cli import COMMANDS, main

RECORDINGS = Path(__file__).parent / "recordings"
RECORDING = RECORDINGS / "anthropic.sse"
ROWS = RECORDINGS / "ollama.ndjson"
PRINTING = [
    ["chat", "-m", "sim:demo", "Hello"],
    ["chat", "-m", "sim:demo", "--json", "Hello"],
    ["demo", "--json"],
    ["replay", "--dialect", "anthropic", str(RECORDING)],
    ["providers"],
    ["providers", "--json"],
    ["models", "openai"],
    ["keys", "path"],
    ["check", "--list"],
    ["completion", "bash"],
    [
        "map",
        str(RECORDINGS / "openai_chat.sse"),
        "--format",
        "lines",
        "-m",
        "sim:demo",
        "--prompt",
        "{{text}}",
    ],
    ["bench", "-m", "sim:demo", "-n", "2", "--warmup", "0", "--json"],
]


def output(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(list(argv)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_help_lists_the_exit_statuses(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    text = output(capsys, name, "--help")
    (line,) = [line for line in text.splitlines() if line.startswith("exit status: 0 ")]
    assert ", 2 usage error" in line
    assert ", 130 " in line
    assert "141 the reader of the pipe closed it" in line or name in ("simulate", "web", "serve")


@pytest.mark.parametrize(
    ("argv", "hint"),
    [
        (["chta"], "unknown command 'chta'. Did you mean chat?"),
        (["provider"], "unknown command 'provider'. Did you mean providers?"),
        (["--versoin"], "unknown option '--versoin'. Did you mean --version?"),
        (["zzz"], "`llmstream --help` lists the commands"),
        (["chat", "--max-token", "5", "Hi"], "Did you mean --max-tokens? `llmstream chat --help`"),
        (
            ["chat", "-m", "sim:demo", "--max-tokens", "0", "Hi"],
            "argument --max-tokens: expected a number from 1",
        ),
        (["chat", "-m", "sim:demo", "--temperature", "-1", "Hi"], "--temperature: expected a number such as"),
        (["map", "x.csv", "--reasoning", "hgih"], "argument --reasoning: expected none, minimal"),
        (["bench", "-n", "many"], "argument -n/--requests: expected a number"),
        (["map", str(ROWS), "--format", "jsonl", "-m", "sim:demo"], "Pass --prompt with its columns"),
    ],
)
def test_wrong_usage_speaks_of_the_flags(argv, hint, capsys):
    assert main(argv) == 2
    assert hint in capsys.readouterr().err


@pytest.mark.parametrize(
    "argv",
    [["chat", "-m", "sim:demo", "--json", "Hi"], ["demo", "--json", "--dialect", "ollama"]],
)
def test_json_of_an_answer_is_its_events(argv, capsys, typed_in):
    typed_in("")
    found = [events.decode(line) for line in output(capsys, *argv).splitlines()]
    assert grammar.check(found) == []
    assert found[-1].usage.output_tokens


def test_json_needs_a_prompt(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("sys.stdout.isatty", lambda: True, raising=False)
    assert main(["chat", "-m", "sim:demo", "--json"]) == 2
    assert "--json needs a prompt" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "keys"),
    [
        (["providers", "--json"], {"name", "keySet", "abilities"}),
        (["models", "openai", "--json"], {"model", "provider", "contextTokens", "source"}),
        (["check", "--list", "--json"], {"name", "title"}),
    ],
)
def test_json_of_a_list_is_an_array(argv, keys, capsys):
    rows = json.loads(output(capsys, *argv))
    assert rows
    assert all(keys <= set(row) for row in rows)


def test_json_of_keys_never_has_a_key(capsys, typed_in, monkeypatch):
    assert json.loads(output(capsys, "keys", "list", "--json")) == []
    typed_in("sk-very-secret\n")
    assert main(["keys", "set", "openai", "--file"]) == 0
    capsys.readouterr()
    (row,) = json.loads(output(capsys, "keys", "list", "--json"))
    assert row == {"provider": "openai", "variable": "OPENAI_API_KEY", "place": "file", "overriddenBy": None}
    monkeypatch.setenv("OPENAI_API_KEY", "another")
    assert json.loads(output(capsys, "keys", "list", "--json"))[0]["overriddenBy"] == "OPENAI_API_KEY"
    assert output(capsys, "keys", "list", "-q") == "openai\n"


def test_json_of_a_benchmark_is_its_report(capsys):
    assert main(["bench", "-m", "sim:demo", "-n", "2", "--warmup", "0", "--json"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)["load"]["requests"] == 2
    assert "first token" in err
    assert main(["bench", "-m", "sim:demo", "-n", "2", "--warmup", "0", "--json", "-q"]) == 0
    out, err = capsys.readouterr()
    assert json.loads(out)
    assert err == ""


def test_quiet_chat_is_the_answer_alone(capsys, typed_in):
    """No reasoning, warnings or calls."""
    typed_in("")
    argv = ["chat", "-m", "sim-anthropic:demo", "--tools", "demo", "--yes", "Rain in Lima?"]
    assert main(argv) == 0
    loud = capsys.readouterr()
    assert "Ran tool" in loud.err
    typed_in("")
    assert main([*argv, "--quiet"]) == 0
    quiet = capsys.readouterr()
    assert quiet.err == ""
    assert quiet.out == loud.out


def test_quiet_lists_are_names_alone(capsys):
    names = output(capsys, "providers", "-q").split("\n")
    assert "openai" in names
    assert output(capsys, "providers", "openai", "-q") == "openai\n"
    assert "openai:gpt-5-mini" in output(capsys, "models", "openai", "-q").split("\n")


def test_quiet_replay_only_has_a_status(capsys, tmp_path):
    assert output(capsys, "replay", "-q", "--dialect", "anthropic", str(RECORDING)) == ""
    cut = tmp_path / "cut"
    cut.write_bytes(RECORDING.read_bytes()[:300])
    assert main(["replay", "-q", "--dialect", "anthropic", str(cut)]) == 3
    out, err = capsys.readouterr()
    assert out == ""
    assert err


@pytest.mark.parametrize(
    "argv",
    [PRINTING[0], *(pytest.param(argv, marks=pytest.mark.slow) for argv in PRINTING[1:])],
    ids=lambda argv: " ".join(argv[:1]),
)
def test_a_closed_pipe_is_status_141(argv, tmp_path):
    """Its reader has gone before the first byte."""
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "llmstream", *argv],
        stdin=subprocess.DEVNULL,
        stdout=write,
        stderr=subprocess.PIPE,
        timeout=60,
        check=False,
    )
    os.close(write)
    assert done.returncode == 141, done.stderr
    assert b"Traceback" not in done.stderr
    assert b"BrokenPipe" not in done.stderr


@pytest.mark.slow
def test_server_reports_requests_as_json(spawn):
    with spawn("simulate", "--port", 0, "--json") as process:
        started = json.loads(process.stdout.readline())
        assert started["type"] == "started"
        base_url = f"{started['url']}/v1"
        asked = subprocess.run(
            [
                sys.executable,
                "-m",
                "llmstream",
                "chat",
                "-m",
                "openai:x",
                "--base-url",
                base_url,
                "Hi",
            ],
            env={**os.environ, "OPENAI_API_KEY": "k"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert asked.returncode == 0, asked.stderr
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    request, stopped = map(json.loads, out.splitlines())
    assert (request["type"], request["dialect"], request["model"]) == ("request", "openai-chat", "x")
    assert stopped == {"type": "stopped", "requests": 1}
    assert (process.returncode, err) == (0, b"")


@pytest.mark.parametrize(
    "argv",
    [pytest.param(["bench", "-m", "sim:demo", "-n", "100000"], marks=pytest.mark.slow), ["demo"]],
    ids=lambda argv: argv[0],
)
def test_ctrl_c_ends_with_status_130(argv, spawn):
    with spawn(*argv) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert b"Traceback" not in err


@pytest.mark.parametrize(
    "argv",
    [
        ["providers", "openai"],
        *(
            pytest.param(argv, marks=pytest.mark.slow)
            for argv in (["providers"], ["check", "-m", "sim:probe", "--only", "text"], ["demo"])
        ),
    ],
    ids=" ".join,
)
def test_no_color_leaves_out_all_colours(argv, sessions):
    from tests.cli.terminal_session import Session

    session = Session(*argv, NO_COLOR="1")
    sessions.append(session)
    session.end()
    assert "\x1b[3" not in session.text.replace("\x1b[3m", "")  # italics are no colour
