"""Parts: their kinds, their JSON, and kinds of others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from llmstream.chats import (
    Audio,
    BasePart,
    Custom,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    UnknownPart,
    decode_part,
    encode_part,
    part_kind,
    register_part,
)
from llmstream.chats.content import own_values
from llmstream.errors import DecodeError, InvalidRequest

EVERY_PART: list[tuple[str, Any]] = [
    ("text", Text("hé\u0000", {"acme": {"id": 1}})),
    ("image", Image(url="https://example.com/a.png", media_type="image/png")),
    ("image", Image(data=b"\x00\xff", media_type="image/png")),
    ("audio", Audio(data=b"RIFF", media_type="audio/wav")),
    ("document", Document(data=b"%PDF", media_type="application/pdf", filename="a.pdf")),
    ("file", File("image/png", data=b"\x89PNG")),
    ("reasoning", Reasoning("hm", {"anthropic": {"signature": "c2ln"}})),
    ("tool_call", ToolCall("c1", "search", '{"q": "go', metadata={"gemini": {"thoughtSignature": "x"}})),
    ("tool_result", ToolResult("c1", "no", is_error=True, name="search", parts=(Image(data=b"1"),))),
    ("tool_result", ToolResult("c1", result={"rows": [1, None, 2.5]}, provider_executed=True)),
    ("source", Source("url", id="s", url="https://example.com", title="T")),
    ("custom", Custom("acme.box", {"acme": {"deep": [{"x": 1}]}})),
]


@pytest.mark.parametrize(("kind", "part"), EVERY_PART)
def test_each_part_tags_kind_survives_json(kind: str, part: Part) -> None:
    raw = bytes(encode_part(part))
    assert json.loads(raw)["kind"] == part_kind(part) == part.part_kind == kind
    assert decode_part(raw) == part
    assert isinstance(part, Part)


def test_tool_arguments_stay_raw_text() -> None:
    call = decode_part(encode_part(ToolCall("1", "f", "not json at all")))
    assert isinstance(call, ToolCall)
    assert call.arguments == "not json at all"


def test_unregistered_kind_keeps_its_bytes() -> None:
    raw = b'{ "b":1,\n\t"kind" : "x-hologram" ,"a":[ 1.0,1e3 ] , "\\u0061":"\\/" }'
    part = decode_part(raw)
    assert part == UnknownPart("x-hologram", raw)
    assert part.part_kind == part_kind(part) == "x-hologram"
    assert bytes(encode_part(part)) == raw


def test_registered_kind_decodes_to_its_type() -> None:
    before = decode_part(b'{"kind":"x-video","seconds":3}')
    assert isinstance(before, UnknownPart)

    @register_part
    class Video(BasePart, frozen=True, tag="x-video"):
        seconds: float

    part = Video(2.5)
    assert part.part_kind == "x-video"
    assert decode_part(encode_part(part)) == part
    assert decode_part(encode_part(before)) == Video(3)


def test_taken_kind_refused_to_other_types() -> None:
    class Other(BasePart, frozen=True, tag="text"):
        pass

    with pytest.raises(InvalidRequest, match="'text' is taken by Text"):
        register_part(Other)
    assert register_part(Text) is Text


def test_type_not_tagged_on_kind_is_refused() -> None:
    class Tagged(msgspec.Struct, tag_field="type", tag="x"):
        pass

    for wrong in (Tagged, dict):
        with pytest.raises(InvalidRequest, match="BasePart"):
            register_part(wrong)


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"null",
        b"[]",
        b"{}",
        b'{"kind":5}',
        b'{"kind":"text"}',
        b'{"kind":"text","text":null}',
        b'{"kind":"a"',
    ],
)
def test_a_defective_part_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(DecodeError, match="not a message part"):
        decode_part(raw)


def test_part_without_kind_is_not_encodable() -> None:
    """A part with a foreign value is not encodable either."""

    @dataclass(frozen=True)
    class Plain:
        part_kind: str = "plain"

    assert part_kind(Plain()) == "plain"
    with pytest.raises(InvalidRequest, match="Derive Plain from BasePart"):
        encode_part(Plain())
    with pytest.raises(InvalidRequest, match="plain values"):
        encode_part(Text("x", {"a": {"b": object()}}))
    with pytest.raises(InvalidRequest, match="plain values"):
        encode_part(Text("\ud83d"))


@pytest.mark.parametrize(
    ("metadata", "found"),
    [
        ({"llmstream": {"invalid": True}, "openai": {"id": "a"}}, {"invalid": True}),
        ({"openai": {"id": "a"}}, {}),
        ({"llmstream": "sent by a page"}, {}),
        (["sent by a page"], {}),
        (None, {}),
    ],
)
def test_own_values(metadata: object, found: dict[str, Any]) -> None:
    assert own_values(metadata) == found
