"""Keys, limits, budgets and the log, in an SQLite file and in Redis."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import llmstream as ls
from llmstream.gateway import Budget, Key, Ledger, open_ledger
from llmstream.gateway.accounts import Row
from tests.redis_servers import RedisServer, flushed

START = 1_800_000_000.0


class Clock:
    """A clock that stands until it is moved."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def ledger(clock: Clock, store: str) -> Iterator[Ledger]:
    made = open_ledger(store, clock=clock)
    yield made
    made.close()


def row_at(clock: Clock, key: str = "ada", **fields: object) -> Row:
    return Row(started=clock.now, key=key, route="*", model="openai:gpt", asked="gpt", **fields)


def call(ledger: Ledger, clock: Clock, key: Key, tokens: int = 10, cost: float | None = None) -> Row:
    row = row_at(clock, key.name)
    ledger.reserve(row, key, tokens, cost)
    return row


def test_keys_are_current_while_a_change_waits(tmp_path: Path) -> None:
    """Else a call would be anonymous although there is already a key, or go on with a revoked one."""
    ours, other = open_ledger(tmp_path / "gateway.db"), open_ledger(tmp_path / "gateway.db")
    assert not ours.has_keys
    writer = sqlite3.connect(tmp_path / "gateway.db", isolation_level=None)
    secret = other.add_key(Key(name="ada"))
    writer.execute("begin immediate")  # as a gateway that stops in a transaction
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(ours.add_key, Key(name="eve"))
        while not ours._lock.locked():
            time.sleep(0.001)
        assert ours.has_keys
        assert ours.find([secret]) is not None
        assert not waiting.done()
        writer.execute("rollback")
    other.revoke("ada")
    assert ours.find([secret]) is None
    for opened in (ours, other, writer):
        opened.close()


def test_secrets_are_shown_once(tmp_path: Path) -> None:
    ledger = open_ledger(tmp_path / "gateway.db")
    secret = ledger.add_key(Key(name="ada"))
    ledger.close()
    assert secret.startswith("ls-")
    assert len(secret) > 40
    files = list(tmp_path.iterdir())
    assert all(secret.encode() not in path.read_bytes() for path in files)
    assert (tmp_path / "gateway.db").stat().st_mode & 0o777 == 0o600


def test_keys_are_found_until_revoked(store: str) -> None:
    """A key added or revoked by another process counts at once."""
    serving, command = open_ledger(store), open_ledger(store)
    assert not serving.has_keys
    secret = command.add_key(Key(name="ada", models=("claude-*",)))
    found = serving.find(["nonsense", secret])
    assert found is not None
    assert (found.name, found.may_use("claude-x"), found.may_use("gpt")) == ("ada", True, False)
    with pytest.raises(ls.InvalidRequest, match="there is already a key"):
        command.add_key(Key(name="ada"))
    command.revoke("ada")
    (revoked,) = serving.keys()
    assert (revoked.name, revoked.revoked is None) == ("ada", False)
    assert serving.find([secret]) is None
    assert serving.has_keys
    with pytest.raises(ls.InvalidRequest, match="no key named"):
        command.revoke("eve")
    serving.close()
    command.close()


def test_requests_a_minute(ledger: Ledger, clock: Clock) -> None:
    key = Key(name="ada", requests_per_minute=2)
    call(ledger, clock, key)
    clock.now += 20
    call(ledger, clock, key)
    with pytest.raises(ls.RateLimited, match="2 requests a minute") as caught:
        call(ledger, clock, key)
    assert caught.value.retry_after_s == 40
    call(ledger, clock, Key(name="eve", requests_per_minute=2))
    clock.now += 40
    call(ledger, clock, key)


def test_tokens_a_minute_by_use(ledger: Ledger, clock: Clock) -> None:
    """The reserve counts until the call is settled; then what it used."""
    key = Key(name="ada", tokens_per_minute=1000)
    first = call(ledger, clock, key, tokens=5000)  # larger than the limit, but alone
    with pytest.raises(ls.RateLimited, match="1000 tokens a minute"):
        call(ledger, clock, key, tokens=10)
    first.input_tokens, first.output_tokens, first.outcome = 100, 100, "complete"
    ledger.settle(first)
    call(ledger, clock, key, tokens=800)
    with pytest.raises(ls.RateLimited):
        call(ledger, clock, key, tokens=1)


