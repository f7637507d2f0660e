"""What a server's answer becomes."""

from __future__ import annotations

from typing import Any

import pytest

import llmstream as ls
from llmstream.chats import Audio, Document, Image
from llmstream.mcp.server_tools import outcome_of

types = pytest.importorskip("mcp.types", reason="the extra mcp is not installed")


def text(said: str) -> Any:
    return types.TextContent(type="text", text=said)


def blob(mime_type: str | None, uri: str = "file:///a/b%20c.bin") -> Any:
    contents = types.BlobResourceContents(uri=uri, mime_type=mime_type, blob="AAE=")
    return types.EmbeddedResource(type="resource", resource=contents)


def result(*content: Any, **options: Any) -> Any:
    return types.CallToolResult(content=list(content), **options)


def test_files_become_parts_of_their_type() -> None:
    outcome = outcome_of(
        result(
            blob("image/png"),
            blob("audio/wav"),
            blob(None),
            types.AudioContent(type="audio", data="AAE=", mime_type="audio/mpeg"),
        )
    )
    data = b"\x00\x01"
    assert outcome.parts == (
        Image(data=data, media_type="image/png"),
        Audio(data=data, media_type="audio/wav"),
        Document(data=data, media_type="application/octet-stream", filename="b c.bin"),
        Audio(data=data, media_type="audio/mpeg"),
    )


def test_a_text_resource_is_text() -> None:
    contents = types.TextResourceContents(uri="file:///a.txt", mime_type="text/plain", text="inside")
    embedded = types.EmbeddedResource(type="resource", resource=contents)
    assert outcome_of(result(text("before"), embedded)).content == "before\ninside"


def test_structured_content_is_the_value() -> None:
    """It is the text too if there is no other."""
    outcome = outcome_of(result(structured_content={"a": [1]}))
    assert (outcome.content, outcome.output, outcome.value) == ('{"a":[1]}', {"a": [1]}, {"a": [1]})
    said = outcome_of(result(text("One a."), structured_content={"a": [1]}))
    assert (said.content, said.output) == ("One a.", {"a": [1]})


def test_wrapped_value_is_unwrapped() -> None:
    """Only if the text shows the same value."""
    assert outcome_of(result(text("7"), structured_content={"result": 7})).output == 7
    plain = outcome_of(result(text("hello"), structured_content={"result": "hello"}))
    assert (plain.content, plain.output, plain.value) == ("hello", None, "hello")
    other = outcome_of(result(text("seven"), structured_content={"result": 7}))
    assert other.output == {"result": 7}


def test_error_without_text_keeps_its_parts() -> None:
    silent = outcome_of(result(is_error=True))
    assert silent.error == "The tool failed without a message."
    shown = outcome_of(result(text("no"), blob("image/png"), is_error=True))
    assert (shown.error, len(shown.parts)) == ("no", 1)
    assert isinstance(shown.exception, ls.ToolError)


def test_what_is_no_base64_is_a_tool_error() -> None:
    with pytest.raises(ls.ToolError, match="invalid base64"):
        outcome_of(result(types.ImageContent(type="image", data="?", mime_type="image/png")))
