"""Messages as Vercel's AI SDK has them in a browser (`UIMessage`), read as ours and written.

    {"id": "1", "role": "assistant", "parts": [{"type": "text", "text": "Hi"}]}

An assistant's message of that form holds a whole turn: a call and its result are one part, and `step-start`
stands before each answer of the model. Ours are one message for each answer and one for each set of results.

source: "UIMessage" in the reference of AI SDK UI, version 5 to 7, read 2026-11
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Document,
    File,
    Image,
    Part,
    Reasoning,
    Source,
    Text,
    ToolCall,
    ToolResult,
    data_url,
    read_data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest

__all__ = ["from_ui", "to_ui"]

# The metadata key for the id of such a message.
_ID: Final = "id"

_DENIED: Final = "The user has denied the call."
_TOOL: Final = "tool-"


def from_ui(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The conversation that a list of such messages is.

    The id goes into the metadata of the first message of each, as "id". Left out are calls whose input was
    still streaming, and `data-` parts, which are the application's own.

    raises: InvalidRequest where one is of another form
    """
    found: list[Message] = []
    for place, given in enumerate(messages):
        where = f"message {place}"
        parts = given.get("parts") if isinstance(given, Mapping) else None
        if not isinstance(given, Mapping) or not isinstance(parts, list | tuple):
            raise InvalidRequest(f'{where} is no {{"role": ..., "parts": [...]}}')
        read = list(_read(given.get("role"), parts, where))
        metadata = given.get("metadata")
        kept = dict(metadata) if isinstance(metadata, Mapping) else {}
        if isinstance(given.get("id"), str) and given["id"]:
            kept.setdefault(_ID, given["id"])
        if read and kept:
            read[0].metadata = kept
        found += read
    return found


def _read(role: object, parts: Iterable[Any], where: str) -> Iterator[Message]:
    if role == Role.ASSISTANT:
        yield from _read_turn(parts, where)
    elif role in (Role.USER, Role.SYSTEM):
        given = [_part(part, f"{where}, part {i}", made=False) for i, part in enumerate(parts)]
        yield Message("", str(role), tuple([part for part in given if part is not None]))
    else:
        raise InvalidRequest(f"{where} has the role {role!r}; it is system, user or assistant")


def _read_turn(parts: Iterable[Any], where: str) -> Iterator[Message]:
    """One message for each answer of the model, each followed by the results of its calls."""
    said: list[Part] = []
    results: list[ToolResult] = []
    called = False
    for i, part in enumerate(parts):
        kind = part.get("type") if isinstance(part, Mapping) else None
        is_call = isinstance(kind, str) and (kind == "dynamic-tool" or kind.startswith(_TOOL))
        if kind == "step-start" or (called and not is_call):
            yield from _step(said, results)
            said, results, called = [], [], False
        if is_call:
            call, result = _call(part, f"{where}, part {i}")
            if call is not None:
                said.append(call)
                called = called or not call.provider_executed
            if result is not None:
                (said if result.provider_executed else results).append(result)
        elif (read := _part(part, f"{where}, part {i}", made=True)) is not None:
            said.append(read)
    yield from _step(said, results)


def _step(said: list[Part], results: list[ToolResult]) -> Iterator[Message]:
    if said:
        yield Message("", Role.ASSISTANT, tuple(said))
    if results:
        yield Message.tool(results)


def _call(part: Mapping[str, Any], where: str) -> tuple[ToolCall | None, ToolResult | None]:
    name = part.get("toolName") if part["type"] == "dynamic-tool" else part["type"][len(_TOOL) :]
    call_id, state = part.get("toolCallId"), part.get("state")
    if not (isinstance(name, str) and name and isinstance(call_id, str) and call_id):
        raise InvalidRequest(f'{where}: a call has a name and a "toolCallId"')
    if state == "input-streaming":
        return None, None
    ran = part.get("providerExecuted") is True
    given = part.get("input", part.get("rawInput"))
    metadata = part.get("callProviderMetadata") or None
    call = ToolCall(call_id, name, _text(given) if given is not None else "", ran, metadata)
    match state:
        case "output-available" if ran:
            return call, ToolResult(call_id, name=name, result=part.get("output"), provider_executed=True)
        case "output-available":
            return call, ToolResult(call_id, _text(part.get("output")), name=name)
        case "output-error" | "output-denied":
            text = part.get("errorText") if state == "output-error" else _DENIED
            return call, ToolResult(call_id, str(text or ""), True, name, provider_executed=ran)
    return call, None


def _part(part: Any, where: str, *, made: bool) -> Part | None:
    """A part as ours; None of one that is not for the model.

    made: by the model
    """
    if not isinstance(part, Mapping) or not isinstance(kind := part.get("type"), str):
        raise InvalidRequest(f"{where} is no dict with a type")
    metadata = part.get("providerMetadata") or None
    match kind:
        case "text" | "reasoning" if isinstance(part.get("text"), str):
            return (Text if kind == "text" else Reasoning)(part["text"], metadata)
        case "file" if isinstance(part.get("url"), str):
            return _file(part, where, made=made)
        case "source-url" | "source-document":
            names = ("sourceId", "url", "title", "mediaType", "filename")
            where_from, url, title, media_type, filename = [str(part.get(name) or "") for name in names]
            return Source(kind[len("source-") :], where_from, url, title, media_type, filename)
        case _ if kind == "step-start" or kind.startswith("data-"):
            return None
    raise InvalidRequest(f"{where} of type {kind!r} cannot be read")


