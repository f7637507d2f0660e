"""Batch servers that spoil their answers: each row still gets its answer, and is paid once."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.batches import vendor as vendor_module
from llmstream.testing import BatchFaults, Simulator
from tests.batches.conftest import Bench
from tests.batches.hostile import Between, Reply, between

ROWS = [f"row {number}" for number in range(8)]
EXPECTED = [(index, f"Answer to {item}") for index, item in enumerate(ROWS)]
ALL = ["openai", *(pytest.param(name, marks=pytest.mark.slow) for name in ("anthropic", "google", "mistral"))]


@pytest.fixture(autouse=True)
def no_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator lists a job at once."""
    monkeypatch.setattr(vendor_module, "GRACE_S", 0.0)
    monkeypatch.setattr("llmstream.batches.batch.GRACE_S", 0.0)


class Hostile(Bench):
    """Models reach the simulator by way of the server that spoils its answers."""

    def __init__(self, way: Between) -> None:
        super().__init__(way.simulator)
        self.way = way

    @property
    def url(self) -> str:
        return self.way.url


@asynccontextmanager
async def hostile(script: Any = None, **faults: Any) -> AsyncIterator[Hostile]:
    def answer(request: ls.Request) -> str:
        return f"Answer to {request.messages[-1].text}"

    simulated = Simulator(script or answer, batches=BatchFaults(**faults))
    async with simulated as simulator, between(simulator) as way:
        yield Hostile(way)


def answers(rows: list[Any]) -> list[tuple[int, str]]:
    return sorted((row.index, row.value.text) for row in rows)


def of_results(change: Callable[[bytes], bytes], times: int = 1_000_000) -> Callable[[Reply], Reply]:
    """Changes the first files of results."""
    left = times

    def spoil(reply: Reply) -> Reply:
        nonlocal left
        if reply.kind != "results" or left <= 0:
            return reply
        left -= 1
        return replace(reply, body=change(reply.body))

    return spoil


def _failed(line: bytes) -> bytes:
    """A line that says of the same request that it failed, in the form of any vendor."""
    found = json.loads(line)
    error = {"error": {"code": 13, "type": "server_error", "message": "failed"}}
    found |= {"error": error["error"]}
    if "result" in found:
        found["result"] = {"type": "errored", "error": {"type": "error", "error": {"type": "api_error"}}}
    elif found.get("custom_id"):
        found["response"] = {"status_code": 500, "body": error}
    else:
        found.pop("response", None)
    return json.dumps(found).encode() + b"\n"


# None of them is a result.
STRANGE = [
    b"",
    b"7\n",
    b"[]\n",
    b'{"custom_id": 7, "key": 7}\n',
    b'{"custom_id": "x", "key": "x"}\n',
    b"\xff\n",
]

SPOILED: dict[str, Callable[[Reply], Reply]] = {
    "bom": of_results(lambda body: b"\xef\xbb\xbf" + body),
    "crlf": of_results(lambda body: body.replace(b"\n", b"\r\n")),
    "blank lines": of_results(lambda body: b"\n\r\n" + body.replace(b"\n", b"\n\n \n")),
    "no end of line": of_results(lambda body: body.rstrip(b"\n")),
    "gzip": lambda reply: reply.zipped() if reply.kind == "results" else reply,
    "gzip everywhere": lambda reply: reply.zipped(),
    "html by its type": lambda reply: replace(reply, headers={**reply.headers, "Content-Type": "text/html"}),
    "of another charset": lambda reply: replace(
        reply, headers={**reply.headers, "Content-Type": "application/json; charset=utf-16"}
    ),
    "without a type": lambda reply: replace(reply, headers={**reply.headers, "Content-Type": ""}),
    "errors before answers": of_results(lambda body: b"".join(map(_failed, body.splitlines())) + body),
    "strange lines between": of_results(
        lambda body: b"".join(strange + line + b"\n" for line in body.splitlines() for strange in STRANGE)
    ),
}


@pytest.mark.parametrize("vendor", ALL)
@pytest.mark.parametrize("name", SPOILED)
async def test_odd_files_are_read(tmp_path: Path, vendor: str, name: str, monkeypatch) -> None:
    monkeypatch.setattr("llmstream.batches.apis.GoogleBatches._inline_bytes", 100)
    async with hostile(reorder=True, repeat_every=3) as bench:
        bench.way.spoil = SPOILED[name]
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)


