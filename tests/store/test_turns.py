"""Turns: the prompt first, the answer as it comes, and what a crash leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import aclosing

import pytest

import llmstream as ls
from llmstream.simulator import Refuse, Script, Simulator, Turn
from llmstream.store import StoreError
from llmstream.store.sqlite import FileWriter

FORKS = """
import os, sys
from pathlib import Path
from llmstream.store.sqlite import FileWriter

writer = FileWriter(Path(sys.argv[1]))
writer.appear()
print(writer.id, flush=True)
if os.fork() == 0:
    writer.appear()
    print(writer.id, flush=True)
    sys.stdin.read()
"""


def weather(city: str) -> str:
    """Tell the weather of a city."""
    return f"{city}: snow"


def shape(chat):
    return [(str(message.role), message.text or len(message.parts)) for message in chat]


async def test_a_plain_chat_receives_a_turn():
    chat = ls.Chat(ls.Message.system("Be brief."))
    async with ls.stream("sim:demo", "Hi", chat=chat) as stream:
        assert len(chat) == 1  # nothing before the first read
        async for _ in stream:
            assert chat.last().text == "Hi"
    assert [str(message.role) for message in chat] == ["system", "user", "assistant"]
    assert chat.messages() == stream.messages()


async def test_a_stream_with_tools_is_kept(store):
    chat = store.chat("one")
    async with ls.stream("sim:demo", "How is the weather in Oslo?", chat=chat, tools=[weather]) as stream:
        while await stream.call_tools():
            pass
    assert [str(message.role) for message in store.chat("one")] == ["user", "assistant", "tool", "assistant"]
    assert store.chat("one").messages() == stream.messages()
    assert [turn.finish for turn in store.turns("one")] == ["tool-calls", "stop"]


async def test_a_run_is_kept_step_by_step(store):
    chat = store.chat("one")
    agent = ls.Agent("sim:demo", tools=[weather], instructions="Be brief.")
    async with agent.stream("How is the weather in Oslo?", chat=chat) as run:
        async for event in run:
            if isinstance(event, ls.StepStart) and event.step == 1:
                assert [str(message.role) for message in store.chat("one")] == ["user", "assistant", "tool"]
    kept = store.chat("one").messages()
    assert kept == [message for message in run.messages() if message.role != "system"]
    assert [(turn.step, turn.finish) for turn in store.turns("one")] == [(0, "tool-calls"), (1, "stop")]
    async with agent.stream("And in Rome?", chat=chat) as run:
        await run.collect()
    assert store.chat("one").messages()[:4] == kept
    assert len(chat) > 5


async def test_a_left_answer_is_kept_as_shown(store):
    stream = ls.stream("sim:demo", "Hi", chat=store.chat("one"))
    async with stream, aclosing(stream.text_deltas()) as deltas:
        await anext(deltas)
    assert store.chat("one").last().text == stream.text != ""
    assert [turn.state for turn in store.turns("one")] == ["left"]


async def test_a_failed_answer_keeps_its_error(store):
    chat = store.chat("one")
    async with Simulator(Script((Turn(fault=Refuse(status=400)),))) as simulator:
        model = ls.Model("sim:demo", base_url=simulator.url)
        with pytest.raises(ls.LLMStreamError):
            await ls.stream(model, "Hi", chat=chat).collect()
    assert shape(store.chat("one")) == [("user", "Hi")]
    (turn,) = store.turns("one")
    assert turn.state == "failed"
    assert turn.error


async def test_a_dead_process_leaves_what_came(opened, monkeypatch):
    store = opened()
    stream = ls.stream("sim:demo", "Hi", chat=store.chat("one"))
    events = aiter(stream)
    shown = ""
    async for event in events:
        shown += event.delta if isinstance(event, ls.TextDelta) else ""
        if len(shown) > 20:
            break
    assert shape(opened().chat("one")) == [("user", "Hi")]  # its writer lives
    store.writer.leave()  # as the death of its process does
    other = opened()
    last = other.chat("one").last()
    assert last.text.startswith(shown)
    assert last.metadata["llmstream"]["incomplete"]
    assert [turn.state for turn in other.turns("one")] == ["lost"]
    with other.database.reading() as db:
        assert db.execute("select count(*) from drafts").fetchone() == (0,)
    await stream.aclose()  # the zombie adds a branch at most
    assert other.chat("one").last().text == last.text


def test_a_writer_lives_until_it_leaves(path):
    one, two = FileWriter(path), FileWriter(path)
    assert one.is_alive(one.id)
    assert not two.is_alive(one.id)
    one.appear()
    assert two.is_alive(one.id)
    one.leave()
    assert not two.is_alive(one.id)


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_writer_dies_before_its_forked_process(path):
    command = [sys.executable, "-c", FORKS, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        parent, child = (process.stdout.readline().strip() for _ in range(2))
        assert process.wait() == 0
        writer = FileWriter(path)
        assert not writer.is_alive(parent)
        assert writer.is_alive(child)
        process.stdin.close()


async def test_a_broken_store_takes_no_answer(store, monkeypatch):
    chat = store.chat("one")
    stream = ls.stream("sim:demo", "Hi", chat=chat)
    events = aiter(stream)
    await anext(events)
    writing = store.database.writing

    def fails():
        raise StoreError("the disk is full")

    monkeypatch.setattr(store.database, "writing", fails)
    async for _ in events:
        pass
    assert str(chat.failure) == "the disk is full"
    assert chat.last().text == stream.text
    monkeypatch.setattr(store.database, "writing", writing)
    assert shape(store.chat("one")) == [("user", "Hi")]
    chat.append(ls.Message.user("More"))
    assert store.chat("one").messages() == chat.messages()
    assert chat.failure is None
    assert [turn.state for turn in store.turns("one")] == ["done"]


async def test_an_unwritable_store_sends_nothing(opened, path):
    opened().chat("one").append(ls.Message.user("A"))
    chat = opened(read_only=True).chat("one")
    async with Simulator() as simulator:
        model = ls.Model("sim:demo", base_url=simulator.url)
        with pytest.raises(StoreError, match="reading only"):
            await ls.stream(model, "Hi", chat=chat).collect()
        assert simulator.requests == []


async def test_turns_have_what_was_asked(store):
    model = ls.Model("sim:demo", top_p=0.5, temperature=1.0)
    await ls.stream(
        model, "Hi", chat=store.chat("one"), temperature=0.2, reasoning="low", stop=["x"]
    ).collect()
    agent = ls.Agent(model, settings=ls.Settings(seed=7))
    await agent.stream("Hi", chat=store.chat("one"), max_output_tokens=50).collect()
    await ls.stream("sim:demo", "Hi", chat=store.chat("one"), tools=[weather], tool_choice="none").collect()
    await ls.stream("sim:demo", "Hi", chat=store.chat("one")).collect()
    assert [turn.asked for turn in store.turns("one")] == [
        {"top_p": 0.5, "temperature": 0.2, "reasoning": {"effort": "low"}, "stop": ["x"]},
        {"top_p": 0.5, "temperature": 1.0, "seed": 7, "max_output_tokens": 50},
        {"tool_choice": "none"},
        {},
    ]


async def test_a_logged_run_is_named(store):
    async with ls.open_logs("memory:") as logs:
        agent = ls.Agent("sim:demo", tools=[weather])
        run = await logs.start("a1", agent.stream("How is the weather in Oslo?", chat=store.chat("one")))
        stream = await logs.start("s1", ls.stream("sim:demo", "Hi", chat=store.chat("two")))
        await run.wait()
        await stream.wait()
        await ls.stream("sim:demo", "Hi", chat=store.chat("two")).collect()
    assert [turn.log for turn in store.turns("one")] == ["a1", "a1"]
    assert [turn.log for turn in store.turns("two")] == ["s1", ""]


async def test_without_content_no_text_is_kept(opened):
    store = opened(content=False, price=lambda model, usage: 1.0)
    chat = store.chat("one")
    await ls.stream("sim:demo", "zebra stripes", chat=chat, stop=["zebra"], seed=1).collect()
    async with Simulator(Script((Turn(fault=Refuse(status=400)),))) as simulator:
        model = ls.Model("sim:demo", base_url=simulator.url)
        with pytest.raises(ls.LLMStreamError):
            await ls.stream(model, "zebra again", chat=chat).collect()
    assert chat.messages()[0].text == "zebra stripes"
    first, second = store.turns("one")
    assert (first.state, first.cost, first.asked) == ("done", 1.0, {"seed": 1})
    assert first.usage.output_tokens > 0
    assert first.total_s is not None
    assert (second.state, ":" in second.error, second.warnings) == ("failed", False, "[]")
    assert second.error
    assert shape(store.chat("one")) == []
    assert store.search("zebra") == []
    assert [(row.turns, row.cost) for row in store.costs()] == [(2, 2.0)]
    assert [(info.id, info.title, info.messages) for info in store.conversations()] == [("one", "", 0)]
    with store.database.reading() as db:
        counts = "select (select count(*) from messages), (select count(*) from drafts)"
        assert db.execute(counts).fetchone() == (0, 0)
        assert "zebra" not in str(db.execute("select * from turns").fetchall())


async def test_content_may_be_left_out_later(opened):
    opened().chat("one").append(ls.Message.user("before"))
    chat = opened(content=False).chat("one")
    stream = ls.stream("sim:demo", "after", chat=chat)
    async with stream, aclosing(stream.text_deltas()) as deltas:
        await anext(deltas)
    assert len(chat) == 3
    assert shape(opened().chat("one")) == [("user", "before")]
    assert [turn.state for turn in opened().turns("one")] == ["left"]


def test_chat_must_be_a_chat():
    with pytest.raises(ls.InvalidRequest, match="chat must be a Chat"):
        ls.stream("sim:demo", "Hi", chat="trip")
    with pytest.raises(ls.InvalidRequest, match="chat must be a Chat"):
        ls.Agent("sim:demo").stream("Hi", chat=[])
