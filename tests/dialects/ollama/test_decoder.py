"""Ollama's lines become events, however the body is cut."""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from llmstream import errors, grammar
from llmstream.dialects.base import StreamLimits
from llmstream.dialects.guarded_decoder import GuardedDecoder
from llmstream.dialects.ollama import Ollama
from llmstream.events import (
    ErrorEvent,
    Event,
    File,
    Finish,
    Raw,
    ReasoningDelta,
    ReasoningEnd,
    ReasoningStart,
    ResponseMetadata,
    StreamStart,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCall,
    ToolInputDelta,
    ToolInputEnd,
    ToolInputStart,
)
from llmstream.request import Request
from llmstream.server_side.wires import server_side

RECORDINGS = sorted((Path(__file__).parent / "recordings").glob("*.ndjson"))


def counter() -> Callable[[], str]:
    numbers = itertools.count(1)
    return lambda: f"call_{next(numbers)}"


def decode(chunks: Iterable[bytes], **options: object) -> list[Event]:
    dialect = Ollama(new_call_id=counter())
    sentence = GuardedDecoder(dialect.decoder(provider="ollama", **options), provider="ollama")  # type: ignore[arg-type]
    events = sentence.start()
    for chunk in chunks:
        events += sentence.feed(chunk)
    return events + sentence.close()


def recording(name: str) -> bytes:
    return (Path(__file__).parent / "recordings" / f"{name}.ndjson").read_bytes()


def line(**fields: object) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def says(**message: object) -> bytes:
    return line(message=message, done=False)


DONE = line(done=True, done_reason="stop")


def test_text_comes_with_names_and_counts() -> None:
    events = decode([recording("text")])
    assert [type(e) for e in events] == [
        StreamStart,
        ResponseMetadata,
        TextStart,
        TextDelta,
        TextDelta,
        TextDelta,
        TextEnd,
        Finish,
    ]
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "Привет, мир 🌍!"
    metadata, finish = events[1], events[-1]
    assert isinstance(metadata, ResponseMetadata)
    assert metadata.model_id == "tiny:1b"
    assert metadata.timestamp is not None
    assert metadata.timestamp.isoformat().startswith("2026-01-05T10:00:00.123")
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "stop"
    assert finish.raw_finish_reason == "stop"
    assert (finish.usage.input_tokens, finish.usage.output_tokens, finish.usage.total_tokens) == (12, 5, 17)
    assert finish.usage.raw["total_duration"] == 900000000


def test_thinking_text_and_calls_keep_order() -> None:
    events = decode([recording("thinking_and_tools")])
    arguments = '{"city": "Łódź",  "days":1.50}'
    assert events[2:-1] == [
        ReasoningStart("0"),
        ReasoningDelta("Two cities,", "0"),
        ReasoningDelta(" two calls.", "0"),
        ReasoningEnd("0"),
        TextStart("1"),
        TextDelta("Looking.", "1"),
        TextEnd("1"),
        ToolInputStart("weather", "call_a"),
        ToolInputDelta(arguments, "call_a"),
        ToolInputEnd("call_a"),
        ToolCall("weather", arguments, "call_a"),
        ToolInputStart("clock", "call_b"),
        ToolInputDelta("{}", "call_b"),
        ToolInputEnd("call_b"),
        ToolCall("clock", "{}", "call_b"),
    ]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert (finish.finish_reason, finish.raw_finish_reason) == ("tool-calls", "stop")


def test_calls_without_ids_get_minted_ids() -> None:
    events = decode([recording("old_daemon")])
    assert [(e.input, e.tool_call_id) for e in events if isinstance(e, ToolCall)] == [
        ('{"x":1,"y":2}', "call_1"),
        ('{"x":3,"y":4}', "call_2"),
    ]
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "tool-calls"
    assert finish.raw_finish_reason is None
    assert (finish.usage.input_tokens, finish.usage.total_tokens) == (None, None)


