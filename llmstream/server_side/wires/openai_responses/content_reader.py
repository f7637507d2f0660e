"""Reads the content of input items as parts: of messages, and of earlier responses."""

from __future__ import annotations

import base64
import binascii
from typing import Any, Final

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.dialects.media import read_data_uri
from llmstream.dialects.openai_responses.content import INPUT_PARTS, PART_EXTRAS
from llmstream.dialects.openai_responses.items import (
    RESULT_ITEMS,
    as_text,
    call_id_of,
    has_result,
    input_layout,
    is_call_item,
    is_hosted,
    tool_name_of,
)
from llmstream.dialects.openai_responses.wire import KEY, extras_of
from llmstream.server_side.wires.errors import openai_refusal as refused

__all__ = ["read_assistant_message", "read_part", "read_response_item"]


def read_assistant_message(where: str, item: dict[str, Any]) -> list[Part]:
    """Reads the text of an assistant's message; several pieces of content go back unchanged.

    raises: BadRequest with the vendor's message
    """
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content}]
    if not isinstance(content, list):
        raise refused(f"Missing required parameter: '{where}.content'.", "missing_required_parameter")
    extras = _extras(item)
    fragments = []
    for index, piece in enumerate(content):
        kind = piece.get("type") if isinstance(piece, dict) else None
        if kind not in ("output_text", "refusal"):
            raise refused(
                f"Invalid value: {kind!r}. Supported values are: 'output_text' and 'refusal'.",
                "invalid_value",
            )
        text = piece.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            name = f"{where}.content[{index}].text"
            raise refused(f"Missing required parameter: '{name}'.", "missing_required_parameter")
        fragments.append(text)
    # Our text is one piece; the list goes back as it was.
    if len(content) != 1:
        extras["content"] = content
    elif content[0]["type"] == "refusal":
        extras["refusal"] = True
    elif content[0].get("annotations"):
        extras["annotations"] = content[0]["annotations"]
    return [Text("".join(fragments), _metadata(extras))]


def read_response_item(where: str, item: dict[str, Any]) -> list[Part]:
    """Reads an item of an earlier response: reasoning, a call, a result of the vendor's, or any other.

    raises: BadRequest with the vendor's message
    """
    kind = str(item.get("type"))
    if kind == "reasoning":
        return _reasoning(item)
    if is_call_item(item):
        return _call(where, item)
    if kind in RESULT_ITEMS:
        return [_result(item, str(item.get("call_id") or ""), RESULT_ITEMS[kind])]
    return [Custom(f"{KEY}.{kind}", {KEY: {"type": kind, "item": item}})]


def _reasoning(item: dict[str, Any]) -> list[Part]:
    """Returns a part for each summary, if the item has an id by which they are joined again."""
    summary, content = _texts(item.get("summary")), _texts(item.get("content"))
    last = _extras(item)
    if item.get("encrypted_content"):
        last["encrypted_content"] = item["encrypted_content"]
    pieces: list[tuple[str, dict[str, Any]]] = [(text, {}) for text in summary]
    pieces += [(text, {"part": "reasoning_text"}) for text in content]
    # Without an id nothing would join the parts again when they are sent on.
    if "item_id" not in last and len(pieces) > 1:
        joined = {"summary": item["summary"]} if summary else {"part": "reasoning_text"}
        return [Reasoning("\n\n".join(text for text, _ in pieces), _metadata({**last, **joined}))]
    if not pieces:
        pieces = [("", {})]
    shared = {"item_id": last["item_id"]} if "item_id" in last else {}
    *before, (text, mark) = pieces
    parts: list[Part] = [Reasoning(fragments, _metadata({**shared, **own})) for fragments, own in before]
    return [*parts, Reasoning(text, _metadata({**last, **mark}))]


def _call(where: str, item: dict[str, Any]) -> list[Part]:
    kind, call_id = str(item["type"]), call_id_of(item)
    if call_id is None:
        raise refused(f"Missing required parameter: '{where}.call_id'.", "missing_required_parameter")
    name = tool_name_of(item)
    if not name:
        raise refused(f"Missing required parameter: '{where}.name'.", "missing_required_parameter")
    if kind == "function_call":
        if not isinstance(item.get("arguments"), str):
            raise refused(f"Missing required parameter: '{where}.arguments'.", "missing_required_parameter")
        return [ToolCall(call_id, name, item["arguments"], metadata=_metadata(_extras(item)))]
    hosted, extras = is_hosted(item), {"type": kind, **_extras(item)}
    if kind == "custom_tool_call" and not hosted:
        text = as_text(item.get("input"))
        return [ToolCall(call_id, name, text, metadata=_metadata(extras))]
    if has_result(item):
        call = ToolCall(call_id, name, input_layout(item).text or "{}", True, {KEY: {"type": kind}})
        return [call, _result(item, call_id, name)]
    return [ToolCall(call_id, name, input_layout(item).text, hosted, {KEY: {"type": kind, "item": item}})]


