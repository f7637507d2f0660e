"""The saved form: round trips, old versions, and what cannot be read or written."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmstream.chats import (
    Chat,
    Custom,
    Document,
    Image,
    Message,
    Part,
    Reasoning,
    Role,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
    dump_messages,
    load_messages,
    message_from_json,
    message_to_json,
)
from llmstream.chats.message import ROLES
from llmstream.errors import DecodeError, InvalidRequest

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(text, inner, max_size=3),
    max_leaves=8,
)
metadata = st.none() | st.dictionaries(text, st.dictionaries(text, json_values, max_size=2), max_size=2)
images = st.builds(Image, url=text, data=st.binary(max_size=20), media_type=text, metadata=metadata)
unknown = st.builds(
    lambda fields, indent: UnknownPart(
        "x-unknown", json.dumps({**fields, "kind": "x-unknown"}, indent=indent).encode()
    ),
    st.dictionaries(text, json_values, max_size=3),
    st.sampled_from([None, 0, 3]),
)
parts: st.SearchStrategy[Part] = st.one_of(
    st.builds(Text, text, metadata),
    st.builds(Reasoning, text, metadata),
    images,
    st.builds(Document, url=text, data=st.binary(max_size=20), filename=text),
    st.builds(ToolCall, text, text, text, st.booleans(), metadata),
    st.builds(
        ToolResult,
        text,
        text,
        st.booleans(),
        text,
        st.lists(images, max_size=2).map(tuple),
        json_values,
        st.booleans(),
        metadata,
    ),
    st.builds(Source, source_type=text, id=text, url=text, title=text),
    st.builds(Custom, text, metadata),
    unknown,
)
messages = st.builds(
    Message,
    # hypothesis also tries strings of the source, and a role in the place of the sender is refused.
    sender=text.filter(lambda sender: sender not in ROLES),
    role=text | st.sampled_from(["system", "user", "assistant", "tool"]),
    parts=st.lists(parts, max_size=4).map(tuple),
    metadata=st.none() | st.dictionaries(text, json_values, max_size=3),
)


@given(st.lists(messages, max_size=4))
def test_any_conversation_round_trips_equal(conversation: list[Message]) -> None:
    saved = dump_messages(conversation)
    assert load_messages(saved) == conversation
    assert dump_messages(load_messages(saved)) == saved


@given(messages)
def test_any_single_message_survives(message: Message) -> None:
    assert message_from_json(message_to_json(message)) == message


@given(st.binary(max_size=40) | st.text(max_size=40))
def test_garbage_is_only_a_decode_error(data: bytes | str) -> None:
    for load in (load_messages, message_from_json):
        with suppress(DecodeError):
            load(data)


def test_the_document_looks_as_documented() -> None:
    chat = Chat(
        Message("bob", "user", (Text("Hi"),), {"k": None}), Message.assistant(ToolCall("1", "f", "{}"))
    )
    assert chat.to_json() == (
        b'{"format":"llmstream.chat","version":1,"messages":['
        b'{"sender":"bob","role":"user","parts":[{"kind":"text","text":"Hi"}],"metadata":{"k":null}},'
        b'{"sender":"","role":"assistant","parts":'
        b'[{"kind":"tool_call","id":"1","name":"f","arguments":"{}"}],"metadata":null}]}'
    )
    assert Chat.from_json(chat.to_json()).messages() == chat.messages()
    assert Chat.from_json(chat.to_json().decode()).messages() == chat.messages()
    assert Chat.from_json(Chat().to_json()).messages() == []


def test_handwritten_version_1_file_is_read() -> None:
    saved = """ {
      "version": 1, "format": "llmstream.chat", "app": "an unknown key",
      "messages": [{"role": "user", "sender": "", "parts": [ {"text": "Hi", "kind": "text"} ]}]
    }"""
    assert load_messages(saved) == [Message.user("Hi")]


def test_unknown_part_round_trips_bytewise() -> None:
    odd = b'{ "z":1.0,\r\n\t"kind" :"x-hologram",  "\\u0061":[ ],"n":1E+2, "s":"\\/\\u00e9\xc3\xa9" }'
    saved = (
        b'{"format":"llmstream.chat","version":1,"messages":['
        b'{"sender":"","role":"user","parts":[ %s , {"kind":"text","text":"t"}]}]}'
    )
    chat = Chat.from_json(saved % odd)
    assert chat.at(0).parts == (UnknownPart("x-hologram", odd), Text("t"))
    assert odd in chat.to_json()
    assert odd in Chat.from_json(chat.fork().to_json()).to_json()
    assert odd in message_to_json(chat.at(0))


def test_unknown_role_and_empty_meta_survive() -> None:
    conversation = [Message("x", "developer", (), {}), Message("", "", ())]
    assert load_messages(dump_messages(conversation)) == conversation


def test_metadata_comes_back_as_json_has_it() -> None:
    message = Message("", "user", (), {"pair": (1, 2), "raw": b"\x00", "nan": float("nan")})
    assert message_from_json(message_to_json(message)).metadata == {
        "pair": [1, 2],
        "raw": "AA==",
        "nan": None,
    }


@pytest.mark.parametrize("version", [2, 99])
def test_a_newer_version_says_to_upgrade(version: int) -> None:
    saved = b'{"format":"llmstream.chat","version":%d,"conversation":"of another shape"}' % version
    with pytest.raises(DecodeError, match=f"version {version} .* up to 1. Upgrade llmstream"):
        load_messages(saved)


@pytest.mark.parametrize(
    ("saved", "says"),
    [
        (b"", "not a saved chat"),
        (b"\xff", "not a saved chat"),
        (b"null", "not a saved chat"),
        (b"{}", "missing required field `format`"),
        (b'{"format":"other","version":1}', 'its format is "other", not "llmstream.chat"'),
        (b'{"format":"llmstream.chat"}', "missing required field `version`"),
        (b'{"format":"llmstream.chat","version":"1"}', "not a saved chat"),
        (b'{"format":"llmstream.chat","version":0}', "its version 0 is unknown"),
        (b'{"format":"llmstream.chat","version":1}', "missing required field `messages`"),
        (b'{"format":"llmstream.chat","version":1,"messages":[', "damaged"),
        (b'{"format":"llmstream.chat","version":1,"messages":[{"sender":""}]}', r"\$.messages\[0\]"),
        (
            b'{"format":"llmstream.chat","version":1,"messages":[{"sender":"","role":"user","parts":[{"kind":"text"}]}]}',
            "message 0, part 0: not a message part: .*`text`",
        ),
        (b"[" * 100_000, "not a saved chat"),
        ("\ud83d", "not a saved chat"),
    ],
)
def test_no_saved_chat_is_explained_error(saved: bytes | str, says: str) -> None:
    with pytest.raises(DecodeError, match=says) as caught:
        load_messages(saved)
    assert caught.value.__cause__ is None


def test_no_saved_message_is_a_decode_error() -> None:
    for saved in (b"", b"[]", b'{"role":"user"}', b'{"sender":"","role":"user","parts":[{}]}'):
        with pytest.raises(DecodeError, match="message"):
            message_from_json(saved)


TOO_DEEP = "Stack overflow" if sys.version_info >= (3, 14) else "recursion"


def nested(depth: int) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for _ in range(depth):
        found = {"a": found}
    return found


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        (Message("", "user", (), {"x": object()}), "message 1 cannot be saved: .*object.* Keep metadata"),
        (Message("", "user", (), {"x": "\ud83d"}), "message 1 cannot be saved: .*surrogates"),
        (Message("", "user", (), nested(100_000)), f"message 1 cannot be saved: .*{TOO_DEEP}"),
        (
            Message("", "user", (Text("t", {"a": {"b": object()}}),)),
            "message 1 cannot be saved: a part of type Text",
        ),
        (Message("", "user", (UnknownPart("x", b"{rubbish"),)), "message 1 cannot be saved"),
        (Message("", "user", (UnknownPart("x", b"[]"),)), "message 1, part 0: .* not saved"),
        (Message("", "user", (Text(None),)), "message 1, part 0: .*`str`.* not saved"),  # type: ignore[arg-type]
        (Message("", None), "message 1 cannot be saved: .*`str`"),  # type: ignore[arg-type]
        (Message("", "user", ("text",)), "message 1 cannot be saved: .*BasePart"),  # type: ignore[arg-type]
    ],
)
def test_unreadable_content_is_not_saved(bad: Message, says: str) -> None:
    with pytest.raises(InvalidRequest, match=says):
        dump_messages([Message.user("fine"), bad])


def test_loaded_message_has_an_actual_role() -> None:
    made = [Message.user("Hi"), Message("", "critic", (Text("Hm."),))]
    read = load_messages(dump_messages(made))
    assert [type(message.role) for message in read] == [Role, str]
    assert type(message_from_json(message_to_json(made[0])).role) is Role
    (old,) = load_messages('[{"role": "user", "content": "Hi"}]')
    assert type(old.role) is Role
