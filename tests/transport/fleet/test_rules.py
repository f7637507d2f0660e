"""The rules of shared limits: what each change does, and the same in SQLite and in Redis."""

from __future__ import annotations

import asyncio
import itertools
import sqlite3
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from llmstream.files import IN_MEMORY
from llmstream.transport.fleet import rules
from llmstream.transport.fleet.redis import RedisLimits
from llmstream.transport.fleet.rules import (
    Answer,
    Ask,
    Batch,
    Beat,
    Bye,
    Cancel,
    Cap,
    Learn,
    Op,
    Pause,
    Refused,
    Release,
    State,
)
from llmstream.transport.fleet.sqlite import SQLiteLimits, SQLiteLine, connect_limits

SIZES = [60.0, 600.0, 0.0, 0.0]


connections: list[sqlite3.Connection] = []


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Closes what `line` has opened."""
    yield
    while connections:
        connections.pop().close()


def line() -> SQLiteLine:
    connections.append(connect_limits(IN_MEMORY))
    return SQLiteLine(connections[-1], "name")


class Limits:
    """A state, and a clock that moves when told."""

    def __init__(self, sizes: list[float] = SIZES, places: int = 0) -> None:
        self.state = State(created=0.0, at=0.0)
        self.line = line()
        self.now = 0.0
        self.sizes, self.places = sizes, places

    def do(self, *ops: Op, member: str = "a", waiting: bool = True) -> Answer:
        batch = Batch(member, waiting, self.sizes, self.places, 30.0, list(ops))
        return rules.apply(self.state, self.line, batch, self.now)

    def ask(self, id: str, tokens: float = 0.0, priority: int = 0, again: bool = False) -> float:
        """-1 if granted, else seconds to wait."""
        ask = Ask(id, [1.0, tokens, 0.0, 0.0], priority, again)
        return self.do(ask, member=id.partition(".")[0]).results[0]


def test_turns_are_in_order_of_arrival() -> None:
    limits = Limits()
    assert [limits.ask(f"a.{n}") for n in range(60)] == [-1.0] * 60
    assert [limits.ask(f"{member}.60") for member in "bcd"] == pytest.approx([1.0, 2.0, 3.0])
    limits.now = 1.0
    assert limits.ask("c.60", again=True) == pytest.approx(1.0)  # not its turn
    assert limits.ask("b.60", again=True) == -1.0


def test_a_large_request_is_not_overtaken() -> None:
    limits = Limits()
    limits.ask("a.1", tokens=600)
    assert limits.ask("a.2", tokens=500) == pytest.approx(50.0)
    assert limits.ask("b.1", tokens=1) == pytest.approx(50.1)
    limits.now = 49.0
    limits.state.waiting.clear()  # else they were silent for too long
    assert limits.ask("b.1", tokens=1, again=True) > 0


def test_a_higher_priority_goes_first() -> None:
    limits = Limits()
    for number in range(60):
        limits.ask(f"a.{number}")
    assert limits.ask("batch.1", priority=-1) == pytest.approx(1.0)
    assert limits.ask("chat.1", priority=1) == pytest.approx(1.0)
    limits.now = 1.0
    assert limits.ask("batch.1", priority=-1, again=True) == pytest.approx(1.0)
    assert limits.ask("chat.1", priority=1, again=True) == -1.0


def test_a_cancelled_waiter_gives_back() -> None:
    limits = Limits()
    limits.ask("a.1", tokens=600)
    limits.ask("a.2", tokens=600)
    assert limits.ask("a.3", tokens=60) == pytest.approx(66.0)
    limits.do(Cancel("a.2"))
    assert limits.ask("a.3", tokens=60, again=True) == pytest.approx(6.0)


def test_a_refund_wakes_who_waits_for_it() -> None:
    limits = Limits()
    limits.ask("a.1", tokens=600)
    limits.ask("b.1", tokens=100)
    answer = limits.do(Release("a.1", [0.0, -400.0, 0.0, 0.0]))
    assert answer.woken == ["b.1"]
    assert limits.do(Beat([])).woken == []  # once
    assert limits.ask("b.1", tokens=100, again=True) == -1.0


def test_a_lost_message_is_repeated() -> None:
    limits = Limits(places=1)
    limits.ask("a.1")
    assert limits.ask("b.1") == 1e18
    assert limits.do(Release("a.1", [0.0] * 4)).woken == ["b.1"]
    limits.now = 1.5
    assert limits.do(Beat([]), member="b").woken == ["b.1"]


def test_a_free_place_wakes_the_first() -> None:
    limits = Limits(places=2)
    assert [limits.ask(f"a.{number}") for number in range(4)] == [-1.0, -1.0, 1e18, 1e18]
    assert limits.do(Release("a.0", [0.0] * 4)).woken == ["a.2"]
    assert limits.ask("a.3", again=True) == 1e18  # the place is for the other
    assert limits.ask("a.2", again=True) == -1.0


def test_places_of_the_dead_come_back() -> None:
    limits = Limits(places=1)
    limits.ask("a.1")
    limits.now = 25.0
    limits.do(Beat(["a.1"]))
    limits.now = 54.0
    assert limits.ask("b.1") == 1e18
    limits.now = 55.1
    assert limits.ask("b.1", again=True) == -1.0


def test_silent_waiters_lose_their_turn() -> None:
    limits = Limits()
    limits.ask("a.1", tokens=600)
    limits.ask("dead.1", tokens=600)
    limits.now = 3.1
    assert limits.ask("b.1", tokens=100) == pytest.approx(6.9)
    assert [waiting.id for waiting in limits.line.front(9)] == ["b.1"]
    assert not limits.do(Beat([]), member="dead").in_line
    assert limits.do(Beat([]), member="dead").in_line


def test_a_pause_holds_all_at_most_a_minute() -> None:
    limits = Limits()
    limits.do(Pause(5.0))
    assert limits.ask("b.1") == pytest.approx(5.0)
    limits.do(Pause(86400.0))
    assert limits.ask("b.2") == pytest.approx(60.0)


def test_debt_of_a_wrong_count_is_a_minute() -> None:
    limits = Limits()
    limits.ask("a.1", tokens=10)
    limits.do(Release("a.1", [0.0, 1e15, 0.0, 0.0]))
    assert limits.ask("a.2") == pytest.approx(60.0)


def test_an_old_header_counts_later_grants() -> None:
    """The vendor's 30 do not have the 10 that went after that request."""
    limits = Limits()
    first = limits.do(Ask("a.0", [1.0, 0.0, 0.0, 0.0], 0, False))
    for number in range(1, 11):
        limits.ask(f"a.{number}")
    learn = Learn([-1.0] * 4, [30.0, -1.0, -1.0, -1.0], first.spent, first.now)
    assert limits.do(learn).levels[0] == pytest.approx(20.0)