@pytest.mark.parametrize("window_s", [3600.0, 30 * 86400.0])
def test_budgets_slide(ledger: Ledger, clock: Clock, window_s: float) -> None:
    key = Key(name="ada", budget_usd=1.0, budget_s=window_s)
    first = call(ledger, clock, key, cost=0.9)
    with pytest.raises(ls.RateLimited, match=r"has 0\.1000 of its 1 USD left") as caught:
        call(ledger, clock, key, cost=0.2)
    assert caught.value.reason == "budget_exceeded"
    assert 0 < caught.value.retry_after_s <= window_s + 3600
    first.cost_usd, first.outcome = 0.5, "complete"
    ledger.settle(first)
    call(ledger, clock, key, cost=0.5)
    with pytest.raises(ls.RateLimited):
        call(ledger, clock, key, cost=0.01)
    clock.now += window_s + 3601
    call(ledger, clock, key, cost=1.0)


def test_budgets_need_a_price(ledger: Ledger, clock: Clock) -> None:
    with pytest.raises(ls.PermissionDenied, match="no price of openai:gpt is known"):
        call(ledger, clock, Key(name="ada", budget_usd=1.0), cost=None)
    assert ledger.rows() == []


def test_processes_share_one_budget(store: str, clock: Clock) -> None:
    """Many at once, over two connections: no more is let in than the budget has."""
    ledgers = [open_ledger(store, clock=clock) for _ in range(2)]
    key = Key(name="ada", budget_usd=1.0)

    def one(number: int) -> bool:
        row = Row(started=START, key="ada")
        try:
            ledgers[number % 2].reserve(row, key, 1, 0.1)
        except ls.RateLimited:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        let_in = sum(pool.map(one, range(40)))
    spent = ledgers[0].sums("key")[0]
    assert let_in == spent.calls
    assert 9 <= let_in <= 10
    for ledger in ledgers:
        ledger.close()


@pytest.mark.slow
def test_killed_gateways_lose_no_call(store: str) -> None:
    """A process enters a call and is killed: the call is there, with its reserve."""
    program = (
        "import os, sys, time\nfrom llmstream.gateway import Key, open_ledger\n"
        "from llmstream.gateway.accounts import Row\n"
        "ledger = open_ledger(sys.argv[1])\n"
        "ledger.reserve(Row(started=time.time(), key='ada'), Key(name='ada'), 500, 0.25)\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", program, store], cwd=Path(__file__).parents[2])
    assert done.returncode == -9
    ledger = open_ledger(store)
    assert [row.outcome for row in ledger.rows()] == ["open"]
    assert ledger.recover() == 1
    (row,) = ledger.rows()
    assert (row.outcome, row.input_tokens, row.cost_usd, row.estimated) == ("lost", 500, 0.25, True)
    ledger.close()


def test_own_open_calls_are_not_lost(ledger: Ledger, clock: Clock) -> None:
    call(ledger, clock, Key(name="ada"))
    assert ledger.recover() == 0
    clock.now += 7201
    assert ledger.recover() == 1


def test_rows_and_sums_by_filter(ledger: Ledger, clock: Clock) -> None:
    for number, (key, outcome) in enumerate([("ada", "complete"), ("ada", "cut"), ("eve", "complete")]):
        row = row_at(clock, key)
        ledger.reserve(row, Key(name=key), 10, 1.0)
        row.outcome, row.input_tokens, row.output_tokens = outcome, 5, 7
        row.cost_usd = None if number == 2 else 0.5
        ledger.settle(row)
        clock.now += 86400
    assert [row.key for row in ledger.rows()] == ["eve", "ada", "ada"]
    assert [row.outcome for row in ledger.rows(key="ada", outcome="cut")] == ["cut"]
    assert ledger.rows(model="gpt", since=START + 86400 * 2)[0].key == "eve"
    ada, eve = ledger.sums("key")
    assert (ada.group, ada.calls, ada.failed, ada.input_tokens, ada.cost_usd) == ("ada", 2, 1, 10, 1.0)
    assert (eve.calls, eve.cost_usd, eve.unknown_cost) == (1, 0.0, 1)
    assert [one.group for one in ledger.sums("day")] == ["2027-01-15", "2027-01-16", "2027-01-17"]


def test_processes_share_one_secret(store: str) -> None:
    first, second = open_ledger(store), open_ledger(store)
    assert first.secret("envelope") == second.secret("envelope")
    assert first.secret("envelope") != first.secret("other")
    first.close()
    second.close()