def _file(part: Mapping[str, Any], where: str, *, made: bool) -> Part:
    media_type, url, data = str(part.get("mediaType") or ""), part["url"], b""
    if url.startswith("data:"):
        found, data = read_data_url(url, where)
        media_type, url = media_type or found, ""
    metadata = part.get("providerMetadata") or None
    if made:
        return File(media_type, url, data, metadata)
    if media_type.startswith("image/"):
        return Image(url, data, media_type, metadata)
    if media_type.startswith("audio/"):
        return Audio(url, data, media_type, metadata)
    return Document(url, data, media_type, str(part.get("filename") or ""), metadata)


def to_ui(messages: Iterable[Message]) -> list[dict[str, Any]]:
    """The conversation as a list of such messages: each turn of the assistant is one, results included.

    The id is that in the metadata, or else counted: "message-0". A call without a result has the state
    "input-available".

    raises: InvalidRequest for a role or a part that the form does not know
    """
    found: list[dict[str, Any]] = []
    open_calls: dict[str, dict[str, Any]] = {}  # of the turn under way, by id
    for message in messages:
        if message.role == Role.TOOL:
            for result in message.tool_results:
                _add_result(result, open_calls)
            continue
        continues = (
            bool(found) and message.role == Role.ASSISTANT and found[-1]["role"] == Role.ASSISTANT.value
        )
        if not continues:
            open_calls = {}
            found.append(_begun(message, f"message-{len(found)}"))
        if message.role == Role.ASSISTANT:
            found[-1]["parts"].append({"type": "step-start"})
        for part in message.parts:
            if isinstance(part, ToolResult):
                _add_result(part, open_calls)
            else:
                found[-1]["parts"].append(_written(part, open_calls))
    return found


def _begun(message: Message, default_id: str) -> dict[str, Any]:
    if message.role not in (Role.SYSTEM, Role.USER, Role.ASSISTANT):
        raise InvalidRequest(f"the form of the AI SDK has no role {message.role!r}")
    metadata = {key: value for key, value in (message.metadata or {}).items() if key != _ID}
    message_id = (message.metadata or {}).get(_ID)
    begun: dict[str, Any] = {"id": message_id if isinstance(message_id, str) else default_id}
    begun |= {"role": str(message.role), "parts": []}
    return {**begun, "metadata": metadata} if metadata else begun


def _written(part: Part, open_calls: dict[str, dict[str, Any]]) -> dict[str, Any]:
    match part:
        case Text() | Reasoning():
            kind = "text" if isinstance(part, Text) else "reasoning"
            return {"type": kind, "text": part.text, **_with("providerMetadata", part.metadata)}
        case Image() | Audio() | Document() | File():
            name = part.filename if isinstance(part, Document) else ""
            media_type = part.media_type or "application/octet-stream"
            url = part.url or data_url(part.data, media_type)
            written = {"type": "file", "mediaType": media_type, "url": url, **_with("filename", name)}
            return {**written, **_with("providerMetadata", part.metadata)}
        case Source("url"):
            return {"type": "source-url", "sourceId": part.id, "url": part.url, **_with("title", part.title)}
        case Source():
            written = {"type": "source-document", "sourceId": part.id, "mediaType": part.media_type}
            return {**written, "title": part.title, **_with("filename", part.filename)}
        case ToolCall():
            call: dict[str, Any] = {"type": f"{_TOOL}{part.name}", "toolCallId": part.id}
            call |= {"state": "input-available", "input": _value(part.arguments or "{}")}
            call |= _with("providerExecuted", part.provider_executed)
            call |= _with("callProviderMetadata", part.metadata)
            open_calls[part.id] = call  # its result is written into it
            return call
    raise InvalidRequest(f"the form of the AI SDK has no place for a part {type(part).__name__}")


def _add_result(result: ToolResult, open_calls: dict[str, dict[str, Any]]) -> None:
    """Completes the part of the call; a result without a call is nothing that the form could hold.

    raises: InvalidRequest
    """
    call = open_calls.get(result.tool_call_id)
    if call is None:
        raise InvalidRequest(f"no call {result.tool_call_id!r} stands before its result")
    if result.is_error:
        call |= {"state": "output-error", "errorText": result.content}
        return
    output = (
        result.result if result.provider_executed and result.result is not None else _value(result.content)
    )
    call |= {"state": "output-available", "output": output}


def _with(name: str, value: Any) -> dict[str, Any]:
    return {name: value} if value else {}


def _text(value: Any) -> str:
    """A value as the model reads it: a text as it is, anything else as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _value(text: str) -> Any:
    """The JSON value of a text; the text itself where it is none."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
