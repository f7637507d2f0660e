"""What goes over a socket: only what is new, where it is proved that the server has the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest

import llmstream as ls
from llmstream.dialects.openai_responses import DeliveryQuirks, Quirks
from llmstream.dialects.openai_responses.sockets import ResponsesSockets
from llmstream.errors import Unsupported

HI = {"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
MORE = {"role": "user", "content": [{"type": "input_text", "text": "More"}]}
PART = {"type": "output_text", "text": "Hello", "annotations": [], "logprobs": []}
ANSWER = {"id": "msg_1", "type": "message", "status": "completed", "role": "assistant", "content": [PART]}
OURS = {
    "type": "message",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "Hello"}],
    "id": "msg_1",
}
THOUGHT = {"id": "rs_1", "type": "reasoning", "summary": [], "encrypted_content": "abc", "status": None}
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "call_id": "c1",
    "name": "f",
    "arguments": "{}",
    "status": "completed",
}


def protocol(quirks: Quirks = Quirks()) -> Any:
    return ResponsesSockets(quirks).protocol(provider="openai-responses")


def request(*items: dict[str, Any], **fields: Any) -> Any:
    body = {"model": "gpt-5", "input": list(items), "store": False, "stream": True, **fields}
    return ResponsesSockets(Quirks()).socket_request(json.dumps(body).encode())


def receive(one: Any, *messages: Any) -> list[str]:
    """What the messages are, or lists of them."""
    flat = [each for message in messages for each in (message if isinstance(message, list) else [message])]
    return [one.receive(json.dumps(message).encode()) for message in flat]


def created(number: str = "resp_1") -> dict[str, Any]:
    return {"type": "response.created", "response": {"id": number}}


def done(item: dict[str, Any]) -> dict[str, Any]:
    return {"type": "response.output_item.done", "item": item}


def ended(*output: dict[str, Any], kind: str = "completed", number: str = "resp_1") -> list[dict[str, Any]]:
    response = {"id": number, "status": kind, "output": list(output)}
    return [*map(done, output), {"type": f"response.{kind}", "response": response}]


def answered(*output: dict[str, Any], **end: Any) -> Any:
    """A protocol whose last answer was that, to "Hi"."""
    one = protocol()
    one.send(request(HI))
    receive(one, created(), ended(*output, **end))
    return one


def asked(one: Any, *items: dict[str, Any], **fields: Any) -> tuple[str | None, list[Any]]:
    """What the next request goes on from, and the items that are sent."""
    wanted = request(*items, **fields)
    continues = one.continues(wanted)
    said = json.loads(one.send(wanted))
    assert continues == ("previous_response_id" in said and "previous_response_id" not in fields)
    return said.get("previous_response_id"), said["input"]


def test_the_first_request_is_whole() -> None:
    said = json.loads(protocol().send(request(HI, background=False, tools=[])))
    assert said == {"type": "response.create", "model": "gpt-5", "input": [HI], "store": False, "tools": []}


def test_the_next_says_what_is_new() -> None:
    assert asked(answered(ANSWER), HI, OURS, MORE) == ("resp_1", [MORE])
    both = answered(THOUGHT, CALL)
    thought = {"type": "reasoning", "summary": [], "id": "rs_1", "encrypted_content": "abc"}
    call = {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"}
    assert asked(both, HI, thought, call, MORE) == ("resp_1", [MORE])


@pytest.mark.parametrize(
    "items",
    [
        (HI, MORE),
        (HI, OURS),
        (MORE, OURS, MORE),
        (OURS, MORE),
        (HI, {**OURS, "content": [{"type": "output_text", "text": "Bye"}]}, MORE),
        (HI, {**OURS, "phase": "commentary"}, MORE),
        (HI, {**OURS, "id": "msg_2"}, MORE),
        (HI, {**OURS, "content": []}, MORE),
        (HI, {**OURS, "content": [PART, PART]}, MORE),
        (HI, {**OURS, "content": "Hello"}, MORE),
        (HI, MORE, OURS),
    ],
)
def test_what_is_not_proved_goes_whole(items: tuple[dict[str, Any], ...]) -> None:
    assert asked(answered(ANSWER), *items) == (None, list(items))


def test_omitted_reasoning_resends_all() -> None:
    assert asked(answered(THOUGHT, ANSWER), HI, OURS, MORE) == (None, [HI, OURS, MORE])


@pytest.mark.parametrize("fields", [{"model": "gpt-6"}, {"conversation": "c"}, {"prompt": {"id": "p"}}])
def test_other_conversations_resend_all(fields: dict[str, Any]) -> None:
    """So do other models."""
    assert asked(answered(ANSWER), HI, OURS, MORE, **fields) == (None, [HI, OURS, MORE])


def test_a_callers_own_link_is_kept() -> None:
    said = json.loads(answered(ANSWER).send(request(MORE, previous_response_id="resp_0")))
    assert (said["previous_response_id"], said["input"]) == ("resp_0", [MORE])


@pytest.mark.parametrize("kind", ["incomplete", "failed", "cancelled"])
def test_only_complete_responses_continue(kind: str) -> None:
    one = answered(ANSWER, kind=kind)
    assert one.is_idle
    assert asked(one, HI, OURS, MORE)[0] is None


def completed(*output: Any) -> dict[str, Any]:
    return {"type": "response.completed", "response": {"id": "resp_1", "output": list(output)}}


@pytest.mark.parametrize("output", [(), ({**ANSWER, "id": "msg_9"},)])
def test_items_count_as_they_were_streamed(output: tuple[Any, ...]) -> None:
    """ChatGPT's backend ends an answer with an empty output, though it has said its items."""
    one = protocol()
    one.send(request(HI))
    receive(one, created(), done(ANSWER), completed(*output))
    assert asked(one, HI, OURS, MORE) == ("resp_1", [MORE])


