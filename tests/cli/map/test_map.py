"""`llmstream map`: inputs and outputs, going on, failures, costs, and exit statuses."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import subprocess
import sys
import time

import pytest

from llmstream.simulator import Refuse, Turn

CITIES = ["Oslo", "Rome", "Zürich"]


@pytest.fixture
def cities(tmp_path):
    path = tmp_path / "cities.txt"
    path.write_text("".join(f"{city}\n" for city in CITIES), encoding="utf-8")
    return path


def test_lines_in_and_json_lines_out(map_with, counted, cities):
    script = counted()
    done = map_with(
        script, cities, "--prompt", "Where is {{text}}?", "--system", "Be brief.", "--temperature", "0.5"
    )
    assert done.status == 0
    rows = [json.loads(line) for line in done.out.splitlines()]
    assert [row["text"] for row in rows] == CITIES
    assert [row["answer"] for row in rows] == [f"to Where is {city}?" for city in CITIES]
    assert "3 rows, " in done.err
    assert script.requests[0].messages[0].text == "Be brief."
    assert script.requests[0].settings.temperature == 0.5


def test_csv_in_and_csv_out(map_with, counted, tmp_path):
    source, output = tmp_path / "a.csv", tmp_path / "b.csv"
    source.write_bytes('\ufeffid;"the text"\r\n1;"x; ""y""\r\nz"\r\n2;ü\r\n'.encode())
    answer = '{"score": 3, "why": "a, \\"b\\""}'
    script = counted(lambda prompt: Turn(text=answer))
    done = map_with(
        script, source, "--prompt", '{"it": {{the text}}}', "--schema", "score int, why", "-o", output
    )
    assert (done.status, done.out) == (0, "")
    assert sorted(script.asked) == ['{"it": x; "y"\r\nz}', '{"it": ü}']
    with open(output, encoding="utf-8", newline="") as file:
        first, second = csv.DictReader(file)
    assert (first["id"], first["the text"], first["score"], first["why"]) == (
        "1",
        'x; "y"\r\nz',
        "3",
        'a, "b"',
    )
    assert (second["the text"], second["model"], second["error"]) == ("ü", "openai:m", "")
    schema = script.requests[0].response_format.schema
    assert schema["properties"] == {"score": {"type": "integer"}, "why": {"type": "string"}}


def test_rows_with_prompts_and_messages(map_with, counted, tmp_path, rows_of):
    source, output = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    rows = [{"id": 1, "prompt": "Hello"}, {"id": 2, "messages": chat}]
    source.write_text("\n".join(map(json.dumps, rows)) + "\n\n")
    script = counted()
    assert map_with(script, source, "-o", output).status == 0
    assert [(row["id"], row["answer"]) for row in rows_of(output)] == [(1, "to Hello"), (2, "to Hi")]


@pytest.mark.slow
def test_standard_input_may_be_slow(simulate, counted, tmp_path):
    """The first answer is there while the input is still open."""
    url = simulate(counted()).url
    command = [sys.executable, "-m", "llmstream", "map", "-", "-m", "openai:m", "--base-url", f"{url}/v1"]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "OPENAI_API_KEY": "k"},
    ) as process:
        process.stdin.write(b'{"prompt": "one"}\n')
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["answer"] == "to one"
        process.stdin.write(b'{"prompt": "two"}\n')
        process.stdin.close()
        assert json.loads(process.stdout.readline())["answer"] == "to two"
        assert process.wait(20) == 0


def test_same_command_asks_no_row_twice(map_with, counted, cities, tmp_path, rows_of):
    script, output = counted(), tmp_path / "b.jsonl"
    argv = (cities, "--prompt", "{{text}}", "-o", output)
    assert map_with(script, *argv, "--limit", 2).status == 0
    assert [row["text"] for row in rows_of(output)] == CITIES[:2]
    done = map_with(script, *argv)
    assert "3 rows, 1 of them in this run" in done.err
    assert map_with(script, *argv).status == 0
    assert script.asked == dict.fromkeys(CITIES, 1)
    other = map_with(script, cities, "--prompt", "Other {{text}}", "-o", output)
    assert other.status == 2
    assert "the output of a run with another prompt" in other.err


def test_failed_rows_are_status_3(map_with, counted, cities, tmp_path, rows_of):
    output, broken = tmp_path / "b.jsonl", ["Rome"]
    script = counted(lambda prompt: Turn(fault=Refuse(status=400)) if prompt in broken else Turn(text=prompt))
    argv = (cities, "--prompt", "{{text}}", "-o", output)
    done = map_with(script, *argv)
    assert done.status == 3
    assert "1 failed (bad-request 1)" in done.err
    assert "--retry-failed sends the failed rows again" in done.err
    (failed,) = [row for row in rows_of(output) if row["answer"] is None]
    assert (failed["text"], failed["llmstream"]["error"]["code"]) == ("Rome", "bad-request")
    assert map_with(script, *argv).status == 3
    broken.clear()
    assert map_with(script, *argv, "--retry-failed").status == 0
    assert [row["answer"] for row in rows_of(output)] == CITIES
    assert script.asked == {"Oslo": 1, "Rome": 2, "Zürich": 1}


def test_bad_rows_fail_alone(map_with, counted, tmp_path, rows_of):
    source, output = tmp_path / "a.jsonl", tmp_path / "b.jsonl"
    source.write_bytes(b'{"prompt": "a"}\n{"prompt"\n[1]\n{"other": 1}\n\xff\xff\n')
    script = counted()
    assert map_with(script, source, "-o", output).status == 3
    good, *bad = rows_of(output)
    assert good["answer"] == "to a"
    problems = [row["llmstream"]["error"]["message"] for row in bad]
    assert problems[0].startswith("line 2 is not JSON")
    assert problems[1] == "line 3 is JSON, but neither an object nor a string"
    assert problems[2].startswith("the row has neither a column 'prompt' nor 'messages'; it has: other")
    assert len(problems) == 4
    assert script.asked == {"a": 1}


@pytest.mark.parametrize(
    ("argv", "problem"),
    [
        (["--prompt", "Say {text}"], "Write {{text}} to insert the column text"),
        (["--prompt", "Say {{txt}}"], "Did you mean {{text}}?"),
        (["--prompt", "{{text}}", "--limit", "few"], "--limit: expected a number from 1 on, not 'few'"),
        (["--prompt", "Say it"], "the prompt has no {{column}}"),
        (["--prompt", "a", "--prompt-file", "b"], "Pass one of them"),
        (["--prompt", "{{text}}", "--schema", "a complex"], "Types are str, int, float and bool"),
        (["--prompt", "{{text}}", "--retry-failed"], "--retry-failed needs -o FILE"),
        (["--prompt", "{{text}}", "--json"], "--json needs -o FILE"),
        (["--prompt", "{{text}}", "--fallback", "gpt-4"], "does not name a provider"),
        (["--prompt", "{{text}}", "--max-cost", "1"], "no price of openai:m is known"),
        (["--prompt", "{{text}}", "-o", "/nowhere/b.jsonl"], "cannot write /nowhere/b.jsonl"),
    ],
)
def test_usage_errors_are_status_2(map_with, counted, cities, argv, problem):
    script = counted()
    done = map_with(script, cities, *argv)
    assert done.status == 2
    assert problem in done.err
    assert not script.asked


@pytest.mark.parametrize(
    ("name", "data", "problem"),
    [
        ("none.jsonl", None, "cannot read"),
        ("empty.jsonl", b"\n", "has no rows"),
        ("array.json", b"[]", "jq -c '.[]'"),
        ("wide.csv", "a,b\n".encode("utf-16"), "iconv -f UTF-16"),
        ("latin.csv", b"a,b\n\xe4,1\n", "iconv -f WINDOWS-1252"),
        ("twice.csv", b"a,a\n1,2\n", "it has 'a' 2 times"),
        ("answer.csv", b"answer\n1\n", "the input has a column 'answer'"),
    ],
)
def test_unusable_inputs_are_status_2(map_with, counted, tmp_path, name, data, problem):
    path = tmp_path / name
    if data is not None:
        path.write_bytes(data)
    done = map_with(counted(), path, "--prompt", "{{a}}{{answer}}"[5 * (name[:2] == "an") :][:10])
    assert done.status == 2
    assert problem in done.err


def test_output_may_not_be_the_input(map_with, counted, cities):
    done = map_with(counted(), cities, "--prompt", "{{text}}", "-o", cities)
    assert (done.status, "is the input" in done.err) == (2, True)


def test_dry_run_sends_nothing(map_with, counted, cities, tmp_path, monkeypatch):
    pytest.importorskip("genai_prices", reason="prices come with the extra `prices`")
    script = counted()
    done = map_with(script, cities, "--prompt", "Where is {{text}}?", "--dry-run", "-o", tmp_path / "b.jsonl")
    assert done.status == 0
    assert done.out.startswith("3 rows\nabout ")
    assert "the first prompt: Where is Oslo?" in done.out
    assert "no price of openai:m is known" in done.out
    priced = map_with(script, cities, "-m", "openai:gpt-5-mini", "--prompt", "{{text}}", "--dry-run")
    assert "with openai:gpt-5-mini" in priced.out
    assert "$" in priced.out
    assert not script.asked
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == ["cities.txt"]


def test_estimate_is_printed_first(map_with, counted, cities, tmp_path):
    """Until all rows are answered: then there is nothing to pay."""
    script, argv = counted(), (cities, "--prompt", "Where is {{text}}?", "-o", tmp_path / "b.jsonl")
    first, *_ = map_with(script, *argv, "--limit", 2).err.splitlines()
    assert first.startswith("llmstream: 2 rows; about 7 tokens of input, and 400 of output at 200 an answer")
    first, *_ = map_with(script, *argv).err.splitlines()
    assert first.startswith("llmstream: 3 rows, 2 of them already in the output; about ")
    assert "already in the output" not in map_with(script, *argv).err


def test_max_cost_pauses_with_status_75(map_with, counted, tmp_path, rows_of):
    pytest.importorskip("genai_prices", reason="prices come with the extra `prices`")
    source, output = tmp_path / "a.txt", tmp_path / "b.jsonl"
    source.write_text("".join(f"{'word ' * 4000}{number}\n" for number in range(30)))
    argv = (source, "-m", "openai:gpt-5-mini", "--prompt", "{{text}}", "-o", output)
    script = counted(lambda prompt: Turn(text="yes"))
    one = map_with(script, *argv, "--limit", 1, "--json")
    each = json.loads(one.out)["cost"]
    assert each > 0
    done = map_with(script, *argv, "--max-cost", f"{10 * each}", "-c", 2)
    assert done.status == 75
    assert "raise --max-cost and run the same command again" in done.err
    assert len(rows_of(output)) == sum(script.asked.values())
    assert 9 <= len(rows_of(output)) <= 11


def test_summary_as_json(map_with, counted, cities, tmp_path):
    output = tmp_path / "b.jsonl"
    done = map_with(counted(), cities, "--prompt", "{{text}}", "-o", output, "--json", "--quiet")
    found = json.loads(done.out)
    assert done.err == ""
    assert (found["status"], found["rows"], found["done"], found["failed"]) == ("complete", 3, 3, {})
    assert found["usage"]["outputTokens"] > 0
    assert found["output"] == str(output)


def test_wrong_key_is_reported_once(map_with, counted, cities, tmp_path):
    script = counted(lambda prompt: Turn(fault=Refuse(status=401, message="wrong key")))
    done = map_with(script, cities, "--prompt", "{{text}}", "-o", tmp_path / "b.jsonl")
    assert done.status == 3
    assert done.err.count("wrong key") == 1
    assert not (tmp_path / "b.jsonl").exists()


def test_used_up_quota_is_status_75(map_with, counted, cities, tmp_path):
    script = counted(
        lambda prompt: Turn(text="yes") if prompt == "Oslo" else Turn(fault=Refuse(status=402, message="pay"))
    )
    done = map_with(script, cities, "--prompt", "{{text}}", "-o", tmp_path / "b.jsonl", "-c", 1)
    assert done.status == 75
    assert "to continue, run the same command again" in done.err


def test_a_full_device_is_status_75(map_with, counted, cities):
    done = map_with(counted(), cities, "--prompt", "{{text}}", "-o", "/dev/full")
    assert done.status == 75
    assert "No space left on device" in done.err


@pytest.mark.parametrize("number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)])
def test_ctrl_c_finishes_requests(simulate, counted, spawn, tmp_path, monkeypatch, rows_of, number):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    script, source, output = counted(pause_s=0.3), tmp_path / "a.txt", tmp_path / "b.jsonl"
    source.write_text("".join(f"row {number}\n" for number in range(500)))
    url = simulate(script).url
    argv = ("map", source, "-m", "openai:m", "--base-url", f"{url}/v1", "--prompt", "{{text}}", "-o", output)
    with spawn(*argv) as process:
        while not (output.exists() and output.stat().st_size):
            time.sleep(0.02)
        process.send_signal(number)
        _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert b"to continue, run the same command again" in err
    assert len(rows_of(output)) == sum(script.asked.values()) < 500


@pytest.mark.slow
def test_second_ctrl_c_ends_at_once(simulate, counted, spawn, tmp_path, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    script, source = counted(pause_s=60), tmp_path / "a.txt"
    source.write_text("a\nb\n")
    url = simulate(script).url
    with spawn("map", source, "-m", "openai:m", "--base-url", f"{url}/v1", "--prompt", "{{text}}") as process:
        while not script.asked:
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        message = next(line for line in process.stderr if b"in progress" in line)
        assert b"waiting for 2 requests in progress" in message
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130


@pytest.mark.slow
def test_closed_pipe_ends_quietly(simulate, counted, cities):
    url = simulate(counted()).url
    command = (
        f"{sys.executable} -m llmstream map {cities} -m openai:m --base-url {url}/v1 --prompt '{{{{text}}}}'"
    )
    found = subprocess.run(
        ["sh", "-c", f"{command} | true"],
        capture_output=True,
        check=False,
        env={**os.environ, "OPENAI_API_KEY": "k"},
    )
    assert b"Traceback" not in found.stderr


def test_fallback_answers_for_the_first(map_with, counted, simulate, cities, monkeypatch):
    """Both models are of one simulator; the first is refused."""

    def answer(prompt: str) -> Turn:
        return Turn(text="second") if script.requests[-1].model == "other" else Turn(fault=Refuse(status=400))

    script = counted(answer)
    script.url = simulate(script).url
    monkeypatch.setenv("OPENAI_BASE_URL", f"{script.url}/v1")
    done = map_with(script, cities, "--prompt", "{{text}}", "--fallback", "openai:other")
    assert done.status == 0
    assert {json.loads(line)["llmstream"]["model"] for line in done.out.splitlines()} == {"openai:other"}


def test_as_done_has_the_arrival_order(map_with, counted, tmp_path, rows_of):
    from llmstream.simulator import Pace

    source = tmp_path / "a.txt"
    source.write_text("slow\nquick\n")
    script = counted(lambda p: Turn(text=p, pace=Pace(first_s=0.3 if p == "slow" else 0.0)))
    for name, options, expected in (("a", (), ["slow", "quick"]), ("b", ("--as-done",), ["quick", "slow"])):
        output = tmp_path / f"{name}.jsonl"
        assert map_with(script, source, "--prompt", "{{text}}", "-o", output, *options).status == 0
        assert [row["text"] for row in rows_of(output)] == expected


def test_a_dollar_needs_a_confirmation(map_with, counted, cities, monkeypatch):
    pytest.importorskip("genai_prices", reason="prices come with the extra `prices`")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    script = counted()
    for typed, asked in (("n\n", 0), ("y\n", 3)):
        monkeypatch.setattr(sys, "stdin", Terminal(typed))
        shown = Terminal()
        monkeypatch.setattr(sys, "stderr", shown)
        argv = ("-m", "openai:gpt-4o", "--system", "x" * 600_000, "--prompt", "{{text}}", "--quiet")
        assert map_with(script, cities, *argv).status == 0
        assert "Continue? [y/N]" in shown.getvalue()
        assert sum(script.asked.values()) == asked
