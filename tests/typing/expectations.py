"""What type checkers have to conclude. Not run: `test_expectations.py` gives it to mypy and to pyright."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, assert_type

import msgspec

import llmstream as ls
from llmstream.agent import AgentRun


class City(msgspec.Struct):
    name: str


class Shop:
    pass


SCHEMA: dict[str, Any] = {"type": "object"}
PLAIN = ls.Model("sim:demo")
TYPED = ls.Model("sim:demo", output=City)


def outputs() -> None:
    assert_type(ls.Output(City), ls.Output[City])
    assert_type(ls.Output(list[City], repair=2), ls.Output[list[City]])
    assert_type(ls.Output(SCHEMA, mode="tool"), ls.Output[Any])
    assert_type(PLAIN, ls.Model[ls.Message])
    assert_type(TYPED, ls.Model[City])
    assert_type(ls.Model("sim:demo", output="json"), ls.Model[Any])


async def streams() -> None:
    stream = ls.stream("sim:demo", "Hi", output=City, temperature=0.5)
    assert_type(stream, ls.EventStream[City])
    assert_type(stream.object, City)
    assert_type(stream.objects(), AsyncGenerator[City])
    assert_type(await stream.collect(), ls.Message)
    assert_type(await stream.display(), ls.Message)
    assert_type(ls.stream("sim:demo", "Hi"), ls.EventStream[ls.Message])
    assert_type(ls.stream(TYPED, "Hi"), ls.EventStream[City])
    assert_type(ls.stream(TYPED, "Hi", output=int).object, int)
    assert_type(ls.stream("sim:demo", "Hi", output=ls.Output(City, repair=2)), ls.EventStream[City])
    assert_type(ls.stream("sim:demo", "Hi", output=SCHEMA).object, Any)
    assert_type(ls.stream("sim:demo", "Hi", output="json").object, Any)
    cities = ls.stream("sim:demo", "Hi", output=list[City])
    assert_type(cities.object, list[City])
    assert_type(cities.objects(), AsyncGenerator[City])
    async with TYPED.stream("Hi") as opened:
        assert_type(opened, ls.EventStream[City])
    assert_type(stream.continue_with("sim:demo"), ls.EventStream[ls.Message])


async def asking() -> None:
    assert_type(await ls.Model("sim:demo").ask("Hi"), ls.Message)
    assert_type(await TYPED.ask("Hi"), City)
    assert_type(await PLAIN.ask("Hi", output=list[City], seed=1), list[City])
    assert_type(await PLAIN.ask("Hi", output=SCHEMA), Any)


async def maps() -> None:
    rows: list[dict[str, int]] = []
    assert_type(ls.map("sim:demo", ["a"]), ls.MapRun[str, ls.Message])
    assert_type(ls.map(TYPED, rows), ls.MapRun[dict[str, int], City])
    assert_type(ls.map(PLAIN, rows, output=SCHEMA), ls.MapRun[dict[str, int], Any])
    run = ls.map("sim:demo", ["a"], prompt="{{text}}", output=City, keep="a.jsonl", temperature=0.5)
    async with run as opened:
        assert_type(opened, ls.MapRun[str, City])
        async for done in opened:
            assert_type(done, ls.MapResult[str, City])
            assert_type(done.item, str)
            assert_type(done.value, City)
            assert_type(done.error, ls.LLMStreamError | None)
    assert_type(run.progress, ls.MapProgress)


async def agents() -> None:
    agent = ls.Agent("sim:demo", max_steps=3, temperature=0.5)
    assert_type(agent, ls.Agent[Any, ls.Message])
    assert_type(await agent.run("Hi"), ls.Message)
    assert_type(await agent.run("Hi", output=City, max_steps=2), City)
    assert_type(await agent.run("Hi", output="json"), Any)
    assert_type(agent.stream("Hi", output=City), AgentRun[City])
    assert_type(ls.Agent("sim:demo", deps=Shop()), ls.Agent[Shop, ls.Message])
    assert_type(ls.Agent("sim:demo", output=SCHEMA), ls.Agent[Any, Any])
    typed = ls.Agent("sim:demo", output=City, deps=Shop())
    assert_type(typed, ls.Agent[Shop, City])
    assert_type(await typed.run("Hi", deps=Shop()), City)
    run = typed.stream("Hi")
    assert_type(run, AgentRun[City])
    assert_type(run.object, City)
    assert_type(await run.display(), City)
    assert_type(run.objects(), AsyncGenerator[City])
    assert_type(ls.Agent("sim:demo", output=list[City]).stream("Hi").objects(), AsyncGenerator[City])
    assert_type(ls.Agent(TYPED), ls.Agent[Any, City])
    assert_type(await ls.Agent(TYPED).run("Hi"), City)


def takes_any_handle(stream: ls.EventStream, run: AgentRun, agent: ls.Agent, model: ls.Model) -> None:
    """A name without a parameter takes all of them."""


def untyped_names() -> None:
    agent = ls.Agent(TYPED)
    takes_any_handle(TYPED.stream("Hi"), agent.stream("Hi"), agent, TYPED)
    takes_any_handle(PLAIN.stream("Hi"), ls.Agent(PLAIN).stream("Hi"), ls.Agent(PLAIN), PLAIN)
