"""`llmstream` itself: help, unknown commands, and what no command may do."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

import llmstream
from llmstream import cli
from llmstream.cli import main, replay

COMMANDS = list(cli.COMMANDS)


def test_the_help_lists_every_command(capsys):
    assert main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(f"  {name} " in out for name in COMMANDS)
    assert "exit status" in out


@pytest.mark.parametrize("name", COMMANDS)
def test_each_command_help_has_an_example(name, capsys):
    assert main([name, "--help"]) == 0
    out = capsys.readouterr().out
    assert "example" in out
    assert f"  llmstream {name}" in out


def test_the_version_is_told(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"llmstream {llmstream.__version__}\n"


def test_without_a_command_the_help_is_shown(capsys):
    assert main([]) == 0
    out, err = capsys.readouterr()
    assert "usage: llmstream" in out
    assert "COMMAND" in out
    assert err == ""


@pytest.mark.parametrize("name", COMMANDS)
def test_help_fits_a_terminal_of_80_columns(name, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main([name, "--help"]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if len(line) > 80] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_usage_names_command_and_fits_a_line(name, capsys):
    assert main([name, "--no-such-flag"]) == 2
    usage, *_, error = capsys.readouterr().err.splitlines()
    assert usage.startswith(f"usage: llmstream {name} [-h]")
    assert len(usage) <= 80
    assert error.startswith(f"llmstream {name}: error: ")
    assert main([name, "--help"]) == 0
    assert capsys.readouterr().out.startswith(f"{usage}\n")


@pytest.mark.parametrize("argv", [["dance"], ["--loud"], ["replay"], ["chat", "--temperature", "warm"]])
def test_wrong_usage_is_status_2(argv, capsys):
    assert main(argv) == 2
    assert "usage: llmstream" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "status", "words"),
    [
        (llmstream.InvalidRequest("no such thing"), 2, "no such thing"),
        (llmstream.MissingKey("No key"), 2, "No key"),
        (llmstream.RateLimited("slow \x1b[31mdown", provider="acme", status=429), 3, "slow \\x1b[31mdown"),
        (llmstream.ConnectionFailed("refused"), 3, "refused"),
        (RuntimeError("what?"), 1, "unexpected RuntimeError: what?"),
        (KeyboardInterrupt(), 130, ""),
    ],
)
def test_any_exception_is_a_line_and_status(error, status, words, monkeypatch, capsys):
    def fail(arguments):
        raise error

    monkeypatch.setattr(replay, "run", fail)
    assert main(["replay", "--dialect", "ollama", "x"]) == status
    err = capsys.readouterr().err
    assert words in err
    assert "Traceback" not in err
    assert err.count("\n") == (1 if words else 0)


def test_a_traceback_can_be_had(monkeypatch):
    def fail(arguments):
        raise RuntimeError("what?")

    monkeypatch.setenv("LLMSTREAM_TRACEBACK", "1")
    monkeypatch.setattr(replay, "run", fail)
    with pytest.raises(RuntimeError, match="what"):
        main(["replay", "--dialect", "ollama", "x"])


def test_the_module_runs_as_the_program():
    done = subprocess.run(
        [sys.executable, "-m", "llmstream", "--version"], capture_output=True, timeout=30, check=False
    )
    assert done.stdout.decode().split() == ["llmstream", llmstream.__version__]


def test_terminal_without_unicode_works():
    code = (
        "import sys; from llmstream.simulator import Pace\n"
        "from llmstream.cli import demo, main; demo.PACE = Pace()\n"
        "sys.exit(main(['demo']))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        timeout=60,
        check=False,
        env={"PYTHONIOENCODING": "ascii", "PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert b"-2 ?C" in done.stdout


def test_only_the_requested_command_imports():
    code = (
        "import sys; from llmstream.cli import main; main(['replay', '--help']); "
        "print([m for m in sys.modules if m.startswith('llmstream.cli.')], file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=30, check=False)
    assert b"llmstream.cli.replay" in done.stderr
    assert b"llmstream.cli.chat" not in done.stderr


def test_program_is_named_in_the_metadata():
    assert cli.main is main


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-"])
@pytest.mark.parametrize(
    "command", ["replay --dialect openai-chat -", pytest.param("providers", marks=pytest.mark.slow)]
)
def test_closed_standard_stream_is_harmless(command: str, closed: str) -> None:
    done = subprocess.run(
        ["/bin/sh", "-c", f"{sys.executable} -m llmstream {command} {closed}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    assert done.returncode in (0, 3)
    assert b"fault of llmstream" not in done.stderr
    assert b"Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("argv", "operands"),
    [
        ("logs show -r trip", {"action": "show", "operands": ["trip"], "response": True}),
        ("logs export trip --format html snake", {"operands": ["trip", "snake"], "format": "html"}),
        ("models openai --json gpt mini", {"provider": "openai", "text": ["gpt", "mini"], "json": True}),
        ("keys set --file openai", {"action": "set", "provider": "openai", "file": True}),
        ("chat how -m sim:demo are you", {"prompt": ["how", "are", "you"], "model": "sim:demo"}),
    ],
)
def test_operands_may_stand_between_options(argv, operands, monkeypatch):
    found = []
    command = importlib.import_module(f"llmstream.cli.{argv.split()[0]}")
    monkeypatch.setattr(command, "run", lambda arguments: found.append(vars(arguments)) or 0)
    assert main(argv.split()) == 0
    assert found[0] | operands == found[0]


def test_an_operand_too_many_is_named_beside_options(capsys):
    assert main(["providers", "openai", "--json", "groq"]) == 2
    assert "unrecognized arguments: groq" in capsys.readouterr().err
    assert main(["keys", "set", "openai", "--file", "sk-secret"]) == 2
    assert "sk-secret" not in capsys.readouterr().err
