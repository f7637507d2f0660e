"""The output as checkpoint: torn lines, other runs, failed rows, order, full disks."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
from pathlib import Path

import msgspec
import pytest

import llmstream as ls
from llmstream.errors import InvalidRequest
from llmstream.mapping.keep import Identity, Keep, KeepFailed
from llmstream.mapping.lines import CSVLines, JSONLines


class City(msgspec.Struct):
    name: str
    people: int


IDENTITY = Identity("openai:m", "{{a}}", {"settings": {"temperature": 0.5}})
WORDS = [f"word {number}" for number in range(12)]


async def all_of(run: ls.MapRun) -> list[ls.MapResult]:
    async with run:
        return [done async for done in run]


def rows_in(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()]


async def test_second_run_asks_nothing(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    first = await all_of(ls.map(vendor.model(), WORDS, keep=path))
    before = path.read_bytes()
    run = ls.map(vendor.model(), WORDS, keep=path)
    second = await all_of(run)
    assert path.read_bytes() == before
    assert vendor.paid == len(WORDS)
    assert all(done.stored for done in second)
    assert not any(done.stored for done in first)
    assert {d.item: d.value.text for d in second} == {d.item: d.value.text for d in first}
    assert run.progress.usage.total_tokens == sum(done.usage.total_tokens for done in first)


async def test_typed_values_are_read_back(vendor, tmp_path):
    vendor.answer = lambda prompt, time: '{"name": "Oslo", "people": 7}'
    for stored in (False, True):
        run = ls.map(vendor.model(), ["Oslo"], output=City, keep=tmp_path / "a.jsonl")
        (done,) = await all_of(run)
        assert (done.value, done.stored) == (City("Oslo", 7), stored)


@pytest.mark.slow
async def test_torn_line_is_cut_off(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), WORDS[:3], keep=path, ordered=True))
    data = path.read_bytes()
    last = data.rindex(b"\n", 0, -1) + 1
    for end in range(last, len(data)):
        path.write_bytes(data[:end])
        asked = vendor.paid
        await all_of(ls.map(vendor.model(), WORDS[:3], keep=path, ordered=True))
        assert vendor.paid == asked + 1
        assert [row["text"] for row in rows_in(path)] == WORDS[:3]


def test_torn_csv_is_cut_at_a_record(tmp_path):
    path, lines = tmp_path / "a.csv", CSVLines(["a"])
    record = lines.encode({"a": 'x "y"\nz\n'}, ls.MapResult(item=0, index=0, _value="q\n\n"), 5)
    keep = Keep(path, lines, IDENTITY)
    keep.append(record)
    keep.close()
    whole = path.read_bytes()
    for end in range(len(whole) + 1):
        path.write_bytes(whole[:end])
        keep = Keep(path, lines, IDENTITY)
        assert keep.earlier.done == (end == len(whole))
        if not keep.earlier.done:
            keep.append(record)
        keep.close()
        assert path.read_bytes() == whole


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"model": "other"}, "model"),
        ({"prompt": "Say {{text}}"}, "prompt"),
        ({"temperature": 0.1}, "settings"),
        (
            {"output": {"type": "object", "properties": {}}, "instructions": "Be brief."},
            "response_format and system",
        ),
    ],
)
async def test_another_run_is_refused(vendor, tmp_path, change: dict, names: str):
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), WORDS[:2], prompt="{{text}}", keep=path))
    before = path.read_bytes()
    model = vendor.model()
    model.name = change.pop("model", "m")
    with pytest.raises(InvalidRequest, match=f"the output of a run with another {names}\\. Choose another"):
        await all_of(ls.map(model, WORDS, keep=path, **{"prompt": "{{text}}", **change}))
    assert path.read_bytes() == before


async def test_other_files_stay_as_they_are(vendor, tmp_path):
    path = tmp_path / "notes.jsonl"
    path.write_text("my notes\n")
    with pytest.raises(
        InvalidRequest, match=r"notes\.jsonl\.run does not, so the inputs of its answers are unknown"
    ):
        await all_of(ls.map(vendor.model(), WORDS, keep=path))
    assert path.read_text() == "my notes\n"
    assert vendor.paid == 0


async def test_a_changed_line_is_reported(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), WORDS[:3], keep=path))
    path.write_bytes(path.read_bytes() + b"rubbish\n")
    with pytest.raises(InvalidRequest, match="record 4 was not written by llmstream map"):
        await all_of(ls.map(vendor.model(), WORDS[:3], keep=path))


async def test_one_process_writes_a_file(vendor, tmp_path):
    keep = Keep(tmp_path / "a.jsonl", JSONLines(), IDENTITY)
    with pytest.raises(InvalidRequest, match="another process is writing"):
        Keep(tmp_path / "a.jsonl", JSONLines(), IDENTITY)
    keep.close()
    Keep(tmp_path / "a.jsonl", JSONLines(), IDENTITY).close()
    assert os.listdir(tmp_path) == []  # nothing was stored


async def test_same_item_twice_is_two_lines(vendor, tmp_path):
    path, items = tmp_path / "a.jsonl", ["a", "b", "a", "a"]
    await all_of(ls.map(vendor.model(), items, keep=path, ordered=True))
    assert [row["text"] for row in rows_in(path)] == items
    kept = [line for line in path.read_text().splitlines(keepends=True) if '"b"' not in line]
    path.write_text("".join(kept[:2]))
    run = ls.map(vendor.model(), items, keep=path, ordered=True)
    await all_of(run)
    assert [row["text"] for row in rows_in(path)] == items
    assert run.progress.stored == 2
    assert vendor.asked == {"a": 1, "b": 2}  # the answer of a was in the file


async def test_many_equal_lines_stay_in_order(vendor, tmp_path):
    """Identical rows cannot be told apart, so nothing is moved."""
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), ["a", "b"] * 50, keep=path, ordered=True))
    before = path.read_bytes(), path.stat().st_ino
    run = ls.map(vendor.model(), ["a", "b"] * 50, keep=path, ordered=True)
    await all_of(run)
    assert (path.read_bytes(), path.stat().st_ino) == before
    assert (run.progress.stored, run.left_over, vendor.paid) == (100, 0, 2)


async def test_stored_answers_serve_new_rows(vendor, tmp_path):
    """A new row with the prompt of a stored one is not asked, unless that one failed."""
    path, prompt = tmp_path / "a.jsonl", "{{q}}"
    vendor.answer = lambda prompt, time: vendor.refusal(400) if prompt == "bad" else prompt
    rows = [{"id": 1, "q": "good"}, {"id": 2, "q": "bad"}]
    await all_of(ls.map(vendor.model(), rows, prompt=prompt, keep=path))
    more = [*rows, {"id": 3, "q": "good"}, {"id": 4, "q": "bad"}]
    run = ls.map(vendor.model(), more, prompt=prompt, keep=path, ordered=True)
    found = await all_of(run)
    assert [done.error is None for done in found] == [True, False, True, False]
    assert found[2].value.text == "good"
    assert vendor.asked == {"good": 1, "bad": 2}
    assert (run.progress.stored, run.progress.reused) == (2, 1)


async def test_sorting_follows_symbolic_links(vendor, tmp_path):
    """The file that the link names is put in order; what a killed process left of it goes."""
    real, path = tmp_path / "real.jsonl", tmp_path / "a.jsonl"
    path.symlink_to(real)
    await all_of(ls.map(vendor.model(), WORDS[::-1], keep=path, concurrency=1))
    real.with_name("real.jsonl.run.tmp").write_text("half")
    await all_of(ls.map(vendor.model(), WORDS, keep=path, ordered=True))
    assert path.is_symlink()
    assert [row["text"] for row in rows_in(real)] == WORDS
    assert vendor.paid == len(WORDS)
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "a.jsonl.run", "real.jsonl"]


async def test_input_may_grow_and_move(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), WORDS[3:9], keep=path))
    run = ls.map(vendor.model(), WORDS[:8], keep=path, ordered=True)
    found = await all_of(run)
    assert [done.item for done in found] == WORDS[:8]
    assert vendor.paid == 9
    assert run.left_over == 1
    assert [row["text"] for row in rows_in(path)] == [*WORDS[:8], WORDS[8]]


async def test_failed_items_stay_until_asked(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    vendor.answer = lambda prompt, time: vendor.refusal(400) if prompt in WORDS[2:5] else prompt
    await all_of(ls.map(vendor.model(), WORDS, keep=path))
    vendor.answer = lambda prompt, time: prompt
    run = ls.map(vendor.model(), WORDS, keep=path)
    found = await all_of(run)
    assert vendor.paid == 12
    assert [done.error.code for done in found if done.error] == ["bad-request"] * 3
    assert run.progress.failed == {"bad-request": 3}
    again = ls.map(vendor.model(), WORDS, keep=path, retry_failed=True, ordered=True)
    assert all(done.error is None for done in await all_of(again))
    assert (vendor.paid, again.progress.failed, again.progress.stored) == (15, {}, 9)
    assert [row["text"] for row in rows_in(path)] == WORDS


async def test_max_cost_counts_earlier_runs(vendor, tmp_path):
    path = tmp_path / "a.jsonl"
    options = {"keep": path, "price": lambda model, usage: 0.1, "concurrency": 1}
    for limit, paid in ((0.5, 5), (0.5, 5), (0.7, 7)):
        with pytest.raises(ls.LimitExceeded):
            await all_of(ls.map(vendor.model(), WORDS, max_cost=limit, **options))
        assert vendor.paid == paid


def full_disk(path: Path, size: int) -> None:
    """The body of a child process: files may have only so many bytes."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    keep = Keep(path, JSONLines(), IDENTITY)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    line = JSONLines().encode({"a": "x" * 50}, ls.MapResult(item=0, index=0, _value="y"), 5)
    count = 0
    try:
        while True:
            keep.append(line)
            count += 1
    except OSError as error:
        complete = os.path.getsize(path) == count * len(line) <= size
        os._exit(0 if complete and "Make room and run it again" in str(error) else 2)