def _result(item: dict[str, Any], call_id: str, name: str) -> ToolResult:
    failed = item.get("status") in ("failed", "incomplete") or bool(item.get("error"))
    metadata: Metadata = {KEY: {"type": item["type"]}}
    return ToolResult(call_id, "", failed, name, result=item, provider_executed=True, metadata=metadata)


def _extras(item: dict[str, Any]) -> dict[str, Any]:
    extras: dict[str, Any] = {"item_id": item["id"]} if isinstance(item.get("id"), str) else {}
    if item.get("status") is not None:
        extras["status"] = item["status"]
    return extras | extras_of(item)


def _metadata(extras: dict[str, Any]) -> Metadata | None:
    return {KEY: extras} if extras else None


def _texts(pieces: object) -> list[str]:
    if not isinstance(pieces, list):
        return []
    return [str(piece.get("text") or "") for piece in pieces if isinstance(piece, dict)]


# OpenAI's two formats; others are those of other servers.
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}


def read_part(where: str, part: object) -> Part:
    """Reads a part of a message: the reverse of `write_part`.

    raises: BadRequest with the vendor's message
    """
    if not isinstance(part, dict):
        raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
    kind = part.get("type")
    if kind not in INPUT_PARTS:
        raise refused(
            f"Invalid value: {kind!r}. Supported values are: {', '.join(map(repr, INPUT_PARTS))}.",
            "invalid_value",
        )
    extras = {name: part[name] for name in PART_EXTRAS if part.get(name) is not None}
    if kind == "input_text":
        if not isinstance(part.get("text"), str):
            raise refused(f"Missing required parameter: '{where}.text'.", "missing_required_parameter")
        return Text(part["text"], _part_metadata(extras))
    if kind == "input_image":
        return _image(where, part, extras)
    if kind == "input_file":
        return _file(where, part, extras)
    audio = part.get("input_audio")
    if not isinstance(audio, dict):
        raise refused(f"Missing required parameter: '{where}.input_audio'.", "missing_required_parameter")
    name = str(audio.get("format"))
    data = _bytes(where, audio.get("data"))
    return Audio(data=data, media_type=_AUDIO_TYPES.get(name, f"audio/{name}"))


def _image(where: str, part: dict[str, Any], extras: dict[str, Any]) -> Image:
    if isinstance(part.get("file_id"), str):
        return Image(metadata=_part_metadata({**extras, "file_id": part["file_id"]}))
    url = part.get("image_url")
    if not isinstance(url, str):
        raise refused(f"Missing required parameter: '{where}.image_url'.", "missing_required_parameter")
    found = _data_uri(where, url)
    if found is None:
        return Image(url=url, metadata=_part_metadata(extras))
    return Image(data=found[1], media_type=found[0], metadata=_part_metadata(extras))


def _file(where: str, part: dict[str, Any], extras: dict[str, Any]) -> Document:
    name = str(part.get("filename") or "")
    if isinstance(part.get("file_id"), str):
        return Document(filename=name, metadata=_part_metadata({**extras, "file_id": part["file_id"]}))
    if isinstance(part.get("file_url"), str):
        return Document(url=part["file_url"], filename=name, metadata=_part_metadata(extras))
    data = part.get("file_data")
    if not isinstance(data, str):
        raise refused(f"Missing required parameter: '{where}.file_data'.", "missing_required_parameter")
    found = _data_uri(where, data)
    if found is None:
        found = ("application/pdf", _bytes(where, data))
    return Document(data=found[1], media_type=found[0], filename=name, metadata=_part_metadata(extras))


def _part_metadata(extras: dict[str, Any]) -> Metadata | None:
    return {KEY: extras} if extras else None


def _data_uri(where: str, url: str) -> tuple[str, bytes] | None:
    try:
        return read_data_uri(url)
    except ValueError:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None


def _bytes(where: str, data: object) -> bytes:
    try:
        return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
    except binascii.Error:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None