def test_items_stand_in_their_places() -> None:
    one = protocol()
    one.send(request(HI))
    receive(
        one, created(), {**done(CALL), "output_index": 1}, {**done(ANSWER), "output_index": 0}, completed()
    )
    assert asked(one, HI, OURS, CALL, MORE) == ("resp_1", [MORE])


def test_items_of_the_last_event_count() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created(), completed(ANSWER))
    assert asked(one, HI, OURS, MORE) == ("resp_1", [MORE])


@pytest.mark.parametrize("output", [(ANSWER,), (ANSWER, ANSWER, ANSWER)])
def test_ambiguous_output_does_not_continue(output: tuple[Any, ...]) -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created(), done(ANSWER), done(ANSWER), completed(*output))
    assert one.is_idle
    for count in range(4):
        assert not one.continues(request(HI, *[OURS] * count, MORE))


def test_each_answer_is_gone_on_from_once() -> None:
    one = answered(ANSWER)
    assert asked(one, HI, OURS, MORE)[0] == "resp_1"
    receive(one, created("resp_2"), ended(kind="failed"))
    assert asked(one, HI, OURS, MORE)[0] is None


def test_a_chain_goes_on_from_link_to_link() -> None:
    one = answered(ANSWER)
    one.send(request(HI, OURS, MORE))
    receive(one, created("resp_2"), ended({**ANSWER, "id": "msg_2"}, number="resp_2"))
    assert asked(one, HI, OURS, MORE, {**OURS, "id": "msg_2"}, HI) == ("resp_2", [HI])


def test_input_that_is_a_text_goes_as_it_is() -> None:
    one = protocol()
    for _ in range(2):
        said = json.loads(
            one.send(ResponsesSockets(Quirks()).socket_request(b'{"model":"gpt-5","input":"Hi"}'))
        )
        assert said == {"type": "response.create", "model": "gpt-5", "input": "Hi"}
        receive(one, created(), ended(ANSWER))


def test_rest_comes_with_the_last_event() -> None:
    one = protocol()
    assert one.is_idle
    one.send(request(HI))
    for message in (created(), {"type": "response.output_text.delta", "delta": "H"}):
        receive(one, message)
        assert not one.is_idle
    receive(one, ended(ANSWER))
    assert one.is_idle


def test_an_error_gives_no_rest() -> None:
    one = protocol()
    one.send(request(HI))
    assert receive(one, {"type": "error", "error": {"code": "x"}}) == ["response"]
    assert not one.is_idle