def test_other_files_are_no_store(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but a longer text than its header has")
    for path in (tmp_path / "text", tmp_path / "missing" / "gateway.db"):
        with pytest.raises(ls.InvalidRequest, match="cannot be opened"):
            open_ledger(path)


def test_addresses_without_a_store() -> None:
    with pytest.raises(ls.InvalidRequest, match=r"cannot use a store at 'postgresql:\.\.\.'"):
        open_ledger("postgresql://user:secret@host/db")
    pytest.importorskip("redis")
    with pytest.raises(ls.ConnectionFailed, match=r"Redis at 127\.0\.0\.1:1 cannot be used") as caught:
        open_ledger("redis://user:secret@127.0.0.1:1/0")
    assert "secret" not in caught.value.message


def test_settling_twice_counts_once(ledger: Ledger, clock: Clock) -> None:
    """After a timeout nobody knows whether the first was written."""
    key = Key(name="ada", budget_usd=1.0, tokens_per_minute=1000)
    row = call(ledger, clock, key, tokens=900, cost=0.9)
    row.cost_usd, row.input_tokens, row.outcome = 0.2, 100, "complete"
    ledger.settle(row)
    ledger.settle(row)
    call(ledger, clock, key, tokens=900, cost=0.8)
    with pytest.raises(ls.RateLimited):
        call(ledger, clock, key, tokens=1, cost=0.0)


def test_tags_have_budgets_of_their_own(ledger: Ledger, clock: Clock) -> None:
    """Of all keys together, beside those of the keys."""
    for window_s in (3600.0, 30 * 86400.0):
        tag = f"research-{window_s:.0f}"
        budget = Budget("tag", tag, 1.0, window_s)

        def tagged(key: Key, cost: float | None, tag: str = tag, budget: Budget = budget) -> None:
            ledger.reserve(row_at(clock, key.name, tag=tag), key, 10, cost, budget)

        tagged(Key(name="ada"), 0.6)
        with pytest.raises(ls.RateLimited, match=f"The tag {tag} has 0\\.4000 of its 1 USD left"):
            tagged(Key(name="eve"), 0.6)
        with pytest.raises(ls.RateLimited, match="The key poor"):
            tagged(Key(name="poor", budget_usd=0.1), 0.2)
        with pytest.raises(ls.PermissionDenied, match=f"The tag {tag} has a budget, but no price"):
            tagged(Key(name="eve"), None)
        call(ledger, clock, Key(name="eve"), cost=0.6)
        assert [row.key for row in ledger.rows(tag=tag)] == ["ada"]
    assert {one.group: one.calls for one in ledger.sums("tag")} == {
        "": 2,
        "research-3600": 1,
        "research-2592000": 1,
    }


def test_old_calls_are_forgotten(store: str, clock: Clock) -> None:
    """The log is bounded; what keys have spent is not forgotten with it."""
    ledger = open_ledger(store, clock=clock, keep_s=2 * 86400.0)
    key = Key(name="ada", budget_usd=10.0)
    for _ in range(5):
        call(ledger, clock, key, cost=2.0)
        clock.now += 86400
    assert len(ledger.rows()) == 3
    assert ledger.sums("key")[0].calls == 3
    with pytest.raises(ls.RateLimited):
        call(ledger, clock, key, cost=0.1)
    ledger.close()


def test_data_of_calls_is_carried(ledger: Ledger) -> None:
    ledger.carry([("ada:1", b"one"), ("ada:2", b"two")], 60.0)
    assert ledger.carried(["ada:2", "eve:1"]) == {"ada:2": b"two"}
    assert ledger.carried([]) == {}


def test_calls_of_other_hosts_wait(ledger: Ledger, clock: Clock) -> None:
    """Whether a process of another machine lives is not known; its calls are lost after two hours."""
    ledger._owner = "elsewhere:1:abcd"
    call(ledger, clock, Key(name="ada"))
    ledger._owner = f"{os.uname().nodename}:{os.getpid()}:before"
    call(ledger, clock, Key(name="ada"))
    assert ledger.recover() == 1
    clock.now += 7201
    assert ledger.recover() == 1
    assert {row.outcome for row in ledger.rows()} == {"lost"}


def test_files_without_tags_get_them(tmp_path: Path) -> None:
    """A file of the first form: its calls have no tag."""
    path = tmp_path / "gateway.db"
    open_ledger(path).close()
    old = sqlite3.connect(path)
    old.execute("insert into calls (owner, started, key, tag) values ('1', 1.0, 'ada', null)")
    old.executescript("drop index calls_of_tags; alter table calls drop column tag; pragma user_version = 1;")
    old.close()
    ledger = open_ledger(path)
    assert [one.group for one in ledger.sums("tag")] == [""]
    ledger.close()


def test_sums_by_minute_are_bounded(redis_server: RedisServer, clock: Clock) -> None:
    """A key that is used each minute for days: the window of a day is there, and not much more."""
    pytest.importorskip("redis")
    ledger = open_ledger(flushed(redis_server), clock=clock)
    for _ in range(3_000):
        call(ledger, clock, Key(name="ada"), cost=0.001)
        clock.now += 60
    with pytest.raises(ls.RateLimited, match=r"has 0\.0000 of its 0\.01 USD left"):
        call(ledger, clock, Key(name="ada", budget_usd=0.01, budget_s=3600.0), cost=0.001)
    assert 1_440 <= ledger._client.hlen(ledger._key("minutes:ada")) <= 2_881
    ledger.close()
