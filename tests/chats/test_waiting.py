"""Waiting for messages: in one loop, from threads, with deadlines and cancellation."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from llmstream.chats import Chat, Message

HELLO = Message.user("hello")
NEVER_S = 30.0  # a guard against hanging, never reached


async def started(coroutine: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
    """A task that has run up to its first wait."""
    task = asyncio.create_task(coroutine)
    for _ in range(3):
        await asyncio.sleep(0)
    return task


def parked(chat: Chat) -> int:
    return chat._history.parked


async def test_wait_returns_at_once_if_satisfied() -> None:
    chat = Chat(HELLO, HELLO)
    assert await chat.wait(0) == 2
    assert await chat.wait(1) == 2


async def test_a_negative_number_never_waits() -> None:
    assert await Chat().wait(-1) == 0


async def test_wait_blocks_until_an_append() -> None:
    """An empty chat blocks too."""
    chat = Chat()
    task = await started(chat.wait(0))
    assert not task.done()
    assert parked(chat) == 1
    chat.append(HELLO)
    assert await task == 1
    assert parked(chat) == 0


async def test_waking_below_the_number_waits_on() -> None:
    chat = Chat()
    task = await started(chat.wait(2))
    for _ in range(2):
        chat.append(HELLO)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not task.done()
    chat.append()
    chat.append(HELLO, HELLO)
    assert await task == 4


async def test_one_append_wakes_all_waiters() -> None:
    chat = Chat()
    tasks = [await started(chat.wait(0)) for _ in range(5)]
    assert parked(chat) == 5
    chat.append(HELLO)
    assert await asyncio.gather(*tasks) == [1] * 5


async def test_replace_wakes_waiters() -> None:
    chat = Chat(HELLO)
    task = await started(chat.wait(1))
    chat.replace(HELLO, HELLO)
    assert await task == 2


async def test_shrinking_replace_keeps_waiters() -> None:
    chat = Chat(HELLO, HELLO)
    task = await started(chat.wait(2))
    chat.replace(HELLO)
    await asyncio.sleep(0)
    assert not task.done()
    chat.append(HELLO, HELLO)
    assert await task == 3


async def test_the_count_comes_before_the_deadline() -> None:
    chat = Chat(HELLO)
    assert await chat.wait(0, timeout_s=0) == 1
    assert await chat.wait(0, timeout_s=-1) == 1


@pytest.mark.parametrize("timeout_s", [0, -1, 0.001])
async def test_timeout_error_leaves_no_waiter(timeout_s: float) -> None:
    chat = Chat(HELLO)
    with pytest.raises(TimeoutError, match="the chat has 1 messages, not more than 1, after"):
        await chat.wait(1, timeout_s=timeout_s)
    assert parked(chat) == 0


async def test_arrival_at_the_deadline_counts() -> None:
    chat = Chat()
    task = asyncio.create_task(chat.wait(0, timeout_s=0))
    await asyncio.sleep(0)  # the wait has begun and its deadline is due in the next turn
    chat.append(HELLO)
    assert await task == 1


async def test_cancelled_task_gets_a_reached_count() -> None:
    async def cancelled_before_it_waits() -> int:
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        count = await Chat(HELLO).wait(0)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(0)
        task.uncancel()
        return count

    assert await asyncio.create_task(cancelled_before_it_waits()) == 1


@pytest.mark.parametrize("timeout_s", [None, NEVER_S])
async def test_cancelling_leaves_no_waiter(timeout_s: float | None) -> None:
    chat = Chat()
    task = await started(chat.wait(0, timeout_s=timeout_s))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert parked(chat) == 0
    chat.append(HELLO)


async def test_cancel_after_wake_harms_no_other() -> None:
    chat = Chat()
    first, second = await started(chat.wait(0)), await started(chat.wait(0))
    chat.append(HELLO)
    first.cancel()
    assert await second == 1
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_a_thread_wakes_a_waiter() -> None:
    chat = Chat()
    task = await started(chat.wait(0, timeout_s=NEVER_S))
    await asyncio.to_thread(chat.append, HELLO)
    assert await task == 1


async def test_thread_writers_wake_a_waiter() -> None:
    chat = Chat()

    def write() -> None:
        for _ in range(100):
            chat.append(HELLO)

    writers = [threading.Thread(target=write) for _ in range(10)]
    for writer in writers:
        writer.start()
    count = 0
    while count < 1000:
        count = await chat.wait(count, timeout_s=NEVER_S)
    for writer in writers:
        writer.join()
    assert count == len(chat) == 1000
    assert parked(chat) == 0


async def test_many_threads_lose_nothing() -> None:
    """Ten writers, ten readers and five waiters; none hangs."""
    chat = Chat()

    async def write() -> None:
        for _ in range(100):
            chat.append(HELLO)
            await asyncio.sleep(0)

    async def read() -> None:
        while len(chat) < 1000:
            seen = chat.messages()
            assert all(message == HELLO for message in seen)
            chat.last(), chat.since(len(seen)), chat.system_prompt()
            for _ in range(50):
                await asyncio.sleep(0)

    waiters = [chat.wait(999, timeout_s=NEVER_S) for _ in range(5)]
    results = await asyncio.gather(*waiters, *(write() for _ in range(10)), *(read() for _ in range(3)))
    assert results[:5] == [1000] * 5
    assert len(chat) == 1000


def test_threads_see_each_change_complete() -> None:
    chat, torn = Chat(), []
    pairs = [(Message.user(f"a{i}"), Message.user(f"b{i}")) for i in range(4)]

    def write(i: int) -> None:
        for _ in range(100):
            chat.replace(*pairs[i])

    def read() -> None:
        for _ in range(300):
            seen = [message.text for message in chat.messages()]
            if seen and (len(seen) != 2 or seen[0][1:] != seen[1][1:]):
                torn.append(seen)

    with ThreadPoolExecutor(6) as pool:
        jobs = [pool.submit(write, i) for i in range(4)] + [pool.submit(read) for _ in range(2)]
        for job in jobs:
            job.result()
    assert torn == []


def test_one_chat_serves_loops_in_turn() -> None:
    chat = Chat()

    async def leave_a_waiter_behind() -> None:
        await started(chat.wait(0))

    loop = asyncio.new_event_loop()
    loop.run_until_complete(leave_a_waiter_behind())
    tasks = asyncio.all_tasks(loop)
    assert parked(chat) == 1
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()

    async def wait_and_append() -> int:
        task = await started(chat.wait(0))
        chat.append(HELLO)
        return int(await task)

    assert asyncio.run(wait_and_append()) == 1


def test_append_works_after_loop_is_closed() -> None:
    """The loop belonged to a waiter."""
    chat = Chat()
    loop = asyncio.new_event_loop()
    waiting = chat._history.changed_since(0)

    async def park() -> None:
        waiting.send(None)  # parks by hand, so that the loop can close before it is woken

    loop.run_until_complete(park())
    loop.close()
    chat.append(HELLO)
    waiting.close()
    assert len(chat) == 1