def test_a_header_never_raises_a_level() -> None:
    limits = Limits()
    for number in range(50):
        limits.ask(f"a.{number}")
    learn = Learn([500.0, -1.0, -1.0, -1.0], [400.0, -1.0, -1.0, -1.0], [], 0.0)
    assert limits.do(learn).levels[0] == pytest.approx(10.0)
    limits.do(Learn([30.0, -1.0, -1.0, -1.0], [-1.0] * 4, [], 0.0))
    limits.now = 2.0
    assert limits.do().levels[0] == pytest.approx(11.0)


def test_unexplained_refusals_cut_the_sizes() -> None:
    limits = Limits()
    grant = limits.do(Ask("a.1", [1.0, 0.0, 0.0, 0.0], 0, False))
    limits.now = 0.5
    assert limits.do(Refused(grant.now, -1)).results == [pytest.approx(0.7)]
    assert limits.do(Refused(grant.now, -1)).results == [0.0]  # it went before the cut
    assert limits.do().levels[0] <= 42.0
    limits.now = 120.5
    assert limits.do().levels[0] == pytest.approx(48.0)  # 0.7 and 2 x 0.05 of 60


def test_explained_refusals_cut_nothing() -> None:
    limits = Limits()
    assert limits.do(Refused(1.0, 1)).results == [0.0]
    for number in range(58):
        limits.ask(f"a.{number}")
    assert limits.do(Refused(1.0, -1)).results == [0.0]  # by our own count, nothing was left


