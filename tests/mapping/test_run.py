"""`ls.map`: results in order or as done, errors per item, limits, costs, and leaving early."""

from __future__ import annotations

import asyncio
import gc
import io
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from dataclasses import dataclass

import msgspec
import pytest

import llmstream as ls
from llmstream.simulator import Turn

WORDS = [f"word {number}" for number in range(40)]


class City(msgspec.Struct):
    name: str
    people: int


async def all_of(run: ls.MapRun) -> list[ls.MapResult]:
    async with run:
        return [done async for done in run]


async def test_each_item_has_one_result(vendor):
    found = await all_of(ls.map(vendor.model(), WORDS))
    assert sorted(done.index for done in found) == list(range(40))
    assert all(done.value.text == f"to {done.item}" and done.attempts == 1 for done in found)
    assert all(done.model == "openai:m" and done.usage.output_tokens for done in found)
    assert vendor.paid == 40


async def test_ordered_results_are_in_order(vendor):
    vendor.answer = lambda prompt, time: vendor.slow(prompt, 0.1) if prompt == "word 0" else prompt
    in_order = await all_of(ls.map(vendor.model(), WORDS, ordered=True))
    assert [done.item for done in in_order] == WORDS
    as_done = await all_of(ls.map(vendor.model(), WORDS))
    assert as_done[0].index != 0


async def test_async_items_are_read_as_needed(vendor):
    read = 0

    async def endless() -> AsyncIterator[dict[str, int]]:
        nonlocal read
        try:
            while True:
                read += 1
                yield {"n": read}
        finally:
            read = -read

    async with ls.map(vendor.model(), endless(), prompt="n={{n}}", concurrency=4) as run:
        count = 0
        async for _ in run:
            count += 1
            if count == 20:
                break
    assert -40 < read < 0  # closed, and not far ahead


async def test_generator_of_items_is_closed(vendor):
    def endless() -> Iterator[str]:
        with closing(lines):
            while True:
                yield "to"

    lines = io.StringIO()
    items = endless()
    async with ls.map(vendor.model(), items, concurrency=4) as run:
        async for _ in run:
            break
    assert lines.closed
    # What is not a generator may be read on.
    rest = iter(WORDS)
    async with ls.map(vendor.model(), rest, concurrency=1) as run:
        async for _ in run:
            break
    assert next(rest) in WORDS


async def test_slow_reader_stops_the_requests(vendor):
    def numbers() -> Iterator[str]:
        for number in range(10_000):
            yield f"n {number}"

    async with ls.map(vendor.model(), numbers(), concurrency=5) as run:
        async for _ in run:
            await asyncio.sleep(0.2)
            break
        assert vendor.paid <= 11


async def test_leaving_cancels_the_requests(vendor):
    vendor.answer = lambda prompt, time: vendor.slow(prompt, 30) if prompt != "word 0" else "now"
    async with ls.map(vendor.model(), WORDS) as run:
        async for done in run:
            assert done.item == "word 0"
            break
    assert run.progress.under_way == 0
    received = vendor.simulator.requests
    await asyncio.wait_for(asyncio.gather(*(one.done.wait() for one in received)), 5)
    assert sum(one.disconnected for one in received) == len(received) - 1


async def test_break_without_a_block_warns(vendor):
    run = ls.map(vendor.model(), WORDS)
    with pytest.warns(ResourceWarning, match="a map was dropped"):
        async for _ in run:
            break
        gc.collect()
        async with asyncio.timeout(30):
            while run.progress.under_way:
                await asyncio.sleep(0.01)


async def test_a_run_is_read_only_once(vendor):
    run = ls.map(vendor.model(), WORDS[:2])
    await all_of(run)
    with pytest.raises(ls.InvalidRequest, match="Call map\\(\\) again"):
        aiter(run)


async def test_errors_are_those_of_their_item(vendor):
    vendor.answer = lambda prompt, time: vendor.refusal(400) if prompt == "word 3" else prompt
    found = {done.item: done for done in await all_of(ls.map(vendor.model(), WORDS))}
    assert found["word 3"].error.code == "bad-request"
    with pytest.raises(ls.BadRequest):
        found["word 3"].value
    assert sum(done.error is None for done in found.values()) == 39


async def test_typed_answers(vendor):
    vendor.answer = lambda prompt, time: '{"name": "Oslo", "people": 700000}' if "Oslo" in prompt else "no"
    run = ls.map(vendor.model(), ["Oslo", "Rome"], output=ls.Output(City, repair=1), ordered=True)
    oslo, rome = await all_of(run)
    assert oslo.value == City("Oslo", 700000)
    assert rome.error.code == "invalid-output"
    assert rome.usage.output_tokens
    assert run.progress.failed == {"invalid-output": 1}


