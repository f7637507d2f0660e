"""A batch from its submission to its results, on four vendors, with what may go wrong in between."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

import llmstream as ls
from llmstream.batches import vendor as vendor_module
from llmstream.batches.apis import OpenAIBatches
from llmstream.testing import Refuse, Turn

ROWS = [f"row {number}" for number in range(25)]


@pytest.fixture(autouse=True)
def no_grace(monkeypatch):
    """The simulator lists a job at once."""
    monkeypatch.setattr(vendor_module, "GRACE_S", 0.0)
    monkeypatch.setattr("llmstream.batches.batch.GRACE_S", 0.0)


def answered(rows):
    return sorted((row.index, row.item, row.value.text) for row in rows)


EXPECTED = [(index, item, f"Answer to {item}") for index, item in enumerate(ROWS)]


async def test_each_row_gets_its_answer(bench, tmp_path, vendor):
    batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json", price=bench.price)
    rows = await bench.collect(batch)
    assert answered(rows) == EXPECTED
    for row in rows:
        assert row.attempts == 1
        assert row.cost == pytest.approx(row.usage.total_tokens / 1000 / 2)
    assert sorted(bench.paid) == sorted(ROWS)
    assert len(bench.jobs) == 1


async def test_hostile_server_loses_no_row(open_bench, tmp_path, vendor):
    """Rows are lost, expired, failed, repeated and reordered, beside results of another job."""
    faults = {"lose_every": 5, "expire_every": 7, "fail_every": 6, "repeat_every": 4}
    async with open_bench(**faults, reorder=True, foreign=True, polls=2) as bench:
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json", price=bench.price)
        rows = await bench.collect(batch)
        assert answered(rows) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)
        assert len(bench.jobs) == 2
        total = sum(row.usage.total_tokens for row in rows)
        assert sum(row.cost for row in rows) == pytest.approx(total / 2000, rel=0.01)


async def test_same_call_goes_on(open_bench, tmp_path, vendor):
    async with open_bench(polls=1) as bench:
        for _ in range(3):
            batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
            batch.close()
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answered(await bench.collect(batch)) == EXPECTED
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answered(await bench.collect(batch)) == EXPECTED
        assert len(bench.paid) == len(ROWS)


async def test_silent_creation_is_found(open_bench, tmp_path, vendor):
    """The connection breaks after the vendor has created the job."""
    async with open_bench(silent_jobs=1) as bench:
        keep = tmp_path / "job.json"
        try:
            batch = await bench.model(vendor).submit(ROWS, keep=keep)
        except ls.LLMStreamError:  # its job cannot be found at once
            assert vendor == "anthropic"
            assert "job" not in json.loads(keep.read_text())["parts"][0]
            batch = await bench.model(vendor).submit(ROWS, keep=keep)
        assert answered(await bench.collect(batch)) == EXPECTED
        assert len(bench.paid) == len(ROWS)


async def test_only_new_rows_are_submitted(bench, tmp_path):
    model, keep = bench.model("openai"), tmp_path / "job.json"
    await bench.collect(await model.submit(ROWS[:20], keep=keep))
    rows = await bench.collect(await model.submit(ROWS, keep=keep))
    assert answered(rows) == EXPECTED
    assert [job.total for job in bench.jobs] == [20, 5]


async def test_parts_obey_the_limits(bench, tmp_path, monkeypatch):
    monkeypatch.setattr(OpenAIBatches, "max_rows", 10)
    rows = await bench.collect(await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json"))
    assert answered(rows) == EXPECTED
    assert [job.total for job in bench.jobs] == [10, 10, 5]
    monkeypatch.setattr(OpenAIBatches, "max_bytes", 2000)
    await bench.collect(await bench.model("openai").submit(ROWS, keep=tmp_path / "other.json"))
    assert max(len(data) for name, data in bench.simulator._batches.files._files.values()) < 10_000
    assert len(bench.jobs) > 6


async def test_same_prompts_are_paid_once(bench, tmp_path):
    batch = await bench.model("anthropic").submit(
        ["a", "b", "a", "a"], keep=tmp_path / "j", price=bench.price
    )
    rows = sorted(await bench.collect(batch), key=lambda row: row.index)
    assert [row.value.text for row in rows] == [f"Answer to {item}" for item in "abaa"]
    assert sorted(bench.paid) == ["a", "b"]
    assert [row.cost for row in rows[2:]] == [0.0, 0.0]
    batch = await bench.model("anthropic").submit(["a", "a"], keep=tmp_path / "k", dedupe=False)
    assert len(await bench.collect(batch)) == 2
    assert sorted(bench.paid) == ["a", "a", "a", "b"]


async def test_rest_is_asked_online(open_bench, tmp_path, vendor):
    async with open_bench(expire_every=5, lose_every=4, jobs=9) as bench:
        options = {"keep": tmp_path / "job.json", "finish_online": True}
        rows = await bench.collect(await bench.model(vendor).submit(ROWS, **options))
        assert answered(rows) == EXPECTED
        assert len(bench.jobs) == 1
        assert len(bench.online) == 10
        again = await bench.collect(await bench.model(vendor).submit(ROWS, **options))
        assert answered(again) == EXPECTED
        assert len(bench.online) == 10


async def test_invalid_row_fails_alone(open_bench, tmp_path, vendor):
    def script(request):
        text = request.messages[-1].text
        return Turn(fault=Refuse(status=400, message="too odd")) if text == "row 3" else f"Answer to {text}"

    async with open_bench(script) as bench:
        rows = await bench.collect(await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json"))
        failed = [row for row in rows if row.error is not None]
        assert [row.item for row in failed] == ["row 3"]
        assert not failed[0].error.retryable
        assert len(rows) == len(ROWS)
        assert len(bench.jobs) == 1


async def test_rounds_end_with_the_error(open_bench, tmp_path):
    async with open_bench(expire_every=1, jobs=9) as bench:
        rows = await bench.collect(await bench.model("openai").submit(["x"], keep=tmp_path / "j", rounds=2))
        assert rows[0].error.reason == "expired"
        assert len(bench.jobs) == 2


async def test_full_queue_is_tried_again(open_bench, tmp_path):
    async with open_bench(refuse_jobs=2) as bench:
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        assert answered(await bench.collect(batch)) == EXPECTED
        assert len(bench.jobs) == 3


@dataclass
class Label:
    good: bool


async def test_typed_answers_are_validated(open_bench, tmp_path, vendor):
    replies = {"a": '{"good": true}', "b": "no idea"}

    def script(request):
        text = replies[request.messages[-1].text]
        if request.tools:  # where a tool's input is the answer
            return (
                Turn(calls=(ls.testing.Call(request.tools[0].name, {"good": True}),))
                if "true" in text
                else text
            )
        return text

    async with open_bench(script) as bench:
        batch = await bench.model(vendor).submit(
            ["a", "b"], keep=tmp_path / "j", output=Label, rounds=2, price=bench.price
        )
        good, bad = sorted(await bench.collect(batch), key=lambda row: row.index)
        assert good.value == Label(True)
        assert isinstance(bad.error, ls.InvalidOutput)
        assert bench.paid.count("b") == 2
        assert bad.attempts == 2
        assert bad.cost == pytest.approx(bad.usage.total_tokens / 2000)


async def test_template_and_columns(bench, tmp_path):
    rows = [{"city": "Oslo", "id": 7}, {"town": "Rome"}]
    batch = await bench.model("google").submit(rows, keep=tmp_path / "j", prompt="Where is {{city}}?")
    done = sorted(await bench.collect(batch), key=lambda row: row.index)
    assert done[0].item["id"] == 7
    assert done[0].value.text == "Answer to Where is Oslo?"
    assert "no column 'city'" in str(done[1].error)
    assert bench.paid == ["Where is Oslo?"]


async def test_another_batch_is_refused(bench, tmp_path):
    keep = tmp_path / "job.json"
    first = await bench.model("openai").submit(["a"], keep=keep)
    with pytest.raises(ls.InvalidRequest, match="another process uses"):
        await bench.model("openai").submit(["a"], keep=keep)
    first.close()
    with pytest.raises(ls.InvalidRequest, match="with other options"):
        await bench.model("openai").submit(["a"], keep=keep, temperature=0.5)
    with pytest.raises(ls.InvalidRequest, match="with other options"):
        await bench.model("openai").submit(["a"], keep=keep, prompt="Rate: {{text}}")
    keep.write_text("[]")
    with pytest.raises(ls.InvalidRequest, match="not the record of a batch"):
        await bench.model("openai").submit(["a"], keep=keep)


async def test_provider_without_batches(tmp_path):
    with pytest.raises(ls.Unsupported, match="no batch API of ollama"):
        await ls.Model("ollama:x").submit(["a"], keep=tmp_path / "j")


async def test_missing_key_fails_no_row(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ls.MissingKey):
        await ls.Model("openai:m").submit(["a"], keep=tmp_path / "j")
    assert not (tmp_path / "j").exists()


async def test_wrong_key_leaves_no_part(tmp_path):
    async with ls.testing.Simulator(api_keys=["right"]) as simulator:
        model = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="wrong")
        with pytest.raises(ls.AuthenticationError):
            await model.submit(["a"], keep=tmp_path / "j")
        assert json.loads((tmp_path / "j").read_text())["parts"] == []
        right = ls.Model("openai:m", base_url=f"{simulator.url}/v1", api_key="right")
        rows = [row async for row in (await right.submit(["a"], keep=tmp_path / "j")).results()]
        assert rows[0].error is None


async def test_broken_network_does_not_end_it(open_bench, tmp_path, monkeypatch):
    """Looks that fail are repeated: the job goes on at the vendor."""
    real, failures = vendor_module.exchange, iter(range(8))

    async def broken(model, http, **options):
        if http.method == "GET" and next(failures, None) is not None:
            raise ls.ConnectionFailed("no route")
        return await real(model, http, **options)

    async with open_bench(polls=1) as bench:
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "j")
        monkeypatch.setattr(vendor_module, "exchange", broken)
        assert answered(await bench.collect(batch)) == EXPECTED
        assert next(failures, None) is None


async def test_cancelled_batch_ends(open_bench, tmp_path, vendor):
    async with open_bench(polls=1000) as bench:
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "j")
        assert batch.progress.waiting == 1
        await batch.cancel()
        assert len(await bench.collect(batch)) == len(ROWS)
        assert len(bench.jobs) == 1


async def test_large_google_batch_is_a_file(bench, tmp_path, monkeypatch):
    from llmstream.batches.apis import GoogleBatches

    monkeypatch.setattr(GoogleBatches, "_inline_bytes", 100)
    batch = await bench.model("google").submit(ROWS, keep=tmp_path / "j")
    assert answered(await bench.collect(batch)) == EXPECTED
    assert bench.jobs[0].file.startswith("files/")


async def test_strict_paths_have_the_batches(tmp_path, monkeypatch, vendor, bench):
    """`llmstream simulate` refuses paths that no vendor has."""
    from llmstream.batches.apis import GoogleBatches

    monkeypatch.setattr(GoogleBatches, "_inline_bytes", 100)
    bench.simulator._strict_paths = True
    batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "j")
    assert answered(await bench.collect(batch)) == EXPECTED
