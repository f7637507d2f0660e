"""`llmstream map --batch` and `--shard`: the same file as one request a row."""

from __future__ import annotations

import json
import time

import pytest

from llmstream.testing import Refuse, Turn

PROMPT = ("--prompt", "{{q}}", "-q")


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(f'{{"id": {number}, "q": "q{number}"}}\n' for number in range(20)))
    return path


def ids(rows):
    return [row["id"] for row in rows]


def test_batch_writes_the_same_lines(map_with, counted, rows_of, source, tmp_path):
    one, other = counted(), counted()
    first, second = tmp_path / "b.jsonl", tmp_path / "c.jsonl"
    assert map_with(one, source, "-o", first, *PROMPT, "--batch", "--poll", "0.01").status == 0
    assert map_with(other, source, "-o", second, *PROMPT).status == 0
    assert one.asked == other.asked

    def without_cost(row):
        row["llmstream"].pop("cost", None)
        return row

    assert [without_cost(row) for row in rows_of(first)] == [without_cost(row) for row in rows_of(second)]
    assert sorted(path.name for path in tmp_path.iterdir() if path.name.startswith("b.")) == [
        "b.jsonl",
        "b.jsonl.run",
    ]


def test_batch_asks_only_what_is_missing(map_with, counted, rows_of, source, tmp_path):
    script, output = counted(), tmp_path / "b.jsonl"
    assert map_with(script, source, "-o", output, *PROMPT, "--limit", "5").status == 0
    assert map_with(script, source, "-o", output, *PROMPT, "--batch", "--poll", "0.01").status == 0
    assert ids(rows_of(output)) == list(range(20))
    assert set(script.asked.values()) == {1}
    assert map_with(script, source, "-o", output, *PROMPT, "--batch").status == 0
    assert script.asked.total() == 20


def test_failed_rows_of_a_batch(map_with, counted, rows_of, source, tmp_path):
    def reply(prompt):
        return Turn(fault=Refuse(status=400, message="no")) if prompt == "q3" and bad else Turn(text="fine")

    script, output, bad = counted(reply), tmp_path / "b.jsonl", True
    argv = (source, "-o", output, *PROMPT, "--batch", "--poll", "0.01")
    assert map_with(script, *argv).status == 3
    assert [row["id"] for row in rows_of(output) if row["answer"] is None] == [3]
    bad = False
    assert map_with(script, *argv, "--retry-failed").status == 0
    assert ids(rows_of(output)) == list(range(20))
    assert script.asked.total() == 21


def test_four_shards_are_the_whole(map_with, counted, rows_of, source, tmp_path):
    script, found = counted(), []
    for number in range(1, 5):
        output = tmp_path / f"b.{number}.jsonl"
        assert map_with(script, source, "-o", output, *PROMPT, "--shard", f"{number}/4").status == 0
        assert ids(rows_of(output)) == list(range(number - 1, 20, 4))
        found += ids(rows_of(output))
    assert sorted(found) == list(range(20))
    assert set(script.asked.values()) == {1}


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (("--batch",), "--batch needs -o FILE"),
        (("--batch", "-o", "OUT", "--max-cost", "2"), "--max-cost cannot stop a batch"),
        (("--batch", "-o", "OUT", "--rpm", "2"), "--rpm cannot be combined with --batch"),
        (("--batch", "-o", "OUT", "-m", "ollama:x"), "no batch API of ollama is known"),
        (("--finish-online",), "--finish-online needs --batch"),
    ],
)
def test_contradictions_are_refused(map_with, counted, source, tmp_path, argv, message):
    argv = [str(tmp_path / "out.jsonl") if word == "OUT" else word for word in argv]
    done = map_with(counted(), source, *PROMPT, *argv)
    assert done.status == 2
    assert message in done.err


@pytest.mark.slow
def test_killed_batch_goes_on(simulate, counted, spawn, rows_of, source, tmp_path, monkeypatch):
    """Killed while it waits for a batch; the same command goes on with it."""
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    script, output = counted(), tmp_path / "b.jsonl"
    url = simulate(script).url
    argv = ("map", source, "-m", "openai:m", "--base-url", f"{url}/v1", "-o", output, *PROMPT, "--batch")
    with spawn(*argv) as process:
        deadline = time.monotonic() + 60
        record = tmp_path / "b.jsonl.batch"
        while not (record.exists() and json.loads(record.read_text())["parts"]):
            assert time.monotonic() < deadline
            time.sleep(0.002)
        process.kill()
        process.wait(20)
    with spawn(*argv, "--poll", "0.01") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert ids(rows_of(output)) == list(range(20))
    assert set(script.asked.values()) == {1}