async def test_prompts_of_functions_and_rows(vendor):
    @dataclass
    class Shop:
        name: str

    vendor.answer = lambda prompt, time: prompt
    by_function = ls.map(vendor.model(), [Shop("a")], prompt=lambda shop: [ls.Message.user(f"f {shop.name}")])
    of_fields = ls.map(vendor.model(), [Shop("a")], prompt="t {{name}}")
    columns = ls.map(vendor.model(), [{"prompt": "p"}, {"messages": [{"role": "user", "content": "m"}]}])
    runs = [by_function, of_fields, columns]
    assert [done.value.text for run in runs for done in await all_of(run)] == ["f a", "t a", "p", "m"]


async def test_failing_prompt_fails_its_item(vendor):
    rows = [{"a": 1}, {"b": 1}]
    good, bad = await all_of(ls.map(vendor.model(), rows, prompt="{{a}}", ordered=True))
    assert good.error is None
    assert "no column 'a'" in str(bad.error)
    (failed,) = await all_of(ls.map(vendor.model(), [{}], prompt=lambda row: row["x"]))
    assert "the prompt of item 0 failed: KeyError: 'x'" in str(failed.error)
    assert vendor.paid == 1


async def test_same_requests_are_sent_once(vendor):
    items = ["a", "b", "a", "a", "b"] * 10
    run = ls.map(vendor.model(), items)
    found = await all_of(run)
    assert sorted(done.item for done in found) == sorted(items)
    assert vendor.asked == {"a": 1, "b": 1}
    assert sum(done.attempts for done in found) == 2
    assert run.progress.reused == 48
    tokens = sum(done.usage.total_tokens or 0 for done in found)
    assert run.progress.usage.total_tokens == tokens


async def test_dedupe_may_be_switched_off(vendor):
    await all_of(ls.map(vendor.model(), ["a"] * 10, dedupe=False))
    assert vendor.asked == {"a": 10}


@pytest.mark.parametrize("status", [429, 529])
async def test_load_refusals_fail_no_item(vendor, status: int):
    """A storm: every request is refused the first two times."""
    vendor.answer = lambda prompt, time: prompt if time > 2 else vendor.refusal(status, 0.01)
    run = ls.map(vendor.model(), WORDS)
    found = await all_of(run)
    assert all(done.error is None and done.attempts == 3 for done in found)
    assert run.progress.refused == 80
    assert run.progress.concurrency < 8


async def test_refusals_lower_the_concurrency(vendor):
    under_way = most = 0

    def answer(prompt: str, time: int) -> Turn | str:
        nonlocal under_way, most
        gate = run.progress
        most = max(most, gate.under_way)
        return vendor.refusal(429) if gate.under_way > 20 and time == 1 else vendor.slow(prompt, 0.02)

    vendor.answer = answer
    run = ls.map(vendor.model(), [f"n {number}" for number in range(300)])
    found = await all_of(run)
    assert all(done.error is None for done in found)
    assert 16 <= most < 60
    assert run.progress.refused > 0


async def test_server_errors_are_retried(vendor):
    vendor.answer = lambda prompt, time: prompt if time > 1 else vendor.refusal(500)
    found = await all_of(ls.map(vendor.model(), WORDS[:5]))
    assert [done.attempts for done in found] == [2] * 5
    once = vendor.model(retry=ls.Retry(max_retries=0))
    vendor.answer = lambda prompt, time: vendor.refusal(500)
    found = await all_of(ls.map(once, WORDS[:5]))
    assert [(done.attempts, done.error.code) for done in found] == [(1, "server-error")] * 5


async def test_a_broken_answer_is_asked_again(vendor):
    from llmstream.simulator import Cut

    broken = Turn(text="half of an answer that breaks off", fault=Cut(after_events=3))
    vendor.answer = lambda prompt, time: prompt if time > 1 else broken
    (done,) = await all_of(ls.map(vendor.model(), ["a"]))
    assert (done.value.text, done.attempts) == ("a", 2)


async def test_too_long_context_fails_an_item(vendor, serve):
    from aiohttp import web

    async def too_long(request: web.Request) -> web.Response:
        error = {"message": "maximum context length is 8 tokens", "code": "context_length_exceeded"}
        return web.json_response({"error": error}, status=400)

    model = ls.Model("openai:m", base_url=await serve(too_long), api_key="sk-canary-12345")
    found = await all_of(ls.map(model, WORDS[:3]))
    assert [(done.error.code, done.attempts) for done in found] == [("context-too-long", 1)] * 3


