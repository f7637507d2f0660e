"""Streaming chunks off the wire: both forms of calls, faithful fragments."""

from __future__ import annotations

import msgspec
import pytest

from llmstream.chunks import Choice, Delta, StreamingChunk, ToolCall
from llmstream.errors import DecodeError


@pytest.mark.parametrize(
    ("wire", "call"),
    [
        (
            '{"id":"a","type":"function","function":{"name":"search","arguments":"{}"}}',
            ToolCall("a", "search", "{}", "function"),
        ),
        ('{"id":"a","name":"search","arguments":"{}"}', ToolCall("a", "search", "{}")),
        ('{"function":{"arguments":"Boston\\"}"}}', ToolCall(arguments='Boston"}')),
        ('{"id":"","function":{"name":"","arguments":"\\"}"}}', ToolCall(arguments='"}')),
        ('{"name":"flat","function":{"name":"nested"}}', ToolCall(name="nested")),
        (
            '{"name":"flat","arguments":"x","function":{"name":"","arguments":""}}',
            ToolCall(name="flat", arguments="x"),
        ),
        ('{"name":"flat","function":null}', ToolCall(name="flat")),
        ("{}", ToolCall()),
        ('{"index":2,"function":{"arguments":"x"}}', ToolCall(arguments="x", index=2)),
        (
            '{"function":{"name":"t","arguments":{"city":"London"}}}',
            ToolCall(name="t", arguments='{"city":"London"}'),
        ),
        ('{"function":{"name":"t","arguments":null}}', ToolCall(name="t")),
    ],
)
def test_nested_and_flat_calls_are_read(wire: str, call: ToolCall) -> None:  # S1.4, S1.6, case 13, 20
    assert ToolCall.decode(wire) == call
    assert ToolCall.decode(wire.encode()) == call


@pytest.mark.parametrize("wire", ["", "{", "[]", '"x"', '{"id":1}', '{"function":"x"}', "[" * 100_000])
def test_what_is_no_call_raises(wire: str) -> None:  # S1.4
    with pytest.raises(DecodeError):
        ToolCall.decode(wire)


def test_chunk_has_role_content_and_calls() -> None:  # S1.3
    chunk = StreamingChunk.decode(
        '{"id":"c1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,'
        '"delta":{"role":"assistant","content":"hi","tool_calls":[{"index":0,"id":"a","type":"function",'
        '"function":{"name":"t","arguments":""}}]},"finish_reason":null}]}'
    )
    call = ToolCall("a", "t", "", "function", 0)
    assert chunk == StreamingChunk(
        (Choice(Delta("assistant", "hi", (call,))),), "c1", "chat.completion.chunk", 1700000000, "m"
    )
    assert chunk.content == "hi"
    assert chunk.tool_calls == (call,)


def test_fields_that_are_not_there_are_none() -> None:  # S1.3
    delta = StreamingChunk.decode('{"choices":[{"delta":{}}]}').choices[0].delta
    assert (delta.role, delta.content, delta.tool_calls) == (None, None, None)
    assert StreamingChunk.decode('{"choices":[{"delta":null}]}').content == ""
    assert StreamingChunk.decode('{"choices":null}').choices == ()


def test_chunk_without_choices_is_empty() -> None:  # S1.5, case 14
    chunk = StreamingChunk.decode('{"choices":[],"usage":{"prompt_tokens":1}}')
    assert (chunk.content, chunk.tool_calls) == ("", None)
    assert chunk.raw == {"usage": {"prompt_tokens": 1}}


def test_keys_without_a_field_are_kept() -> None:  # S1.3
    chunk = StreamingChunk.decode(
        '{"system_fingerprint":"f","choices":[{"logprobs":null,"delta":{"reasoning_content":"hm"}}]}'
    )
    assert chunk.raw == {"system_fingerprint": "f"}
    assert chunk.choices[0].raw == {"logprobs": None}
    assert chunk.choices[0].delta.raw == {"reasoning_content": "hm"}


def test_parallel_fragments_keep_their_index() -> None:  # S1.6
    chunk = StreamingChunk.decode(
        '{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":"x"}},'
        '{"index":0,"function":{"arguments":"y"}}]}}]}'
    )
    assert chunk.tool_calls is not None
    assert [(c.index, c.arguments) for c in chunk.tool_calls] == [(1, "x"), (0, "y")]


def test_in_stream_error_is_a_chunk_error() -> None:  # S1.9
    chunk = StreamingChunk.decode('{"error":{"message":"busy","type":"overloaded_error"}}')
    assert chunk.error is not None
    assert "busy" in chunk.error.message
    assert chunk.choices == ()


def test_unreadable_chunk_is_never_skipped() -> None:  # S1.9
    with pytest.raises(DecodeError):
        StreamingChunk.decode("{broken")
    assert StreamingChunk.read("{broken").error is not None
    assert StreamingChunk.read('{"choices":[{"delta":{"content":5}}]}').error is not None
    assert StreamingChunk.read('{"choices":[]}').error is None


def test_a_chunk_is_a_value() -> None:
    chunk = StreamingChunk.decode('{"model":"m","choices":[{"delta":{"tool_calls":[{"name":"t"}]}}]}')
    assert msgspec.json.decode(msgspec.json.encode(chunk), type=StreamingChunk) == chunk