def test_full_disk_leaves_whole_lines(tmp_path):
    child = os.fork()
    if not child:
        try:
            full_disk(tmp_path / "a.jsonl", 1000)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


async def test_a_full_disk_ends_the_run(vendor, tmp_path, monkeypatch):
    path, written = tmp_path / "a.jsonl", 0
    real = os.write

    def write(file: int, data: bytes) -> int:
        nonlocal written
        if data.startswith(b'{"text"'):
            written += 1
            if written > 5:
                real(file, data[:20])
                raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    monkeypatch.setattr(os, "write", write)
    with pytest.raises(KeepFailed, match="No space left"):
        await all_of(ls.map(vendor.model(), WORDS, keep=path, concurrency=2))
    monkeypatch.undo()
    assert len(rows_in(path)) == 5
    run = ls.map(vendor.model(), WORDS, keep=path)
    await all_of(run)
    assert sorted(row["text"] for row in rows_in(path)) == sorted(WORDS)
    assert run.progress.stored == 5


@pytest.mark.parametrize("name", ["fsync", "replace"])
async def test_failing_to_sort_loses_nothing(vendor, tmp_path, monkeypatch, name):
    """The next run asks nothing and puts the lines in order."""
    path = tmp_path / "a.jsonl"
    await all_of(ls.map(vendor.model(), WORDS[::-1], keep=path))
    before = path.read_bytes()

    def fail(*arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, name, fail)
    with pytest.raises(KeepFailed, match="Make room and run it again"):
        await all_of(ls.map(vendor.model(), WORDS, keep=path, ordered=True))
    monkeypatch.undo()
    assert path.read_bytes() == before
    assert sorted(os.listdir(tmp_path)) == ["a.jsonl", "a.jsonl.run"]
    await all_of(ls.map(vendor.model(), WORDS, keep=path, ordered=True))
    assert [row["text"] for row in rows_in(path)] == WORDS
    assert vendor.paid == len(WORDS)