def test_error_line_fails_with_its_message() -> None:
    events = decode([recording("failed") + DONE])
    assert events[-3] == TextEnd("0", True)
    error, finish = events[-2], events[-1]
    assert isinstance(error, ErrorEvent)
    assert "CUDA out of memory" in error.error.message
    assert (error.error.code, error.error.retryable) == ("server-error", True)
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "error"


@pytest.mark.parametrize("path", RECORDINGS, ids=lambda p: p.stem)
def test_every_cut_gives_the_same_events(path: Path) -> None:
    body = path.read_bytes()
    whole = decode([body])
    assert not grammar.check(whole)
    assert decode([body[i : i + 1] for i in range(len(body))]) == whole
    for cut in range(len(body)):
        assert decode([body[:cut], body[cut:]]) == whole
    assert decode([body.replace(b"\n", b"\r\n")]) == whole
    assert decode([body.rstrip(b"\n")]) == whole


@pytest.mark.parametrize("name", ["text", "thinking_and_tools", "old_daemon", "logprobs"])
def test_truncation_gives_one_error(name: str) -> None:
    """And one finish, wherever the stream ends."""
    body = recording(name)
    for cut in range(len(body) - 1):
        events = decode([body[:cut]])
        assert not grammar.check(events)
        assert [e.error.code for e in events if isinstance(e, ErrorEvent)] == ["incomplete-stream"]
        assert [e.finish_reason for e in events if isinstance(e, Finish)] == ["error"]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [("stop", "stop"), ("length", "length"), ("load", "other"), ("unload", "other"), ("x", "other")],
)
def test_finish_reasons(raw: str, reason: str) -> None:
    finish = decode([line(done=True, done_reason=raw)])[-1]
    assert isinstance(finish, Finish)
    assert (finish.finish_reason, finish.raw_finish_reason) == (reason, raw)


