"""`llmstream bench`: runs against simulators, and its usage."""

from __future__ import annotations

import json
import os
import signal
import socket
import xml.etree.ElementTree as ET
from types import SimpleNamespace

import pytest

from llmstream.cli import main
from llmstream.cli.bench import write_text
from llmstream.cli.bench.load import arrivals
from llmstream.cli.bench.report import report_lines
from llmstream.errors import InvalidRequest
from llmstream.simulator import Pace, Refuse, Script, Turn

HEADS = ["first event", "first token", "between tokens", "end to end"]


@pytest.fixture
def bench(capsys):
    """`bench(*argv)` runs the command: status, output, notes."""

    def run(*argv):
        status = main(["bench", *map(str, argv)])
        out, err = capsys.readouterr()
        return SimpleNamespace(status=status, out=out, err=err)

    return run


def test_it_works_without_a_key(bench):
    done = bench("-m", "sim:demo", "-n", 6, "-c", 3, "--warmup", 1)
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("sim:demo, 6 requests, 3 at a time: ")
    assert all(f"\n{head}" in done.out for head in HEADS)
    assert "errors: none" in done.out
    assert "overhead: " in done.out
    assert "█" in done.out


def test_rate_option_and_json_only_on_stdout(bench):
    done = bench("-m", "sim:demo", "-n", 5, "--rate", "500/s", "--seed", 7, "--json", "-")
    found = json.loads(done.out)
    assert (found["format"], found["version"]) == ("llmstream-bench", 1)
    assert found["load"]["ratePerS"] == 500
    dues = [s.get("dueS", 0.0) for s in found["samples"]]
    expected = list(arrivals(5, 500.0, 7))
    assert [due - dues[0] for due in dues] == pytest.approx(expected, abs=1e-6)
    assert "first token" in done.err


def test_files_and_a_comparison(bench, tmp_path):
    before, plot = tmp_path / "before.json", tmp_path / "both.svg"
    assert bench("-m", "sim:demo", "-n", 3, "--json", before).status == 0
    done = bench("-m", "sim:demo", "-n", 4, "--compare", before, "--svg", plot)
    assert done.status == 0
    assert "compared with the run of" in done.out
    assert "different loads" in done.out
    assert len(ET.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")) == 4


def test_prompts_and_max_tokens_reach_server(bench, simulate, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So."),)))
    path = tmp_path / "prompts.txt"
    path.write_text("One?\nTwo?\n")
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    assert bench(*to, "-n", 3, "-c", 1, "--warmup", 0, "--prompts", path, "--max-tokens", 9).status == 0
    asked = [r.request for r in simulator.requests]
    assert [r.messages[-1].text for r in asked] == ["One?", "Two?", "One?"]
    assert {r.settings.max_output_tokens for r in asked} == {9}


def test_first_token_time_is_the_servers(bench, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So it is."),)), pace=Pace(first_s=0.05))
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    found = json.loads(bench(*to, "-n", 2, "--warmup", 0, "--json", "-").out)
    assert found["firstTokenS"]["min"] >= 0.05


def test_failures_counted_by_code_no_retry(bench, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(fault=Refuse(status=503)),)))
    done = bench("-m", "openai:m", "--base-url", f"{simulator.url}/v1", "-n", 3, "--warmup", 0)
    assert done.status == 3
    assert "errors: 3 of 3: 3 overloaded" in done.out
    assert len(simulator.requests) == 3


def test_failures_explained_once_with_url(bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        done = bench("-m", "openai:m", "--base-url", url, "-n", 3, "--warmup", 0)
    assert done.status == 3
    assert done.out.count("cannot connect to 127.0.0.1") == 1
    assert done.out.count(f"address: {url}") == 1
    assert "base_url" not in done.out
    assert "overhead" not in done.out


def test_overhead_of_short_run_not_measured(report, sample):
    assert "overhead: not measured, the run was too short" in report_lines(report(sample(0), wall_s=0.1))
    lines = list(report_lines(report(sample(0), wall_s=2.0)))
    assert "overhead: this process used 25% of a core, including its simulator" in lines
    assert "  event loop delay: 1.00 ms (p50), 1.00 ms (p99);" in lines


def test_model_without_provider_is_guessed(bench):
    done = bench("-m", "gpt-5")
    assert done.status == 2
    assert "Did you mean openai:gpt-5?" in done.err


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        ([], "no model"),
        (["-m", "openai:m"], "OPENAI_API_KEY"),
        (["-m", "sim:nobody"], "nobody"),
        (["-m", "sim:demo", "-n", "0"], "a number from 1"),
        (["-m", "sim:demo", "-n", "1" + "0" * 30], "a number from 1"),
        (["-m", "sim:demo", "-c", "1" + "0" * 30], "a number from 1"),
        (["-m", "sim:demo", "-n", "9" * 5000], "expected a number from 1 to 1000000"),
        (["-m", "sim:demo", "--prompt-tokens", "1000000000"], "a number from 1"),
        (["-m", "sim:demo", "--json", "same", "--svg", "./same"], "both name"),
        (["-m", "sim:demo", "--rate", "fast"], "a rate has the form"),
        (["-m", "sim:demo", "--rate", "0/s"], "a rate has the form"),
        (["-m", "sim:demo", "--rate", "2/s", "-c", "2"], "not allowed with"),
        (["-m", "sim:demo", "--compare", "/nowhere.json"], "cannot read"),
        (["-m", "sim:demo", "--prompts", "/nowhere.txt"], "cannot read"),
        (["-m", "sim:demo", "--json", "/nowhere/out.json"], "the folder does not exist"),
    ],
)
def test_wrong_usage_is_status_2(bench, argv, told):
    done = bench(*argv)
    assert done.status == 2
    assert told in done.err


