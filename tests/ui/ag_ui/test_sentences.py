"""Every grammatical run is a valid response: by the schema, and by the client that verifies it."""

from __future__ import annotations

import json
from typing import Any

import pydantic
import pytest
from hypothesis import HealthCheck, Phase, given, settings

from llmstream import grammar
from llmstream.events import Event
from llmstream.ui import ag_ui
from tests.ui.ag_ui.conftest import Client
from tests.ui.ag_ui.sentences import runs

USER = {"id": "u1", "role": "user", "content": "Hi"}


def options(examples: int) -> Any:
    # Each example is a message to another process; those that fail are shrunk over it too.
    phases = (Phase.explicit, Phase.generate, Phase.shrink)
    checks = list(HealthCheck)
    return settings(
        max_examples=examples, deadline=None, derandomize=True, phases=phases, suppress_health_check=checks
    )


def events_of(data: bytes) -> list[dict[str, Any]]:
    frames = data.decode().split("\n\n")
    assert frames.pop() == ""
    return [json.loads(frame.removeprefix("data: ")) for frame in frames]


def written(sentence: list[Event], **options: Any) -> tuple[list[dict[str, Any]], ag_ui.Writer]:
    writer = ag_ui.Writer("t", "run-1", messages=[USER], **options)
    return events_of(b"".join([writer.feed(event) for event in sentence]) + writer.close()), writer


def check_client(client: Client, sentence: list[Event]) -> None:
    """The client reads it without a complaint, and has the messages that the writer says it has."""
    assert grammar.check(sentence) == []
    events, writer = written(sentence, raw=True)
    seen = client.check(events, [USER])
    assert "threw" not in seen, (seen["threw"], events)
    assert seen["warned"] == []
    assert [event["type"] for event in seen["events"]] == [event["type"] for event in events]
    had = [message for message in seen["messages"] if message["role"] != "activity"]
    assert had == writer.messages
    assert seen.get("outcome") or seen["runError"]


def check_models(sentence: list[Event]) -> None:
    """Each event is one of those that the PyPI package describes."""
    core = pytest.importorskip(
        "ag_ui.core", reason="ag-ui-protocol is not installed; it is in the extra test"
    )
    model = pydantic.TypeAdapter(core.Event)
    for event in written(sentence, raw=True)[0]:
        assert None not in event.values() or event["type"] == "CUSTOM"
        model.validate_json(json.dumps(event))


def check_ends(sentence: list[Event]) -> None:
    """A source that ends anywhere is an error, never a success; one that was stopped is cancelled."""
    for end in range(len(sentence)):
        events, _ = written(sentence[:end])
        kinds = [event["type"] for event in events]
        assert kinds[0] == "RUN_STARTED"
        assert kinds[-1] == "RUN_ERROR" or events[-1]["outcome"] == {"type": "cancelled"}
        assert kinds.count("RUN_ERROR") + kinds.count("RUN_FINISHED") == 1


def check_next_request(sentence: list[Event]) -> None:
    """What the client has by then can be read when it sends it back."""
    _, writer = written(sentence)
    asked = ag_ui.read({"threadId": "t", "runId": "run-2", "messages": [*writer.messages, USER]})
    calls = [call.id for message in asked.messages for call in message.tool_calls]
    assert len(calls) == len(set(calls))
    assert asked.prompt[-1] == asked.messages[-1]
    loaded = ag_ui.read({"threadId": "t", "runId": "run-3", "messages": ag_ui.dump(asked.messages)})
    assert [(one.role, one.parts) for one in loaded.messages] == [(m.role, m.parts) for m in asked.messages]


@options(15)
@given(runs())
def test_client_accepts_any_run(client: Client, sentence: list[Event]) -> None:
    check_client(client, sentence)


@options(10)
@given(runs())
def test_events_fit_the_models_of_pypi(sentence: list[Event]) -> None:
    check_models(sentence)


@options(25)
@given(runs())
def test_response_has_one_end_at_any_cut(sentence: list[Event]) -> None:
    check_ends(sentence)


@options(25)
@given(runs())
def test_the_next_request_can_be_read(sentence: list[Event]) -> None:
    check_next_request(sentence)


@pytest.mark.slow
@options(300)
@given(runs())
def test_many_runs_are_accepted(client: Client, sentence: list[Event]) -> None:
    check_client(client, sentence)
    check_next_request(sentence)
    check_models(sentence)
    check_ends(sentence)


@pytest.mark.slow
@pytest.mark.exhaustive
@options(2000)
@given(runs())
def test_very_many_runs_are_accepted(client: Client, sentence: list[Event]) -> None:
    check_client(client, sentence)
    check_next_request(sentence)


@pytest.mark.slow
@pytest.mark.exhaustive
@options(1000)
@given(runs())
def test_very_many_runs_fit_the_models(sentence: list[Event]) -> None:
    check_models(sentence)
    check_ends(sentence)