async def test_fallback_is_asked_second(vendor):
    vendor.answer = lambda prompt, time: vendor.refusal(400) if time == 1 else "second"
    other = vendor.model()
    other.name = "other"
    (done,) = await all_of(ls.map(vendor.model(), ["a"], fallback=[other]))
    assert (done.value.text, done.model, done.attempts) == ("second", "openai:other", 2)


@pytest.mark.parametrize(("status", "kind"), [(401, ls.AuthenticationError), (402, ls.PermissionDenied)])
async def test_errors_of_all_items_end_a_run(vendor, status: int, kind: type):
    vendor.answer = lambda prompt, time: vendor.refusal(status)
    run = ls.map(vendor.model(), WORDS)
    with pytest.raises(kind):
        await all_of(run)
    assert vendor.paid <= 8
    assert run.progress.done == 0


async def test_used_up_quota_ends_the_run(vendor):
    """What was answered until then is yielded."""
    vendor.answer = lambda prompt, time: prompt if int(prompt[5:]) < 10 else vendor.refusal(402)
    run, found = ls.map(vendor.model(), WORDS, concurrency=2), []
    with pytest.raises(ls.PermissionDenied):
        async for done in run:
            found.append(done.item)
    assert sorted(found) == sorted(WORDS[:10])


async def test_patience_ends_the_run(vendor):
    vendor.answer = lambda prompt, time: vendor.refusal(429)
    with pytest.raises(ls.RateLimited):
        await all_of(ls.map(vendor.model(), WORDS, patience_s=0.05))
    vendor.answer = lambda prompt, time: vendor.refusal(429, 7200)
    with pytest.raises(ls.RateLimited):
        await all_of(ls.map(vendor.model(), WORDS))


async def test_no_server_ends_the_run():
    model = ls.Model("openai:m", base_url="http://127.0.0.1:9", api_key="k", retry=ls.Retry(max_retries=0))
    with pytest.raises(ls.ConnectionFailed):
        await all_of(ls.map(model, WORDS))


def each_cents(model: str, usage: ls.Usage) -> float | None:
    return 0.01 if usage.output_tokens else 0.0


async def test_max_cost_stops_starting(vendor):
    vendor.answer = lambda prompt, time: vendor.slow(prompt, 0.02)
    run, found = ls.map(vendor.model(), WORDS, price=each_cents, max_cost=0.2, concurrency=4), []
    with pytest.raises(ls.LimitExceeded, match="max_cost") as caught:
        async for done in run:
            found.append(done)
    assert caught.value.reason == "max_cost"
    assert len(found) == vendor.paid == 20
    assert run.progress.cost == pytest.approx(0.2)
    assert sum(done.cost for done in found) == pytest.approx(0.2)


async def test_max_cost_needs_a_price(vendor):
    with pytest.raises(ls.InvalidRequest, match="no price of openai:m is known"):
        ls.map(vendor.model(), WORDS, max_cost=1, price=lambda model, usage: None)
    with pytest.raises(ls.InvalidRequest, match="max_cost must be a positive amount"):
        ls.map(vendor.model(), WORDS, max_cost=0)


async def test_stop_finishes_requests(vendor):
    vendor.answer = lambda prompt, time: vendor.slow(prompt, 0.05)
    run, found = ls.map(vendor.model(), WORDS, concurrency=4), []
    async with run:
        async for done in run:
            if not found:
                run.stop()
            found.append(done.item)
    assert 0 < len(found) < 12
    assert sorted(found) == sorted(vendor.asked)


async def test_errors_of_the_items_are_raised(vendor):
    def broken() -> Iterator[str]:
        yield "a"
        raise OSError("the disk is gone")

    found = []
    with pytest.raises(OSError, match="the disk is gone"):
        async for done in ls.map(vendor.model(), broken()):
            found.append(done.item)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"temprature": 1}, "unknown option"),
        ({"concurrency": 0}, "concurrency must be"),
        ({"prompt": 7}, "prompt must be a template or a function"),
        ({"keep": "a.csv"}, "the file has JSON lines"),
        ({"temperature": "hot"}, "temperature must be a number"),
    ],
)
def test_invalid_options_fail_at_once(options: dict, problem: str):
    with pytest.raises(ls.InvalidRequest, match=problem):
        ls.map("sim:demo", WORDS, **options)
