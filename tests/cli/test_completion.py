"""`llmstream completion`, as the shells use it: real ones on a terminal, where they are installed."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from llmstream.cli import COMMANDS, main
from llmstream.cli.completion import FILES, candidates, parted
from tests.cli.terminal_session import Session

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="the shells are those of Unix")

TYPED = [
    ("llmstream cha\tHi", "chat Hi"),
    ("llmstream chat --temp\t1", "chat --temperature 1"),
    ("llmstream chat -m sim:\tHi", "chat -m sim:demo Hi"),
    ("llmstream chat -m groq\tx Hi", "chat -m groq:x Hi"),
    ("llmstream replay --dialect=olla\tx", "replay --dialect=ollama x"),
    ("llmstream keys rem\tgro\t", "keys remove groq"),
    ("llmstream chat -a long_n\tHi", "chat -a long_name.txt Hi"),
    ("llmstream chat -m 'sim:\tHi", "chat -m sim:demo Hi"),
]
STARTS = {
    "bash": (["--norc", "--noprofile", "-i"], "source <(llmstream completion bash)"),
    "zsh": (["-f", "-i"], "autoload -Uz compinit; compinit -u -D; source <(llmstream completion zsh)"),
    "fish": (["--no-config", "-i"], "llmstream completion fish | source"),
}
ANY_PROGRAM = "import os, sys; os.execvp(sys.argv[1], sys.argv[1:])"


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`llmstream` on the path: completes as ever, and prints the arguments of any other call."""
    stub = tmp_path / "bin" / "llmstream"
    stub.parent.mkdir()
    stub.write_text(
        f'#!/bin/sh\nif [ "$1" = completion ]; then exec {sys.executable} -m llmstream "$@"; fi\n'
        'echo "GOT<$*>"\n'
    )
    stub.chmod(0o755)
    (tmp_path / "long_name.txt").touch()
    monkeypatch.setenv("PATH", str(stub.parent), prepend=":")
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    "shell", ["bash", *(pytest.param(name, marks=pytest.mark.slow) for name in ("zsh", "fish"))]
)
def test_a_real_shell_completes(shell, program, sessions):
    """Tab on a terminal, and what the program is then called with."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not installed")
    options, source = STARTS[shell]
    session = Session(shell, *options, code=ANY_PROGRAM, columns=200)
    sessions.append(session)
    session.send(f"{source}\necho rea''dy\n")
    session.expect("ready")
    for typed, called in TYPED:
        session.send(f"{typed}\n")
        session.expect(f"GOT<{called}>")


@pytest.mark.parametrize(
    ("line", "breaks", "expected"),
    [
        ("llmstream chat -m openai:gp", ":=", (["llmstream", "chat", "-m", "openai:gp"], "openai:")),
        ("llmstream chat -m openai:gp", "", (["llmstream", "chat", "-m", "openai:gp"], "")),
        ("llmstream chat -m 'openai:gp", ":=", (["llmstream", "chat", "-m", "openai:gp"], "")),
        ("llmstream chat a\\ b 'c d' ", ":=", (["llmstream", "chat", "a b", "c d", ""], "")),
        ("llmstream replay --dialect=o", "=", (["llmstream", "replay", "--dialect=o"], "--dialect=")),
        ("", "", ([""], "")),
    ],
)
def test_a_line_is_split_as_by_a_shell(line, breaks, expected):
    assert parted(line, breaks) == expected


def values(line: str) -> list[str]:
    return [value for value, _ in candidates(parted(line)[0])]


def test_every_command_and_option_completes():
    assert {*COMMANDS, "--help", "--version"} == set(values("llmstream "))
    for command in COMMANDS:
        assert "--help" in values(f"llmstream {command} -")
        assert not [value for value in values(f"llmstream {command} --") if not value.startswith("--")]


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("llmstream chat -m ope", "openai:"),
        ("llmstream check --model anthro", "anthropic:"),
        ("llmstream map --fallback groq", "groq:"),
        ("llmstream chat --reasoning me", "medium"),
        ("llmstream chat --tools d", "demo"),
        ("llmstream chat --base-url http://x -m sim:d", "sim:demo"),
        ("llmstream models gro", "groq"),
        ("llmstream models default sim:", "sim:demo"),
        ("llmstream providers mist", "mistral"),
        ("llmstream map --format=c", "--format=csv"),
        ("llmstream completion f", "fish"),
    ],
)
def test_an_argument_completes(line, value):
    assert value in values(line)


@pytest.mark.parametrize(
    "line",
    [
        "llmstream chat -a x",
        "llmstream map x",
        "llmstream simulate --script ",
        "llmstream bench --json ",
        "llmstream replay --dialect ollama x",
    ],
)
def test_files_are_left_to_the_shell(line):
    assert FILES in candidates(parted(line)[0])


@pytest.mark.parametrize("line", ["llmstream chat --max-tokens ", "llmstream dance x", "llmstream chat Why "])
def test_nothing_is_offered_where_none_fits(line):
    assert values(line) == []


def test_models_of_the_price_list_complete():
    pytest.importorskip("genai_prices")
    assert "openai:gpt-5-mini" in values("llmstream chat -m openai:gpt-5")


def test_the_default_model_completes(monkeypatch):
    monkeypatch.setenv("LLMSTREAM_MODEL", "acme:big")
    assert values("llmstream chat -m ac")[0] == "acme:big"


def test_a_shell_has_to_be_named(capsys):
    assert main(["completion"]) == 2
    assert "name the shell: bash, zsh or fish" in capsys.readouterr().err