def test_what_a_message_is() -> None:
    lost = {"type": "error", "error": {"code": "previous_response_not_found"}}
    late = {"type": "error", "error": {"code": "websocket_connection_limit_reached"}}
    messages = [lost, late, {"type": "keepalive"}, created(), {"no": "type"}]
    assert receive(protocol(), *messages) == ["reconnect", "reconnect", "unrelated", "response", "response"]
    assert protocol().receive(b"{no json") == "response"


@pytest.mark.parametrize(
    "response", [None, 1, "x", {}, {"id": 1, "output": 2}, {"id": "r", "output": [1, None]}]
)
def test_strange_responses_break_nothing(response: object) -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, {"type": "response.created", "response": response})
    receive(one, {"type": "response.output_item.done"}, {"type": "response.completed", "response": response})
    assert one.is_idle
    assert asked(one, HI, OURS, MORE)[0] is None


# Steering.


def steered(one: Any, text: str = "French") -> Any:
    return one.steer([ls.chats.Text(text)])


def taken(number: str = "steer_1") -> dict[str, Any]:
    return {"type": "response.steer.accepted", "steer": {"id": number}}


ITEM = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "French"}]}


def test_input_names_the_answer_under_way() -> None:
    one = protocol()
    one.send(request(HI))
    assert not one.has_response_id
    receive(one, created())
    assert one.has_response_id
    said = json.loads(steered(one).message)
    assert said == {"type": "response.steer", "previous_response_id": "resp_1", "input": [ITEM]}


def test_acknowledgements_come_in_order() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created())
    first, second = steered(one), steered(one)
    receive(one, taken())
    assert (first.settled, second.settled) == (True, False)
    receive(one, {"type": "response.steer.failed", "steer": {}, "error": {"code": "x", "message": "No."}})
    assert second.settled
    assert (first.error, second.error.message) == (None, "No.")


def test_a_successor_is_waited_for() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created())
    steered(one)
    receive(one, taken(), ended(ANSWER, kind="incomplete"))
    assert not one.is_idle
    receive(one, created("resp_2"), ended({**ANSWER, "id": "msg_2"}, number="resp_2"))
    assert one.is_idle
    later = {**OURS, "id": "msg_2"}
    assert asked(one, HI, OURS, ITEM, later, MORE) == ("resp_2", [MORE])


def test_an_acknowledgement_is_waited_for() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created())
    steered(one)
    receive(one, ended(ANSWER))
    assert not one.is_idle
    receive(one, {"type": "response.steer.failed", "steer": {}, "error": {}})
    assert one.is_idle


def test_input_awaiting_results_is_sent_once() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created())
    steered(one)
    receive(one, taken(), ended(CALL))
    assert not one.is_idle
    receive(one, {"type": "response.steer.pending", "steer": {"id": "steer_1"}})
    assert one.is_idle
    output = {"type": "function_call_output", "call_id": "c1", "output": "noon"}
    call = {name: CALL[name] for name in ("type", "call_id", "name", "arguments")}
    assert asked(one, HI, call, ITEM, output) == ("resp_1", [output])
    receive(one, created("resp_2"), ended(ANSWER, number="resp_2"))
    assert asked(one, HI, call, ITEM, output, OURS, MORE) == ("resp_2", [MORE])


def test_full_resend_includes_waiting_input() -> None:
    one = protocol()
    one.send(request(HI))
    receive(one, created())
    steered(one)
    receive(one, taken(), ended(CALL), {"type": "response.steer.pending", "steer": {"id": "steer_1"}})
    assert asked(one, MORE, ITEM) == (None, [MORE, ITEM])
    receive(one, created("resp_2"), ended(ANSWER, number="resp_2"))
    assert one.is_idle
    assert asked(one, MORE, ITEM, OURS, HI) == ("resp_2", [HI])


def test_servers_that_take_none_are_named() -> None:
    with pytest.raises(Unsupported, match="accepts no input while it responds"):
        steered(protocol(Quirks(delivery=DeliveryQuirks(steering=False))))
