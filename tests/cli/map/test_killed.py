"""kill -9 at any moment, and the same command again: every row once, and next to nothing paid twice."""

from __future__ import annotations

import random
import time

import pytest

ROWS = 150
CONCURRENCY = 8


def killed_and_continued(simulate, counted, spawn, tmp_path, rows_of, *, kills: int, suffix: str) -> None:
    script = counted(pause_s=0.05)
    source, output = tmp_path / "a.jsonl", tmp_path / f"b.{suffix}"
    source.write_text("".join(f'{{"id": {number}, "q": "q{number}"}}\n' for number in range(ROWS)))
    url, rng = simulate(script).url, random.Random(7)
    argv = ("map", source, "-m", "openai:m", "--base-url", f"{url}/v1", "--prompt", "{{q}}", "-o", output)
    argv = (*argv, "-c", CONCURRENCY)
    for _ in range(kills):
        asked = sum(script.asked.values())
        with spawn(*argv) as process:
            while sum(script.asked.values()) == asked and process.poll() is None:
                time.sleep(0.005)
            time.sleep(rng.random() * 0.9 * ROWS / CONCURRENCY * 0.05 / kills)
            process.kill()
            process.wait(20)
    with spawn(*argv) as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    if suffix == "jsonl":
        assert [row["id"] for row in rows_of(output)] == list(range(ROWS))
    else:
        lines = output.read_text().splitlines()[1:]
        assert [int(line.partition(",")[0]) for line in lines] == list(range(ROWS))
    assert len(script.asked) == ROWS
    assert ROWS < sum(script.asked.values()) <= ROWS + CONCURRENCY * kills


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["jsonl", pytest.param("csv", marks=pytest.mark.exhaustive)])
def test_twenty_kills_lose_nothing(simulate, counted, spawn, tmp_path, rows_of, monkeypatch, suffix):
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    killed_and_continued(simulate, counted, spawn, tmp_path, rows_of, kills=20, suffix=suffix)