def test_input_and_output_count_apart() -> None:
    limits = Limits([0.0, 0.0, 6000.0, 600.0])
    assert limits.do(Ask("a.1", [1.0, 0.0, 100.0, 600.0], 0, False)).results == [-1.0]
    assert limits.do(Ask("a.2", [1.0, 0.0, 100.0, 60.0], 0, False)).results == [pytest.approx(6.0)]
    assert limits.state.levels[2:] == [5900.0, 0.0]


def test_a_clock_that_goes_back_stands_still() -> None:
    limits = Limits()
    limits.now = 100.0
    limits.ask("a.1", tokens=600)
    limits.now = 40.0
    assert limits.ask("a.2", tokens=10) == pytest.approx(1.0)
    limits.now = 101.0
    assert limits.ask("a.2", tokens=10, again=True) == -1.0


def test_a_long_line_costs_no_more() -> None:
    """In instructions of SQLite: as one row for all, eight processes could not keep up with 20,000."""

    def instructions_of(waiters: int) -> int:
        limits, count = Limits([1.0, 0.0, 0.0, 0.0]), 0
        limits.do(*[Ask(f"a.{n}", [1.0, 0.0, 0.0, 0.0], 0, False) for n in range(waiters)])

        def counted() -> None:
            nonlocal count
            count += 1

        connections[-1].set_progress_handler(counted, 1)
        limits.ask("a.999999")
        limits.ask("a.1", again=True)
        limits.do(Cancel("a.2"))
        return count

    assert instructions_of(4000) < 1.2 * instructions_of(100)


# The two stores.


def ask_of(id: str, again: bool) -> Ask:
    """A waiter asks with the same cost and priority each time."""
    number = int(id.rpartition(".")[2])
    return Ask(id, [1.0, number * 20.5, number * 15.0, number * 5.0], number % 3 - 1, again)


IDS = st.sampled_from([f"{member}.{number}" for member in "ab" for number in range(6)])
COUNTS = st.floats(0, 100).map(lambda x: round(x, 2))
FOUR = st.lists(COUNTS, min_size=4, max_size=4)
KNOWN = st.lists(st.one_of(st.just(-1.0), COUNTS), min_size=4, max_size=4)
OPS = st.one_of(
    st.builds(ask_of, IDS, st.booleans()),
    st.builds(Cancel, IDS),
    st.builds(Release, IDS, FOUR.map(lambda extra: [0.0, *(x - 50 for x in extra[1:])])),
    st.builds(Learn, KNOWN, KNOWN, st.one_of(st.just([]), FOUR), COUNTS),
    st.builds(Pause, st.floats(0, 3)),
    st.builds(Refused, st.floats(0, 200), st.integers(-1, 1)),
    st.builds(Beat, st.lists(IDS, max_size=3)),
    st.builds(Cap, FOUR),
    st.builds(Bye, st.sampled_from("ab")),
)
BATCHES = st.lists(
    st.tuples(
        st.floats(0, 4).map(lambda x: round(x, 3)),
        st.builds(
            Batch,
            st.sampled_from("ab"),
            st.booleans(),
            st.sampled_from([[20.0, 300.0, 0.0, 0.0], [0.0, 0.0, 200.0, 100.0], [0.0] * 4]),
            st.sampled_from([0, 2]),
            st.just(6.0),
            st.lists(OPS, max_size=6),
        ),
    ),
    max_size=12,
)
UNSHRUNK = (Phase.explicit, Phase.generate)  # each example asks a server
numbers = itertools.count()


