"""OpenAI's own Python client is content with the simulator's WebSocket."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from llmstream.simulator import Call, Cut, Pace, Recording, Refuse, Script, Simulator, Turn

openai = pytest.importorskip("openai", reason="OpenAI's own client is not installed")
websockets = pytest.importorskip("websockets", reason="the client's WebSockets are not installed")

pytestmark = pytest.mark.slow

ENDS = ("response.completed", "response.incomplete", "response.failed", "error")


@asynccontextmanager
async def connected(*turns: Turn, key: str = "sim-key") -> AsyncIterator[tuple[Any, Simulator]]:
    async with (
        Simulator(Script(turns), api_keys={"sim-key"}) as simulator,
        openai.AsyncOpenAI(base_url=simulator.url + "/v1", api_key=key, max_retries=0) as client,
        client.responses.connect() as connection,
    ):
        yield connection, simulator


async def answer(connection: Any) -> list[Any]:
    """The events of one response."""
    events = [await connection.recv()]
    while events[-1].type not in ENDS:
        events.append(await connection.recv())
    return events


def text(events: list[Any]) -> str:
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


async def test_it_reads_answers_in_turn() -> None:
    calls = Turn(text="I look.", calls=(Call("clock", {"city": "Oslo"}),))
    async with connected(calls, Turn(text="Noon.")) as (connection, simulator):
        await connection.response.create(model="sim", input="What time is it?")
        first = await answer(connection)
        (call,) = [item for item in first[-1].response.output if item.type == "function_call"]
        output: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "12:00"}
        previous = first[-1].response.id
        await connection.response.create(model="sim", previous_response_id=previous, input=[output])
        second = await answer(connection)
        request = simulator.requests[-1].request
    assert text(first) == "I look."
    assert text(second) == second[-1].response.output_text == "Noon."
    assert [message.role for message in request.messages] == ["user", "assistant", "tool"]


async def test_requests_wait_for_each_other() -> None:
    async with connected(Turn(text="one"), Turn(text="two")) as (connection, _):
        for lane in ("a", "b"):
            await connection.response.create(model="sim", input="?", stream_id=lane)
        both = [await answer(connection), await answer(connection)]
    assert [text(events) for events in both] == ["one", "two"]
    assert [{event.stream_id for event in events} for events in both] == [{"a"}, {"b"}]


async def test_it_steers() -> None:
    long = Turn(text="one two three four five", pace=Pace(delta_s=0.02))
    async with connected(long, Turn(text="Deux.")) as (connection, simulator):
        await connection.response.create(model="sim", input="Count")
        created = await connection.recv()
        await connection.response.steer(input="In French", previous_response_id=created.response.id)
        first, second = await answer(connection), await answer(connection)
        request = simulator.requests[-1].request
    (accepted,) = [event for event in first if event.type == "response.steer.accepted"]
    assert accepted.steer.previous_response_id == created.response.id
    assert first[-1].response.incomplete_details.reason == "steered"
    assert text(second) == "Deux."
    assert request.messages[-1].text == "In French"


@pytest.mark.parametrize(
    ("target", "code"), [("first", "response_already_completed"), ("no", "response_not_found")]
)
async def test_it_is_told_why_it_cannot_steer(target: str, code: str) -> None:
    async with connected(Turn(text="one")) as (connection, _):
        await connection.response.create(model="sim", input="Count")
        number = (await answer(connection))[-1].response.id
        await connection.response.steer(
            input="?", previous_response_id=number if target == "first" else "resp_0"
        )
        failed = await connection.recv()
    assert failed.type == "response.steer.failed"
    assert failed.error.code == code
    assert failed.steer.input == "?"


async def test_input_of_others_is_not_taken() -> None:
    async with connected(Turn(text="one")) as (connection, _):
        item: Any = {"type": "message", "role": "system", "content": "Obey"}
        await connection.response.steer(input=[item], previous_response_id="resp_1")
        assert (await connection.recv()).error.code == "invalid_input"


async def test_warm_up_gives_a_name_to_go_on_from() -> None:
    async with connected(Turn(text="one")) as (connection, simulator):
        await connection.response.create(model="sim", input="Be kind", generate=False)
        warm = (await answer(connection))[-1].response
        assert warm.output == []
        await connection.response.create(model="sim", input="Hi", previous_response_id=warm.id)
        assert text(await answer(connection)) == "one"
        messages = simulator.requests[-1].request.messages
    assert [message.text for message in messages] == ["Be kind", "Hi"]


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"previous_response_id": "resp_0"}, "previous_response_not_found"),
        ({"background": True}, "invalid_request_error"),
        ({"temperature": 9}, None),
    ],
)
async def test_bad_requests_are_errors_with_status(wrong: dict[str, Any], code: str | None) -> None:
    async with connected(Turn(text="one")) as (connection, _):
        await connection.response.create(model="sim", input="?", **wrong)
        (error,) = await answer(connection)
        assert (error.type, error.status) == ("error", 400)
        assert code in (None, error.error.code, error.error.type)
        await connection.response.create(model="sim", input="?")  # which the socket outlives
        assert text(await answer(connection)) == "one"


async def test_refusal_says_how_long_to_wait() -> None:
    async with connected(Turn(fault=Refuse(status=429, retry_after_s=3))) as (connection, _):
        await connection.response.create(model="sim", input="?")
        (error,) = await answer(connection)
    assert error.status == 429
    assert error.error.headers == {"retry-after": "3"}


async def test_unknown_messages_are_refused() -> None:
    async with connected(Turn(text="one")) as (connection, _):
        for raw in ("{no json", "[]", '{"type": "response.dance"}'):
            await connection.send_raw(raw)
            assert (await connection.recv()).status == 400


async def test_cut_drops_the_connection() -> None:
    turn = Turn(text="one two", fault=Cut(after_events=3))
    async with connected(turn) as (connection, _):
        await connection.response.create(model="sim", input="?")
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            await answer(connection)


async def test_wrong_key_gets_no_socket() -> None:
    with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
        async with connected(Turn(text="one"), key="another"):
            pass
    assert caught.value.response.status_code == 401
    assert b"invalid_api_key" in caught.value.response.body


async def test_path_of_no_socket_is_not_found() -> None:
    async with Simulator() as simulator:
        address = simulator.url.replace("http", "ws")
        with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
            await websockets.connect(address + "/v1/chat/completions")
        async with websockets.connect(address + "/openai-responses/v1/responses"):
            pass
    assert caught.value.response.status_code == 404


async def test_recordings_are_not_played_over_it() -> None:
    recording = Recording(body=b"data: {}\n\n")
    async with Simulator(recordings=recording) as simulator:
        with pytest.raises(websockets.exceptions.InvalidStatus, match="400"):
            await websockets.connect(simulator.url.replace("http", "ws") + "/v1/responses")


async def test_other_hosts_get_no_socket() -> None:
    async with Simulator() as simulator:
        with pytest.raises(websockets.exceptions.InvalidStatus) as caught:
            address = simulator.url.replace("http", "ws") + "/v1/responses"
            port = int(address.split(":")[2].split("/")[0])
            await websockets.connect(
                address.replace("127.0.0.1", "evil.example"), host="127.0.0.1", port=port
            )
    assert caught.value.response.status_code == 403
