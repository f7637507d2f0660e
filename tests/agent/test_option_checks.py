"""What an agent cannot be made of is refused where it is made."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import llmstream as ls
from llmstream.agent import Hooks
from llmstream.testing import Call, ScriptedModel, Turn


async def look() -> str:
    """Look."""
    return "seen"


WRONG: list[dict[str, Any]] = [
    {"max_steps": 0},
    {"max_steps": "3"},
    {"max_steps": 1.5},
    {"max_steps": True},
    {"tool_limit": 0},
    {"tool_limit": "8"},
    {"stop_when": 5},
    {"stop_when": [5]},
    {"context_effects": 5},
    {"context_effects": [5]},
    {"hooks": {}},
    {"hooks": look},
    {"prepare_step": 5},
    {"approve": True},
    {"repair": 5},
    {"price": 0.1},
    {"observe": 5},
    {"name": 5},
    {"instructions": 5},
    {"approval_key": "a str"},
    {"approval_key": b""},
    {"approval_ttl_s": "1"},
    {"journal": 5},
    {"temprature": 1},
    {"temperature": "hot"},
]


@pytest.mark.parametrize("options", WRONG, ids=lambda options: str(options).partition(" at 0x")[0])
def test_meaningless_options_refused_at_once(options: dict[str, Any]) -> None:
    with pytest.raises(ls.InvalidRequest):
        ls.Agent("sim:demo", tools=[look], **options)


@pytest.mark.parametrize("hook", ["before_model", "after_model", "before_tool", "after_tool"])
def test_a_hook_is_a_function(hook: str) -> None:
    with pytest.raises(ls.InvalidRequest, match=hook):
        Hooks(**{hook: 5})  # type: ignore[arg-type]


async def test_none_is_as_if_it_were_not_given() -> None:
    model = ScriptedModel(Turn(calls=(Call("look"),)), repeat_last=True)
    agent = ls.Agent(
        model, tools=[look], max_steps=None, tool_limit=None, hooks=None, stop_when=None, context_effects=None
    )
    run = agent.stream("Go")
    await run.collect()
    assert len(run.steps) == agent.max_steps == 20


async def test_single_effect_and_path_are_accepted(tmp_path: Path) -> None:
    model = ScriptedModel("Done.")
    path = tmp_path / "clerk.journal"
    agent = ls.Agent(model, context_effects=lambda messages: messages[-1:], journal=path)
    await agent.run([ls.Message.user("Old"), ls.Message.user("New")])
    assert [m.text for m in model.requests[0].messages] == ["New"]
    assert path.exists()


def test_seconds_and_suspensions_are_checked() -> None:
    agent = ls.Agent("sim:demo")
    with pytest.raises(ls.InvalidRequest, match="total_s"):
        agent.stream("Go", deadlines=ls.Deadlines(total_s="5"))  # type: ignore[arg-type]
    with pytest.raises(ls.InvalidRequest, match="Suspension"):
        agent.resume({})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "remedy"),
    [("run_sync", "asyncio.run"), ("run_stream", "agent.stream"), ("nothing", "attribute")],
)
def test_foreign_sdk_method_hints_at_ours(name, remedy) -> None:
    with pytest.raises(AttributeError, match=re.escape(remedy)):
        getattr(ls.Agent("sim:demo"), name)


def test_a_suspension_that_was_taken_says_so(tmp_path) -> None:
    with pytest.raises(ls.InvalidRequest, match="it was already resumed") as taken:
        ls.Suspension.take(tmp_path / "waiting.json")
    assert isinstance(taken.value, FileNotFoundError)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            lambda: {"hooks": Hooks(before_tool=lambda call: None)},
            r"before_tool is called with \(state, call\)",
        ),
        (lambda: {"hooks": Hooks(before_model=lambda: None)}, r"before_model is called with \(state\)"),
        (lambda: {"stop_when": lambda: True}, r"a stop condition is called with \(state\)"),
        (lambda: {"prepare_step": lambda: None}, r"prepare_step is called with \(state\)"),
        (lambda: {"approve": lambda: True}, r"approve is called with \(pending\)"),
        (lambda: {"price": lambda usage: 1.0}, r"price is called with \(model, usage\)"),
    ],
)
def test_function_with_bad_signature_refused(options, message):
    """When the agent is made, not in the middle of its first run."""
    with pytest.raises(ls.InvalidRequest, match=message):
        ls.Agent("sim:demo", **options())


async def test_run_observer_joins_agent_observer() -> None:
    own, more = [], []
    agent = ls.Agent(ScriptedModel("Done."), observe=own.append)
    await agent.run("Go", observe=more.append)
    assert own == more
    assert type(own[0]).__name__ == "RunStarted"


def test_stream_refuses_prompt_function() -> None:
    """A stream takes no function as instructions."""
    with pytest.raises(ls.InvalidRequest, match="must be a str"):
        ls.stream("sim:demo", "Hi", instructions=lambda state: "")  # type: ignore[arg-type]