@settings(max_examples=10, phases=UNSHRUNK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BATCHES)
def test_redis_has_the_same_rules(redis_server: Any, batches: list[tuple[float, Batch]]) -> None:
    asyncio.run(compare(redis_server.url, batches))


@pytest.mark.slow
@settings(max_examples=60, phases=UNSHRUNK, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(BATCHES)
def test_redis_has_the_rules_at_length(redis_server: Any, batches: list[tuple[float, Batch]]) -> None:
    asyncio.run(compare(redis_server.url, batches))


async def compare(url: str, batches: list[tuple[float, Batch]]) -> None:
    time = 100.0
    store = RedisLimits(url, f"same-{next(numbers)}", clock=lambda: time)
    state, queue = State(created=100.0, at=100.0), line()
    try:
        for step, batch in batches:
            time += step
            assert plain(await store.apply(batch)) == pytest.approx(
                plain(rules.apply(state, queue, batch, time))
            )
    finally:
        await store.aclose()


def plain(answer: Answer) -> dict[str, Any]:
    """Numbers and names by key, which can be compared approximately."""
    found: dict[str, Any] = {"members": answer.members, "woken": ",".join(answer.woken), "now": answer.now}
    found["in_line"] = answer.in_line
    lists = {"levels": answer.levels, "spent": answer.spent, "results": answer.results}
    return found | {f"{name}{n}": x for name, values in lists.items() for n, x in enumerate(values)}


async def test_a_long_line_is_the_same(redis_server: Any) -> None:
    """Beyond those that are added up one by one."""
    store = RedisLimits(redis_server.url, "long", clock=lambda: 100.0)
    state, queue = State(created=100.0, at=100.0), line()
    asks: list[Op] = [Ask(f"a.{n}", [1.0, n % 7 * 10.0, 0.0, 0.0], n % 3, False) for n in range(150)]
    batch = Batch("a", True, [20.0, 300.0, 0.0, 0.0], 0, 30.0, asks)
    assert plain(await store.apply(batch)) == pytest.approx(plain(rules.apply(state, queue, batch, 100.0)))
    again = msgspec.structs.replace(batch, ops=[Ask("a.148", [1.0, 10.0, 0.0, 0.0], 1, True)])
    assert plain(await store.apply(again)) == pytest.approx(plain(rules.apply(state, queue, again, 100.0)))
    await store.aclose()


async def test_redis_keys_expire_in_one_slot(redis_server: Any) -> None:
    import redis.asyncio

    store = RedisLimits(redis_server.url, "expires")
    asks: list[Op] = [Ask(f"a.{n}", [1.0, 0.0, 0.0, 0.0], 0, False) for n in range(5)]
    await store.apply(Batch("a", True, [2.0, 0.0, 0.0, 0.0], 1, 30.0, asks))
    async with redis.asyncio.Redis.from_url(redis_server.url) as client:
        keys = [key async for key in client.scan_iter("llmstream:limits:*expires*")]
        assert len(keys) == 6
        assert all(b":{expires}:" in key for key in keys)
        assert all([0 < await client.pttl(key) <= 3_700_000 for key in keys])
    await store.aclose()


async def test_a_restart_forgets_the_processes(tmp_path: Any) -> None:
    """The machine's clock begins anew; levels stay as they were."""
    time = 5000.0
    store = SQLiteLimits(tmp_path / "limits.db", "restarted", clock=lambda: time)
    ask = Batch("a", True, SIZES, 1, 30.0, [Ask("a.1", [1.0, 600.0, 0.0, 0.0], 0, False)])
    assert (await store.apply(ask)).results == [-1.0]
    time = 10.0
    ask = Batch("b", True, SIZES, 1, 30.0, [Ask("b.1", [1.0, 6.0, 0.0, 0.0], 0, False)])
    answer = await store.apply(ask)
    assert answer.members == 1
    assert answer.results == [pytest.approx(0.6)]
    time = 10.7
    assert (await store.apply(ask)).results == [-1.0]
    await store.aclose()
