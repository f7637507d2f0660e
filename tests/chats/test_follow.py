"""Following a chat as it grows."""

from __future__ import annotations

import asyncio

import pytest

from llmstream.chats import Chat, Message, Reset
from llmstream.errors import InvalidRequest

NEVER_S = 30.0  # a guard against hanging, never reached


def says(text: str) -> Message:
    return Message.user(text)


async def take(items: object, count: int) -> list[str]:
    """The next items as texts, "reset" for a Reset."""
    found: list[str] = []
    async with asyncio.timeout(NEVER_S):
        while len(found) < count:
            item = await anext(items)  # type: ignore[call-overload]  # any async iterator
            found.append("reset" if isinstance(item, Reset) else item.text)
    return found


async def test_follow_sees_old_and_new_once_each() -> None:
    chat = Chat(says("a"), says("b"))
    following = chat.follow()
    assert await take(following, 2) == ["a", "b"]
    chat.append(says("c"), says("d"))
    assert await take(following, 2) == ["c", "d"]


async def test_follow_starts_at_cursor_and_waits() -> None:
    chat = Chat(says("a"), says("b"))
    assert await take(chat.follow(1), 1) == ["b"]
    ahead = asyncio.create_task(take(chat.follow(3), 1))
    await asyncio.sleep(0)
    chat.append(says("c"), says("d"))
    assert await ahead == ["d"]
    with pytest.raises(InvalidRequest, match="message 0 or later"):
        chat.follow(-1)


async def test_follow_sees_appends_inside_the_loop() -> None:
    chat, seen = Chat(says("0")), []
    async for message in chat.follow():
        assert isinstance(message, Message)
        seen.append(message.text)
        if len(seen) == 5:
            break
        chat.append(says(str(len(seen))))
    assert seen == ["0", "1", "2", "3", "4"]
    assert chat._history.parked == 0


async def test_shrinking_replace_resets_follower() -> None:
    """The new history then comes from its start."""
    chat = Chat(says("a"), says("b"), says("c"))
    following = chat.follow()
    assert await take(following, 3) == ["a", "b", "c"]
    chat.replace(says("summary"))
    chat.append(says("d"))
    assert await take(following, 3) == ["reset", "summary", "d"]


async def test_replace_wakes_a_waiting_follower() -> None:
    """An empty history wakes it too."""
    chat = Chat(says("a"))
    following = chat.follow()
    assert await take(following, 1) == ["a"]
    task = asyncio.create_task(take(following, 1))
    await asyncio.sleep(0)
    chat.replace()
    assert await task == ["reset"]
    chat.append(says("b"))
    assert await take(following, 1) == ["b"]


async def test_several_replaces_give_one_reset() -> None:
    chat = Chat()
    following = chat.follow()
    chat.replace(says("x"))
    chat.replace(says("y"))
    assert await anext(following) == Reset(2)
    assert await take(following, 1) == ["y"]


async def test_replace_before_follow_is_no_reset() -> None:
    chat = Chat(says("a"))
    chat.replace(says("b"))
    assert await take(chat.follow(), 1) == ["b"]


async def test_cancelled_step_loses_nothing() -> None:
    chat = Chat()
    following = chat.follow()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(anext(following), 0.001)
    assert chat._history.parked == 0
    chat.append(says("a"))
    assert await take(following, 1) == ["a"]


async def test_followed_values_cannot_alter_chat() -> None:
    chat = Chat(Message("", "user", (), {"deep": [1]}))
    message = await anext(chat.follow())
    assert isinstance(message, Message)
    assert message.metadata is not None
    message.metadata["deep"].append(2)
    assert chat.at(0).metadata == {"deep": [1]}


async def test_wait_and_since_see_each_once() -> None:
    chat, cursor = Chat(says("0")), 0
    seen: list[str] = []

    async def write() -> None:
        for i in range(1, 20):
            chat.append(says(str(i)))
            if i % 3:
                await asyncio.sleep(0)

    writer = asyncio.create_task(write())
    while len(seen) < 20:
        await chat.wait(cursor, timeout_s=NEVER_S)
        new = chat.since(cursor) or []
        seen += [message.text for message in new]
        cursor += len(new)
    await writer
    assert seen == [str(i) for i in range(20)]


async def test_two_followers_see_same_thread_order() -> None:
    chat = Chat()
    tasks = [asyncio.create_task(take(chat.follow(), 300)) for _ in range(2)]

    def write(name: str) -> None:
        for i in range(100):
            chat.append(says(f"{name}{i}"))

    await asyncio.gather(*(asyncio.to_thread(write, name) for name in "abc"))
    first, second = await asyncio.gather(*tasks)
    assert first == second
    for name in "abc":
        assert [text for text in first if text.startswith(name)] == [f"{name}{i}" for i in range(100)]