def test_two_saved_runs_compare_offline(bench, tmp_path, report, sample):
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, first_token_s in zip(paths, (0.2, 0.6), strict=True):
        path.write_bytes(report(sample(0, first_token_s=first_token_s)).to_json())
    done = bench("-m", "no-such-provider:any", "--compare", *paths)
    assert done.status == 0
    assert "3.00x" in next(line for line in done.out.splitlines() if "first token p50" in line)


def test_three_reports_are_too_many(bench, tmp_path, report, sample):
    path = tmp_path / "report.json"
    path.write_bytes(report(sample(0)).to_json())
    done = bench("--compare", path, path, path)
    assert done.status == 2
    assert "or two" in done.err


def test_only_reports_can_be_compared(bench, tmp_path, report, sample):
    path = tmp_path / "other.json"
    for text, told in (("{}", "is not a report"), (report(sample(0)).to_json().decode(), "")):
        path.write_text(text.replace('"version": 1', '"version": 9'))
        done = bench("-m", "sim:demo", "-n", 1, "--compare", path)
        assert done.status == 2
        assert told in done.err


def test_deep_json_is_no_report(bench, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"load":' * 100_000)
    done = bench("-m", "sim:demo", "-n", 1, "--compare", path)
    assert done.status == 2
    assert "is not a report" in done.err


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        *(pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGHUP)),
    ],
)
def test_a_signal_ends_it_with_a_report(number, spawn, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So."), Turn(text="Slow.", pace=Pace(first_s=60.0)))))
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    with spawn("bench", *to, "-n", 9, "-c", 2, "--warmup", 0) as process:
        _until(lambda: len(simulator.requests) >= 3)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"requests did not finish" in out
    assert b"the report has the finished requests" in err


def _until(met) -> None:
    import time

    for _ in range(1000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


posix_only = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")


@posix_only
def test_report_not_written_through_symlink(bench, tmp_path):
    """Somebody who may write the folder must not choose what a benchmark overwrites."""
    victim, link = tmp_path / "victim", tmp_path / "link"
    victim.write_text("mine")
    link.symlink_to(victim)
    (tmp_path / "dangling").symlink_to(tmp_path / "none")
    for option in ("--json", "--svg"):
        for name in ("link", "dangling"):
            done = bench("-m", "sim:demo", "-n", 1, option, tmp_path / name)
            assert done.status == 2
            assert "it is a symbolic link" in done.err
    assert victim.read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dangling", "link", "victim"]


@posix_only
def test_a_report_is_replaced_in_one_step(tmp_path):
    """A hard link to the old file keeps the old text, so it was not written in place; the mode stays."""
    path, old = tmp_path / "report.json", tmp_path / "old"
    write_text(str(path), "one")
    path.chmod(0o640)
    os.link(path, old)
    write_text(str(path), "two")
    assert (path.read_text(), old.read_text()) == ("two", "one")
    assert path.stat().st_mode & 0o777 == 0o640
    assert sorted(found.name for found in tmp_path.iterdir()) == ["old", "report.json"]
    with pytest.raises(InvalidRequest, match="is a folder"):
        write_text(str(tmp_path), "three")


@posix_only
def test_a_failed_report_leaves_nothing(tmp_path, monkeypatch):
    def fail(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(InvalidRequest, match="No space left"):
        write_text(str(tmp_path / "report.json"), "one")
    assert list(tmp_path.iterdir()) == []


@posix_only
def test_a_report_goes_into_a_pipe(tmp_path):
    reader, writer = os.pipe()
    link = tmp_path / "link"
    link.symlink_to(f"/dev/fd/{writer}")
    write_text(str(link), "told")
    os.close(writer)
    with os.fdopen(reader) as out:
        assert out.read() == "told"
