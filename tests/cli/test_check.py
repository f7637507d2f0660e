"""`llmstream check`: its table, its report, its exit status, and the cost that it names first."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time

import pytest

from llmstream.cli import main
from llmstream.cli.check import summary_lines, table_lines
from llmstream.endpoint_check import PROBES, CheckReport, Finding, Quirk
from llmstream.simulator import Obedient, Pace, Script, Turn
from llmstream.usage import Usage

FINDING = Finding(
    probe="tool-named",
    status="broken",
    detail="tool_choice (named) is ignored: the model called get_weather \x1b[31m",
    meaning="A program that relies on the call gets text instead.",
    quirk=Quirk("ToolQuirks", {"choice": ("auto", "none")}),
)


def report(*findings):
    return CheckReport(
        model="vllm:m",
        dialect="openai-chat",
        address="http://localhost:8000/v1",
        findings=findings,
        requests=1,
        usage=Usage(),
        duration_s=1.0,
    )


def test_names_of_probes_fit_their_column():
    longest = max((probe.name for probe in PROBES), key=len)
    *_, row = table_lines(report(Finding(probe=longest, status="ok", detail="fine")))
    assert row.startswith(f"{longest}  ok")


def test_clean_endpoint_exits_with_zero(capsys):
    assert main(["check", "-m", "sim:probe"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("sim:probe (openai-chat)\n")
    assert "28 ok, 1 skipped." in out
    assert "at most 49 requests" in err
    assert "\x1b" not in out + err


def test_broken_wire_exits_with_three(simulate, capsys):
    server = simulate(Script((Turn(text="1, 2, 3", finish_reason="tool-calls"),)))
    argv = ["check", "-m", "openai-chat:m", "--base-url", f"{server.url}/v1", "--only", "text"]
    assert main(argv) == 2  # no key in the environment
    assert "OPENAI_API_KEY" in capsys.readouterr().err
    argv[2] = "vllm:m"
    assert main(argv) == 3
    assert "wrong finish reason" in capsys.readouterr().out


def test_unreachable_endpoint_is_one_reason(capsys):
    argv = ["check", "-m", "vllm:m", "--base-url", "http://127.0.0.1:9/v1"]
    assert main(argv) == 3
    out, _ = capsys.readouterr()
    assert "Check --base-url and that the server runs" in " ".join(out.split())
    assert "26 probes       skipped       no plain question is answered" in out


def test_json_is_the_whole_output(capsys):
    assert main(["check", "-m", "sim:probe", "--json", "--only", "text,usage"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [finding["probe"] for finding in document["findings"]] == ["text", "usage"]


def test_quiet_prints_only_findings(capsys):
    assert main(["check", "-m", "sim:probe", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.slow
def test_ctrl_c_shows_what_was_found(simulate, spawn):
    server = simulate(Obedient(), pace=Pace(first_s=0.2), models=("m",))
    argv = ["check", "-m", "vllm:m", "--base-url", f"{server.url}/v1"]
    with spawn(*argv) as process:
        while len(server.requests) < 5:
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"text            ok" in out
    assert b"stopped after" in err


def test_list_names_every_probe(capsys):
    assert main(["check", "--list"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == [probe.name for probe in PROBES]


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--only", "tolls", "-m", "sim:probe"], "there is no probe 'tolls'"),
        ([], "no model given"),
        (["-m", "sim:prob"], "the simulator has no model 'prob'"),
        (["-m", "sim:probe", "--max-tokens", "3"], "expected a number from 32"),
    ],
)
def test_mistakes_are_usage_errors(argv, message, capsys):
    assert main(["check", *argv]) == 2
    assert message in capsys.readouterr().err


def test_price_is_named_where_it_is_known(simulate, capsys, monkeypatch):
    pytest.importorskip("genai_prices")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    server = simulate(Obedient())
    argv = ["check", "-m", "openai-responses:gpt-4o-mini", "--base-url", f"{server.url}/v1", "--only", "stop"]
    main(argv)
    out, err = capsys.readouterr()
    assert "at most 5 requests with 2,560 output tokens ($0.0" in err
    assert "$0.0" in out


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_rows_fit_the_terminal(columns, monkeypatch):
    monkeypatch.setattr("llmstream.cli.check.columns", lambda: columns)
    lines = list(table_lines(report(FINDING), colour=False))
    assert max(map(len, lines)) < columns
    text = " ".join(" ".join(lines).split())
    for part in (FINDING.meaning, f"quirk: {FINDING.quirk.expression}", "called get_weather \\x1b[31m"):
        assert part in text


def test_program_with_quirks_runs(monkeypatch, capsys):
    """The program that the summary proposes is complete."""
    lines = [line[4:] for line in summary_lines(report(FINDING)) if line.startswith("    ")]
    names = {}
    exec("\n".join(lines), names)
    assert names["model"].provider.dialect.quirks.tools.choice == {"auto", "none"}
    assert names["model"].provider.base_url == "http://localhost:8000/v1"


def test_missing_usage_is_not_shown_as_zero():
    lines = list(summary_lines(report(FINDING)))
    assert lines[:2] == ["", "1 broken. 1 request, tokens not reported, 1.0 s."]


def test_probes_are_imported_by_check_alone():
    """Neither the package nor the list of commands pays for them."""
    code = (
        "import sys, llmstream\n"
        "from llmstream.cli import main\n"
        "try: main(['--help'])\n"
        "except SystemExit: pass\n"
        "assert not [name for name in sys.modules if 'check' in name and 'llmstream' in name]"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "check  " in done.stdout
