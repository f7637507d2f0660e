"""`llmstream bench`: its statistics, its clock, its report, and runs against simulators."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import signal
import socket
import xml.etree.ElementTree as ET
from itertools import pairwise
from types import SimpleNamespace

import msgspec
import pytest

from llmstream.cli import main
from llmstream.cli.bench_files import write_text
from llmstream.cli.bench_load import arrivals, closed_loop, open_loop
from llmstream.cli.bench_overhead import Overhead
from llmstream.cli.bench_progress import Progress
from llmstream.cli.bench_prompts import lines_of, made_prompt
from llmstream.cli.bench_report import Load, Report, compare, report_of
from llmstream.cli.bench_sample import Sample
from llmstream.cli.bench_stats import histogram, percentile, spread
from llmstream.cli.bench_svg import svg
from llmstream.cli.bench_table import report_lines, seconds
from llmstream.errors import InvalidRequest
from llmstream.simulator import Pace, Refuse, Script, Turn

HEADS = ["first event", "first token", "between tokens", "end to end"]


# What numbers come to


@pytest.mark.parametrize(("percent", "value"), [(0, 10), (25, 20), (50, 30), (90, 46), (100, 50)])
def test_percentiles_are_interpolated(percent, value):
    assert percentile([10, 20, 30, 40, 50], percent) == pytest.approx(value)


def test_the_only_value_is_every_percentile():
    found = spread([7.0])
    assert {found.p50, found.p90, found.p99, found.min, found.max, found.mean} == {7.0}
    assert spread([]) is None


def test_a_histogram_counts_every_value_once():
    assert [b.size for b in histogram([0, 1, 2, 3, 4, 5, 6, 7, 8, 10], bins=5)] == [2, 2, 2, 2, 2]
    assert histogram([]) == []
    assert histogram([3.0, 3.0]) == [(3.0, 3.0, 2)]


def test_a_wide_range_has_bins_of_equal_ratio():
    bins = histogram([1.0, 11.0, 101.0, 1000.0], bins=3)
    assert [b.size for b in bins] == [1, 1, 2]
    assert [round(b.high) for b in bins] == [10, 100, 1000]


@pytest.mark.parametrize(
    ("value", "shown"),
    [(2.5, "2.50 s"), (0.0123, "12.3 ms"), (0.25, "250 ms"), (0.00005, "50.0 us"), (0, "0.00 us")],
)
def test_durations_have_three_digits(value, shown):
    assert seconds(value) == shown


# When requests are sent


class Clock:
    """A clock that only moves when someone sleeps on it."""

    def __init__(self) -> None:
        self.at = 100.0

    def now(self) -> float:
        return self.at

    async def sleep(self, seconds: float) -> None:
        self.at += seconds
        await asyncio.sleep(0)


def test_arrivals_are_seeded_and_have_the_rate():
    due = list(arrivals(4000, 20.0, seed=3))
    assert due == list(arrivals(4000, 20.0, seed=3))
    assert due != list(arrivals(4000, 20.0, seed=4))
    assert due[0] == 0
    assert due[-1] == pytest.approx(4000 / 20, rel=0.05)
    gaps = [b - a for a, b in pairwise(due)]
    assert sum(g < 0.05 for g in gaps) / len(gaps) == pytest.approx(0.632, abs=0.03)  # 1 - 1/e


async def test_an_open_loop_does_not_wait_for_answers():
    clock, seen, over = Clock(), [], asyncio.Event()

    async def one(number, due):
        seen.append((number, due))
        if len(seen) == 3:
            over.set()
        await over.wait()  # none is answered before all have been sent

    await asyncio.wait_for(open_loop(one, iter([0.0, 1.0, 2.5]), clock.now, clock.sleep), 5)
    assert seen == [(0, 100.0), (1, 101.0), (2, 102.5)]


async def test_an_open_loop_that_is_late_keeps_what_was_due():
    clock, seen = Clock(), []

    async def one(number, due):
        seen.append((due, clock.now()))

    async def oversleep(seconds):
        clock.at += seconds + 10
        await asyncio.sleep(0)

    await open_loop(one, iter([0.0, 1.0, 2.0]), clock.now, oversleep)
    assert [due for due, _ in seen] == [100.0, 101.0, 102.0]
    assert seen[-1][1] == 111.0


async def test_a_closed_loop_has_so_many_under_way():
    under_way, most, seen = 0, 0, []

    async def one(number, due):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await asyncio.sleep(0)
        under_way -= 1
        seen.append(number)

    await closed_loop(one, 10, 3)
    assert (most, sorted(seen)) == (3, list(range(10)))


async def test_what_is_wrong_with_one_request_is_raised_as_it_is():
    async def one(number, due):
        raise InvalidRequest("wrong")

    with pytest.raises(InvalidRequest, match="wrong"):
        await closed_loop(one, 5, 2)
    with pytest.raises(InvalidRequest, match="wrong"):
        await open_loop(one, iter([0.0, 0.0]))


# Prompts


def test_made_prompts_have_a_length_and_differ():
    assert len(made_prompt(0, tokens=40, seed=1).split()) == 40
    assert made_prompt(0, tokens=40, seed=1) == made_prompt(0, tokens=40, seed=1)
    assert len({made_prompt(number, tokens=40, seed=1) for number in range(-2, 20)}) == 22


def test_a_file_has_a_prompt_a_line(tmp_path):
    path = tmp_path / "prompts.txt"
    path.write_text("One?\n\n  Two? \n")
    assert lines_of(str(path)) == ["One?", "Two?"]
    path.write_text("\n")
    with pytest.raises(InvalidRequest, match="no prompt"):
        lines_of(str(path))


# Reports


def sample(number: int, **fields) -> Sample:
    given = {"first_event_s": 0.1, "first_token_s": 0.2, "end_s": 1.2, "writing_s": 1.0, "fragments": 11}
    return Sample(**{"number": number, "gaps_s": [0.1] * 10, "output_tokens": 20, **given, **fields})


def report(*samples: Sample, requests: int = 0, wall_s: float = 2.0) -> Report:
    load = Load(model="sim:<a&b>", requests=requests or len(samples), concurrency=2)
    return report_of(
        load,
        samples,
        wall_s=wall_s,
        unfinished=load.requests - len(samples),
        overhead=Overhead(cpu_share=0.25, loop_lag_s=spread([0.001])),
    )


def test_a_report_has_known_answers():
    found = report(sample(1), sample(0, first_token_s=0.4), sample(2, error="overloaded", end_s=99.0))
    assert (found.completed, found.errors) == (2, {"overloaded": 1})
    assert (found.requests_per_s, found.tokens_per_s) == (1.0, 20.0)
    assert found.first_token_s.p50 == pytest.approx(0.3)
    assert found.end_to_end_s.max == 1.2
    assert found.between_tokens_s.count == 20
    assert found.request_tokens_per_s.p50 == 20.0
    assert [s.number for s in found.samples] == [0, 1, 2]


def test_fragments_stand_for_tokens_that_nobody_counted():
    found = report(sample(0, output_tokens=None))
    assert (found.tokens_by, found.tokens_per_s) == ("fragments", 5.5)
    assert any("tokens are fragments" in line for line in report_lines(found))


def test_a_report_survives_json():
    found = report(sample(0), sample(1, error="not-found"))
    again = msgspec.json.decode(found.to_json(), type=Report)
    assert again == found
    assert json.loads(found.to_json())["firstTokenS"]["p50"] == 0.2


def test_a_report_of_failures_and_of_nothing_can_be_shown():
    for found in (report(sample(0, error="not-found")), report(requests=4)):
        assert "\n".join(report_lines(found))
        ET.fromstring(svg(found))


def test_two_runs_are_compared_by_ratio():
    changes = {c.name: c for c in compare(report(sample(0)), report(sample(0, first_token_s=0.6)))}
    assert changes["first token p50"].ratio == pytest.approx(3.0)
    assert changes["end to end p99"].ratio == pytest.approx(1.0)
    assert changes["errors"].ratio is None


def test_the_plot_is_well_formed_and_has_a_curve_each():
    one, two = report(sample(0), sample(1, first_token_s=0.0)), report(sample(0))
    drawn = ET.fromstring(svg(one, two))
    curves = drawn.findall("{http://www.w3.org/2000/svg}polyline")
    assert len(curves) == 4
    assert sum("stroke-dasharray" in c.attrib for c in curves) == 2
    assert "sim:<a&b>" in drawn.find("{http://www.w3.org/2000/svg}title").text


SVG = "{http://www.w3.org/2000/svg}"


def texts_of(drawn: ET.Element) -> dict[str, ET.Element]:
    return {text.text: text for text in drawn.iter(f"{SVG}text")}


@pytest.mark.parametrize("factor", [1e-6, 0.0011, 0.1, 1.0, 70.0])
def test_every_tick_of_the_plot_is_inside_it(factor):
    found = report(*(sample(n, first_token_s=factor * n, end_s=factor * 9 * n) for n in range(1, 12)))
    drawn = ET.fromstring(svg(found))
    width = float(drawn.attrib["viewBox"].split()[2])
    ticks = {name: t for name, t in texts_of(drawn).items() if re.fullmatch(r"[\d.]+ [mu]?s", name)}
    assert len(ticks) >= 2
    for name, tick in ticks.items():
        half = len(name) * 12 * 0.6 / 2
        assert half < float(tick.attrib["x"]) < width - half
    points = " ".join(line.attrib["points"] for line in drawn.iter(f"{SVG}polyline"))
    xs = [float(x) for x in re.findall(r"([\d.]+),", points)]
    assert 0 < min(xs) <= max(xs) < width


def test_the_plot_names_its_axes_and_percentiles():
    drawn = ET.fromstring(svg(report(*(sample(n, first_token_s=0.1 + n) for n in range(101)))))
    texts = texts_of(drawn)
    assert "time since the request was due (logarithmic scale)" in texts
    assert "share of requests" in texts
    assert {"p50", "p99"} <= set(texts)
    assert "first token: p50 50.1 s, p99 99.1 s" in texts
    marks = [title.text for title in drawn.iter(f"{SVG}title")]
    assert "first token p50: 50.1 s" in marks
    assert "end to end p99: 1.20 s" in marks


# Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_shows_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr("llmstream.cli.bench_progress._bar_of", lambda total, out: None)
    for out, shown in ((Terminal(), True), (io.StringIO(), False)):
        with Progress(2, out) as progress:
            progress.advance()
            progress.advance(failed=True)
        assert ("2/2, 1 failed" in out.getvalue()) is shown


def test_progress_is_a_bar_with_rich():
    pytest.importorskip("rich")
    out = Terminal()
    with Progress(2, out) as progress:
        progress.advance()
        progress.advance()
    assert "2/2" in out.getvalue()


# The command


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


def test_a_rate_and_json_alone_on_standard_output(bench):
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
    assert "the loads differ" in done.out
    assert len(ET.parse(plot).getroot().findall("{http://www.w3.org/2000/svg}polyline")) == 4


def test_prompts_and_the_longest_answer_reach_the_server(bench, simulate, monkeypatch, tmp_path):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So."),)))
    path = tmp_path / "prompts.txt"
    path.write_text("One?\nTwo?\n")
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    assert bench(*to, "-n", 3, "-c", 1, "--warmup", 0, "--prompts", path, "--max-tokens", 9).status == 0
    asked = [r.request for r in simulator.requests]
    assert [r.messages[-1].text_content for r in asked] == ["One?", "Two?", "One?"]
    assert {r.settings.max_output_tokens for r in asked} == {9}


def test_time_to_the_first_token_is_that_of_the_server(bench, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So it is."),)), pace=Pace(first_s=0.05))
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    found = json.loads(bench(*to, "-n", 2, "--warmup", 0, "--json", "-").out)
    assert found["firstTokenS"]["min"] >= 0.05


def test_failures_are_counted_by_code_and_not_tried_again(bench, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(fault=Refuse(status=503)),)))
    done = bench("-m", "openai:m", "--base-url", f"{simulator.url}/v1", "-n", 3, "--warmup", 0)
    assert done.status == 3
    assert "errors: 3 of 3: 3 overloaded" in done.out
    assert len(simulator.requests) == 3


def test_failures_are_explained_once_with_the_address(bench, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/v1"
        done = bench("-m", "openai:m", "--base-url", url, "-n", 3, "--warmup", 0)
    assert done.status == 3
    assert done.out.count("cannot connect to 127.0.0.1") == 1
    assert done.out.count(f"the requests went to {url}") == 1
    assert "base_url" not in done.out
    assert "overhead" not in done.out


def test_the_overhead_of_a_moment_is_not_told():
    assert "overhead: the run was too short to measure it" in report_lines(report(sample(0), wall_s=0.1))
    lines = list(report_lines(report(sample(0), wall_s=2.0)))
    assert "overhead: this process took 25% of a core, its simulator included" in lines
    assert "  its event loop ran 1.00 ms (p50) and 1.00 ms (p99) late:" in lines


def test_a_model_without_a_provider_is_guessed(bench):
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
        (["-m", "sim:demo", "-n", "9" * 5000], "invalid"),
        (["-m", "sim:demo", "--prompt-tokens", "1000000000"], "a number from 1"),
        (["-m", "sim:demo", "--json", "same", "--svg", "./same"], "both name"),
        (["-m", "sim:demo", "--rate", "fast"], "a rate is written"),
        (["-m", "sim:demo", "--rate", "0/s"], "a rate is written"),
        (["-m", "sim:demo", "--rate", "2/s", "-c", "2"], "not allowed with"),
        (["-m", "sim:demo", "--compare", "/nowhere.json"], "cannot read"),
        (["-m", "sim:demo", "--prompts", "/nowhere.txt"], "cannot read"),
        (["-m", "sim:demo", "--json", "/nowhere/out.json"], "no such folder"),
    ],
)
def test_wrong_usage_is_status_2(bench, argv, told):
    done = bench(*argv)
    assert done.status == 2
    assert told in done.err


def test_two_saved_runs_are_compared_and_nobody_is_asked(bench, tmp_path):
    paths = [tmp_path / "before.json", tmp_path / "after.json"]
    for path, first_token_s in zip(paths, (0.2, 0.6), strict=True):
        path.write_bytes(report(sample(0, first_token_s=first_token_s)).to_json())
    done = bench("-m", "no-such-provider:any", "--compare", *paths)
    assert done.status == 0
    assert "3.00x" in next(line for line in done.out.splitlines() if "first token p50" in line)


def test_three_reports_are_too_many(bench, tmp_path):
    path = tmp_path / "report.json"
    path.write_bytes(report(sample(0)).to_json())
    done = bench("--compare", path, path, path)
    assert done.status == 2
    assert "or two" in done.err


def test_only_reports_can_be_compared(bench, tmp_path):
    path = tmp_path / "other.json"
    for text, told in (("{}", "no report"), (report(sample(0)).to_json().decode(), "")):
        path.write_text(text.replace('"version": 1', '"version": 9'))
        done = bench("-m", "sim:demo", "-n", 1, "--compare", path)
        assert done.status == 2
        assert told in done.err


def test_deep_json_is_no_report(bench, tmp_path):
    path = tmp_path / "deep.json"
    path.write_text('{"load":' * 100_000)
    done = bench("-m", "sim:demo", "-n", 1, "--compare", path)
    assert done.status == 2
    assert "no report" in done.err


def test_a_plot_holds_no_control_characters():
    one = msgspec.structs.replace(report(sample(0)), load=Load(model="sim:\x1b[2J\x00m", requests=1))
    assert ET.fromstring(svg(one, None)) is not None
    assert "\x1b" not in svg(one, None)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_with_a_report(number, spawn, simulate, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-tests")
    simulator = simulate(Script((Turn(text="So."), Turn(text="Slow.", pace=Pace(first_s=60.0)))))
    to = ("-m", "openai:m", "--base-url", f"{simulator.url}/v1")
    with spawn("bench", *to, "-n", 9, "-c", 2, "--warmup", 0) as process:
        _until(lambda: len(simulator.requests) >= 3)
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"requests did not end" in out
    assert b"what came is reported" in err


def _until(met) -> None:
    import time

    for _ in range(1000):
        if met():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to that")


posix_only = pytest.mark.skipif(os.name != "posix", reason="links and pipes as POSIX has them")


@posix_only
def test_a_report_is_not_written_through_a_link(bench, tmp_path):
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