def test_no_reason_at_all_is_unknown() -> None:
    finish = decode([line(done=True, done_reason=None)])[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "unknown"


def test_a_call_before_length_keeps_length() -> None:
    call = {"function": {"name": "f", "arguments": {}}}
    finish = decode([says(tool_calls=[call]), line(done=True, done_reason="length")])[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "length"


@pytest.mark.parametrize(
    ("arguments", "text", "invalid"),
    [
        ({"city": "London"}, '{"city": "London"}', False),
        ('{"city": "London"}', '{"city": "London"}', False),
        (None, "{}", False),
        ("", "{}", False),
        ('{"city": ', '{"city": ', True),
        ([1, 2], "[1, 2]", False),
    ],
)
def test_arguments_in_every_form(arguments: object, text: str, invalid: bool) -> None:
    events = decode([says(tool_calls=[{"function": {"name": "f", "arguments": arguments}}]), DONE])
    calls = [e for e in events if isinstance(e, ToolCall)]
    assert [(c.input, c.invalid) for c in calls] == [(text, invalid)]
    assert not grammar.check(events)


def test_missing_pieces_are_no_defects() -> None:
    body = says(content=None, tool_calls=None) + line(message=None) + line() + says(content="hi") + DONE
    events = decode([body])
    assert not [e for e in events if isinstance(e, ErrorEvent)]
    assert TextDelta("hi", "0") in events


def test_call_without_a_name_is_a_defect() -> None:
    """Reading continues."""
    body = says(tool_calls=[{"function": None}, {"function": {"name": "f"}}]) + says(content="on") + DONE
    events = decode([body])
    assert [e.error.code for e in events if isinstance(e, ErrorEvent)] == ["decode-error"]
    assert [e.tool_name for e in events if isinstance(e, ToolCall)] == ["f"]
    assert TextDelta("on", "0") in events


def test_malformed_line_is_one_error() -> None:
    """Reading continues."""
    events = decode([says(content="a"), b"{oops\n", says(content="b"), DONE])
    assert [e.error.code for e in events if isinstance(e, ErrorEvent)] == ["decode-error"]
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "ab"
    finish = events[-1]
    assert isinstance(finish, Finish)
    assert finish.finish_reason == "stop"


def test_repeated_and_block_ids_stay_unique() -> None:
    calls = [{"id": i, "function": {"name": "f", "arguments": {}}} for i in ("0", "x", "x", 1)]
    events = decode([says(content="a"), says(tool_calls=calls), says(content="b"), DONE])
    assert [e.tool_call_id for e in events if isinstance(e, ToolCall)] == ["call_1", "x", "call_2", "1"]
    assert [e.id for e in events if isinstance(e, TextStart)] == ["0", "2"]
    assert not grammar.check(events)


def test_broken_utf8_line_still_gives_a_call() -> None:
    call = b'{"function":{"name":"f","arguments":{"a":"\\ud83d"}}}'
    body = b'{"message":{"content":"\xff","tool_calls":[' + call + b"]}}\n"
    events = decode([body, DONE])
    assert [e.input for e in events if isinstance(e, ToolCall)] == ['{"a":"\ufffd"}']
    assert not grammar.check(events)


def test_split_surrogate_pair_is_joined() -> None:
    body = b'{"message":{"content":"\\ud83d"}}\n{"message":{"content":"\\ude00"}}\n' + DONE
    events = decode([body])
    assert "".join(e.delta for e in events if isinstance(e, TextDelta)) == "😀"


def test_raw_lines_come_only_when_asked_for() -> None:
    events = decode([says(content="a"), DONE], include_raw=True)
    assert [e.raw_value for e in events if isinstance(e, Raw)] == [
        json.loads(says(content="a")),
        json.loads(DONE),
    ]


@pytest.mark.parametrize(
    ("limits", "body"),
    [
        (StreamLimits(max_event_bytes=50), says(content="x" * 100)),
        (
            StreamLimits(max_tool_input_bytes=10),
            says(tool_calls=[{"function": {"name": "f", "arguments": {"a": "x" * 20}}}]),
        ),
        (StreamLimits(max_blocks=2), (says(content="a") + says(thinking="b")) * 3),
    ],
)
def test_limits_end_the_stream(limits: StreamLimits, body: bytes) -> None:
    events = decode([body + DONE], limits=limits)
    assert [e.error.code for e in events if isinstance(e, ErrorEvent)] == ["limit-exceeded"]
    assert not grammar.check(events)


def test_lines_after_the_last_are_ignored() -> None:
    assert decode([recording("text") + says(content="more")]) == decode([recording("text")])


def test_error_answers_are_typed() -> None:
    error = Ollama().decode_error(404, {}, b'{"error":"model \'nope\' not found"}', provider="ollama")
    assert isinstance(error, errors.NotFound)
    assert "model 'nope' not found" in error.message


def test_what_was_read_is_written_again() -> None:
    body = recording("logprobs")
    encoder = server_side(Ollama()).event_encoder(Request(model="m"))
    again = b"".join(encoder.feed(event) for event in decode([body])) + encoder.close()
    assert decode([again]) == decode([body])


def test_pictures_are_files() -> None:
    picture = base64.b64encode(b"\xff\xd8\xff\xe0").decode()
    events = decode([says(content="a"), says(images=[picture]), says(content="b"), line(done=True)])
    assert [event for event in events if isinstance(event, File)] == [File("image/jpeg", b"\xff\xd8\xff\xe0")]
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "ab"


def test_non_base64_picture_is_an_error() -> None:
    events = decode([says(images=["?", None]), line(done=True, done_reason="stop")])
    assert [event.error.code for event in events if isinstance(event, ErrorEvent)] == ["decode-error"] * 2


def test_call_logprobs_stand_in_the_finish() -> None:
    entry = {"token": "f", "logprob": -0.5}
    message = {"tool_calls": [{"function": {"name": "f", "arguments": {}}}]}
    finish = decode([line(message=message, logprobs=[entry]), line(done=True)])[-1]
    assert isinstance(finish, Finish)
    assert finish.provider_metadata == {"ollama": {"logprobs": [entry]}}


def test_images_in_another_form_say_nothing() -> None:
    events = decode([says(content="a", images=""), says(content="b", images={}), DONE])
    assert [type(event) for event in events if isinstance(event, (ErrorEvent, File))] == []
    assert "".join(event.delta for event in events if isinstance(event, TextDelta)) == "ab"