@pytest.mark.parametrize("vendor", ALL)
@pytest.mark.parametrize("way", ["half a line", "half a gzip", "connection"])
async def test_cut_file_is_fetched_again(tmp_path: Path, vendor: str, way: str, monkeypatch) -> None:
    """What it lacks was answered, and must not be paid again."""
    monkeypatch.setattr("llmstream.batches.apis.GoogleBatches._inline_bytes", 100)
    left = [True]

    def spoil(reply: Reply) -> Reply:
        if reply.kind != "results" or not left:
            return reply
        left.clear()
        if way == "half a gzip":
            found = reply.zipped()
            return replace(found, body=found.body[: len(found.body) // 2])
        return replace(reply, body=reply.body[: len(reply.body) * 2 // 3], cut=way == "connection")

    async with hostile() as bench:
        bench.way.spoil = spoil
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert not left
        assert sorted(bench.paid) == sorted(ROWS)


@pytest.mark.parametrize("vendor", ALL)
async def test_short_file_is_fetched_again(tmp_path: Path, vendor: str, monkeypatch) -> None:
    """It ends after a complete line, so only the vendor's own count shows that some are missing."""
    monkeypatch.setattr("llmstream.batches.apis.GoogleBatches._inline_bytes", 100)
    async with hostile() as bench:
        bench.way.spoil = of_results(lambda body: b"".join(body.splitlines(keepends=True)[:5]), times=1)
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda body: body[: len(body) * 2 // 3], id="cut"),
        pytest.param(lambda body: b"".join(body.splitlines(keepends=True)[:5]), id="short"),
    ],
)
async def test_incomplete_file_is_read(tmp_path: Path, spoil: Callable[[bytes], bytes]) -> None:
    """After three attempts. Then the rows of its missing lines are submitted again, and no others."""
    async with hostile() as bench:
        bench.way.spoil = of_results(spoil, times=3)
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert set(bench.paid) == set(ROWS)
        assert len(ROWS) < len(bench.paid) <= len(ROWS) + 4
        assert len(bench.jobs) == 2
        assert bench.way.kinds.count("results") == 3 + 1


NO_RESULTS = {
    "a page of a proxy": b"<html>\n<body>Bad gateway</body>\n</html>\n",
    "nothing": b"",
    "an error": b'{"error": {"message": "try again"}}\n',
    "of another job": b'{"custom_id": "other-0-1", "response": {"status_code": 200, "body": {}}}\n',
}


@pytest.mark.parametrize("name", NO_RESULTS)
async def test_file_that_is_no_file_of_results(tmp_path: Path, name: str, monkeypatch) -> None:
    """With status 200, and as often as it is fetched: nothing is submitted and paid again."""
    monkeypatch.setattr("llmstream.batches.batch._PATIENCE_S", 0.05)
    async with hostile() as bench:
        bench.way.spoil = of_results(lambda body: NO_RESULTS[name])
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        with pytest.raises(ls.LLMStreamError, match="no results"):
            await bench.collect(batch)
        batch.close()
        assert len(bench.jobs) == 1
        bench.way.spoil = lambda reply: reply
        again = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(again)) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)


@pytest.mark.parametrize("vendor", ALL)
async def test_half_of_the_rows_fail(tmp_path: Path, vendor: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the first round: they alone are in the second one, whose answers all rows get."""
    monkeypatch.setattr("llmstream.batches.apis.GoogleBatches._inline_bytes", 100)

    def half(body: bytes) -> bytes:
        lines = body.splitlines()
        return b"".join(_failed(line) if at % 2 else line + b"\n" for at, line in enumerate(lines))

    async with hostile() as bench:
        bench.way.spoil = of_results(half, times=1)
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert [job.total for job in bench.jobs] == [8, 4]


async def test_lines_of_ten_megabytes(tmp_path: Path) -> None:
    text = "word " * 2_000_000

    async with hostile(lambda request: "Short.") as bench:

        def longer(body: bytes) -> bytes:
            lines = [json.loads(line) for line in body.splitlines()]
            lines[0]["response"]["body"]["choices"][0]["message"]["content"] = text
            return b"".join(json.dumps(line).encode() + b"\n" for line in lines)

        bench.way.spoil = of_results(longer)
        batch = await bench.model("openai").submit(ROWS[:3], keep=tmp_path / "job.json")
        rows = sorted(len(row.value.text) for row in await bench.collect(batch))
    assert rows == [len("Short."), len("Short."), len(text)]


FAILURES = [
    pytest.param(429, False, id="429"),
    pytest.param(500, False, id="500 before"),
    pytest.param(500, True, id="500 after"),
    pytest.param(503, True, id="503 after"),
]


@pytest.mark.parametrize(("status", "after"), FAILURES)
@pytest.mark.parametrize("vendor", ALL)
async def test_each_endpoint_fails_once(tmp_path: Path, vendor: str, status: int, after: bool, monkeypatch):
    """In turn, before the server has done what it was asked for, or after that."""
    monkeypatch.setattr("llmstream.batches.apis.GoogleBatches._inline_bytes", 100)
    seen = set[str]()
    for number in range(1, 30):
        async with hostile(polls=1) as bench:
            bench.way.fail, bench.way.status, bench.way.after = number, status, after
            keep = tmp_path / f"{number}.json"
            try:
                batch = await bench.model(vendor).submit(ROWS, keep=keep)
            except ls.LLMStreamError:  # whether its job exists cannot be known at once
                assert (vendor, bench.way.kinds[-1]) == ("anthropic", "create")
                batch = await bench.model(vendor).submit(ROWS, keep=keep)
            assert answers(await bench.collect(batch)) == EXPECTED
            assert sorted(bench.paid) == sorted(ROWS), (number, bench.way.kinds)
            seen.update(bench.way.kinds)
            if len(bench.way.kinds) < number:
                break
    assert number > 4
    assert seen >= {"create", "state", "results"}


@pytest.mark.parametrize("vendor", ["openai", "anthropic", "google", "mistral"])
async def test_pages_that_repeat_end(tmp_path: Path, vendor: str) -> None:
    """A list whose cursor leads back to the same page is read to no end: the search for a job stops."""

    def spoil(reply: Reply) -> Reply:
        if reply.kind != "list":
            return reply
        page = reply.json
        name = "operations" if vendor == "google" else "data"
        others = [{"id": "x", "name": "batches/x", "created_at": 9_999_999_999, "metadata": {}}]
        page |= {name: others * (100 if vendor == "mistral" else 1), "has_more": True, "nextPageToken": "0"}
        return replace(reply, body=json.dumps(page).encode())

    async with hostile(silent_jobs=1) as bench:
        bench.way.spoil = spoil
        keep = tmp_path / "job.json"
        if vendor == "anthropic":
            with pytest.raises(ls.LLMStreamError):
                await bench.model(vendor).submit(ROWS, keep=keep)
        # Its job is there and cannot be found in such a list, so that it is created once more.
        batch = await bench.model(vendor).submit(ROWS, keep=keep)
        assert answers(await bench.collect(batch)) == EXPECTED
        assert bench.way.kinds.count("list") <= 4


@pytest.mark.parametrize("vendor", ALL)
async def test_status_that_goes_backwards(tmp_path: Path, vendor: str) -> None:
    """What is over, then in progress, then over again: results are stored once they can be."""
    states = list[bytes]()

    def spoil(reply: Reply) -> Reply:
        if reply.kind != "state":
            return reply
        states.append(reply.body)
        # The first look shows the end without its results, the second the beginning.
        if len(states) == 2:
            found = json.loads(states[0])
            for count in ("completed_requests", "succeeded_requests"):
                found.pop(count, None)
            return replace(reply, body=json.dumps(_running(vendor, found)).encode())
        if len(states) == 1 and vendor != "anthropic":
            return replace(reply, body=json.dumps(_without_results(vendor, reply.json)).encode())
        return reply

    async with hostile() as bench:
        bench.way.spoil = spoil
        batch = await bench.model(vendor).submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)
        assert len(states) == (1 if vendor == "anthropic" else 3)


def _running(vendor: str, state: dict[str, Any]) -> dict[str, Any]:
    if vendor == "google":
        return {**state, "metadata": {**state["metadata"], "state": "BATCH_STATE_RUNNING"}}
    name = "processing_status" if vendor == "anthropic" else "status"
    return {**state, name: "RUNNING" if vendor == "mistral" else "in_progress"}


def _without_results(vendor: str, state: dict[str, Any]) -> dict[str, Any]:
    if vendor == "google":
        about = {name: value for name, value in state["metadata"].items() if name != "output"}
        return {**state, "metadata": about, "response": None}
    return {name: value for name, value in state.items() if not name.startswith("output_file")}


async def test_results_that_never_come(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch that is said to be complete and has no results is reported, and not paid again."""
    monkeypatch.setattr("llmstream.batches.batch._PATIENCE_S", 0.05)

    def spoil(reply: Reply) -> Reply:
        if reply.kind != "state":
            return reply
        return replace(reply, body=json.dumps(_without_results("openai", reply.json)).encode())

    async with hostile() as bench:
        bench.way.spoil = spoil
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        with pytest.raises(ls.LLMStreamError, match="no results"):
            await bench.collect(batch)
        batch.close()
        assert len(bench.jobs) == 1
        bench.way.spoil = lambda reply: reply
        again = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(again)) == EXPECTED
        assert sorted(bench.paid) == sorted(ROWS)


async def test_upload_whose_answer_is_lost(tmp_path: Path) -> None:
    """The file is there twice then, and its requests are paid once."""
    left = [True]

    def spoil(reply: Reply) -> Reply:
        if reply.kind != "upload" or not left:
            return reply
        left.clear()
        return replace(reply, body=b'{"id"', cut=True)

    async with hostile() as bench:
        bench.way.spoil = spoil
        batch = await bench.model("openai").submit(ROWS, keep=tmp_path / "job.json")
        assert answers(await bench.collect(batch)) == EXPECTED
        assert bench.way.kinds.count("upload") == 2
        assert sorted(bench.paid) == sorted(ROWS)
