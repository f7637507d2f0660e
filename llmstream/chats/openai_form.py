"""Messages as OpenAI's Chat Completions has them, `{"role": "user", "content": "Hi"}`, read and written.

It is the form in which most programs and datasets hold a conversation. Content is a text or a list of
parts: text, image_url, input_audio and file; those of Responses (input_text, output_text, input_image,
input_file) are the same by other names.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
    UIPart,
    data_url,
    read_base64,
    read_data_url,
)
from llmstream.chats.message import Message, Role
from llmstream.errors import InvalidRequest

__all__ = ["from_openai", "to_openai"]

_ROLES: Final = {
    "system": Role.SYSTEM,
    # OpenAI's name for it since o1.
    "developer": Role.SYSTEM,
    "user": Role.USER,
    "assistant": Role.ASSISTANT,
    "tool": Role.TOOL,
}
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}
_AUDIO_FORMATS: Final = {media_type: name for name, media_type in _AUDIO_TYPES.items()}
_VENDOR: Final = "openai"


def from_openai(messages: Iterable[Mapping[str, Any]]) -> list[Message]:
    """The conversation that a list of such messages is; results of one turn become one message.

    raises: InvalidRequest where one is of another form, which names the message and what is expected
    """
    found: list[Message] = []
    names: dict[str, str] = {}  # of tools, by the id of the call
    for place, given in enumerate(messages):
        message = _message(given, f"message {place}", names)
        # Here each result is a message; ours has all results of a turn.
        if message.role == Role.TOOL and found and found[-1].role == Role.TOOL:
            found[-1] = msgspec.structs.replace(found[-1], parts=(*found[-1].parts, *message.parts))
        else:
            found.append(message)
    return found


def _message(given: Mapping[str, Any], where: str, names: dict[str, str]) -> Message:
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"{where} is not a dict with a role and content, but {type(given).__name__}")
    role = given.get("role")
    if not isinstance(role, str) or role not in _ROLES:
        raise InvalidRequest(
            f'{where} has the role {role!r}; a dict as a message is {{"role": "user", "content": "..."}}, '
            f"with a role of {', '.join(_ROLES)}. For other roles, pass a Message."
        )
    # The name in a result is the tool's.
    sender = given.get("name")
    sender = sender if isinstance(sender, str) and role != Role.TOOL else ""
    if role == Role.TOOL:
        return Message.tool([_result(given, where, names)])
    if "content" not in given and not given.get("tool_calls"):
        raise InvalidRequest(f'{where} has no "content"')
    parts: list[Part] = []
    # Before the text, as received.
    if role == Role.ASSISTANT:
        parts += _reasoning(given)
    parts += _content(given.get("content"), where)
    if role == Role.ASSISTANT:
        # Shown to a reader instead of an answer.
        if isinstance(given.get("refusal"), str) and given["refusal"]:
            parts.append(Text(given["refusal"]))
        parts += [_call(call, f"{where}, call {i}", names) for i, call in enumerate(_calls(given, where))]
    return Message(sender, _ROLES[role], tuple(parts))


def _reasoning(given: Mapping[str, Any]) -> list[Part]:
    """Reasoning by the names that servers of open models have for it."""
    for name in ("reasoning_content", "reasoning"):
        if isinstance(given.get(name), str) and given[name]:
            return [Reasoning(given[name])]
    return []


def _calls(given: Mapping[str, Any], where: str) -> list[Any]:
    if given.get("function_call"):
        raise InvalidRequest(
            f'{where} has a "function_call", which has no id. Pass calls as "tool_calls", each with an id.'
        )
    calls = given.get("tool_calls") or []
    if not isinstance(calls, list | tuple):
        raise InvalidRequest(f'{where}: "tool_calls" must be a list')
    return list(calls)


def _call(call: object, where: str, names: dict[str, str]) -> ToolCall:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping):
        raise InvalidRequest(
            f'{where} is no {{"id": ..., "type": "function", "function": {{"name": ..., "arguments": ...}}}}'
        )
    call_id, name, arguments = call.get("id"), function.get("name"), function.get("arguments", "")
    # Ollama has the arguments as an object.
    if isinstance(arguments, Mapping):
        arguments = msgspec.json.encode(arguments).decode()
    if not (isinstance(call_id, str) and call_id and isinstance(name, str) and isinstance(arguments, str)):
        raise InvalidRequest(f'{where}: "id", "name" and "arguments" must be strings')
    # Results have no name in this form.
    names[call_id] = name
    return ToolCall(call_id, name, arguments)


def _result(given: Mapping[str, Any], where: str, names: dict[str, str]) -> ToolResult:
    call_id = given.get("tool_call_id")
    if not isinstance(call_id, str) or not call_id:
        raise InvalidRequest(f'{where} is a tool\'s and has no "tool_call_id"')
    parts = _content(given.get("content"), where)
    text = "".join(part.text for part in parts if isinstance(part, Text))
    files = tuple(part for part in parts if isinstance(part, Image | Audio | Document))
    name = given.get("name")
    return ToolResult(
        call_id, text, name=names.get(call_id, name if isinstance(name, str) else ""), parts=files
    )


def _content(content: object, where: str) -> list[Part]:
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list | tuple):
        raise InvalidRequest(
            f'{where}: "content" must be a text or a list of parts, not {type(content).__name__}'
        )
    return [_part(part, f"{where}, part {i}") for i, part in enumerate(content)]


def _part(part: object, where: str) -> Part:
    if isinstance(part, str):
        return Text(part)
    if not isinstance(part, Mapping):
        raise InvalidRequest(f"{where} is not a dict with a type, but {type(part).__name__}")
    kind = part.get("type")
    inner = part.get(kind) if isinstance(kind, str) else None
    match kind:
        case "text" | "input_text" | "output_text" | "refusal":
            text = part.get("refusal") if kind == "refusal" else part.get("text")
            if isinstance(text, str):
                return Text(text)
        case "image_url" | "input_image":
            url = inner.get("url") if isinstance(inner, Mapping) else part.get("image_url")
            if isinstance(url, str):
                return _image(url, _detail(inner if isinstance(inner, Mapping) else part), where)
        case "input_audio" if isinstance(inner, Mapping) and isinstance(inner.get("data"), str):
            name = str(inner.get("format") or "wav")
            media_type = _AUDIO_TYPES.get(name, f"audio/{name}")
            # Some programs write a data URL here, where OpenAI takes base64 alone.
            return Audio(data=read_base64(inner["data"].rpartition(",")[2], where), media_type=media_type)
        case "file" | "input_file":
            return _file(inner if isinstance(inner, Mapping) else part, where)
    raise InvalidRequest(
        f"{where} of type {kind!r} cannot be read. Parts are text, image_url, input_audio and file; "
        "for other content, pass a Message with parts such as Text, Image and Document."
    )


def _detail(image: Mapping[str, Any]) -> dict[str, dict[str, Any]] | None:
    return {_VENDOR: {"detail": image["detail"]}} if image.get("detail") else None


def _image(url: str, metadata: dict[str, dict[str, Any]] | None, where: str) -> Image:
    if not url.startswith("data:"):
        return Image(url=url, metadata=metadata)
    media_type, data = read_data_url(url, where)
    return Image(data=data, media_type=media_type, metadata=metadata)


def _file(file: Mapping[str, Any], where: str) -> Document:
    name, data, url = str(file.get("filename") or ""), file.get("file_data"), file.get("file_url")
    # The vendor has the content; a name is all that may stand beside the id.
    if isinstance(file.get("file_id"), str):
        return Document(filename=name, metadata={_VENDOR: {"file_id": file["file_id"]}})
    if isinstance(data, str) and data.startswith("data:"):
        media_type, content = read_data_url(data, where)
        return Document(data=content, media_type=media_type, filename=name)
    if isinstance(url, str) or isinstance(data, str):
        return Document(url=str(url or data), filename=name)
    raise InvalidRequest(f'{where}: a file has "file_data", as a data URL, or a "file_id"')


def to_openai(messages: Iterable[Message], *, reasoning: bool = False) -> list[dict[str, Any]]:
    """The conversation as a list of such dicts; each result of a tool is a message of its own.

    Left out is what the form has no place for: sources, files that the model made, calls that the vendor ran
    itself, and parts of a page that are not for the model.

    reasoning: also written, as the `reasoning_content` of servers of open models; OpenAI has no place for it
    raises:    InvalidRequest for a role or a part of the user that the form does not know
    """
    return [written for message in messages for written in _written(message, reasoning)]


def _written(message: Message, reasoning: bool) -> list[dict[str, Any]]:
    sender = {"name": message.sender} if message.sender else {}
    match message.role:
        case Role.TOOL:
            return [
                _written_result(result) for result in message.tool_results if not result.provider_executed
            ]
        case Role.SYSTEM:
            return [{"role": "system", "content": message.text, **sender}]
        case Role.USER:
            parts = [part for part in message.parts if not isinstance(part, UIPart)]
            return [{"role": "user", "content": _written_content(parts), **sender}]
        case Role.ASSISTANT:
            return [{**_written_answer(message, reasoning), **sender}]
    raise InvalidRequest(
        f"OpenAI's form has no role {message.role!r}. Its roles are system, user, assistant and tool."
    )


def _written_answer(message: Message, reasoning: bool) -> dict[str, Any]:
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in message.tool_calls
        if not call.provider_executed
    ]
    text = message.text
    # As in OpenAI's own responses.
    answer: dict[str, Any] = {"role": "assistant", "content": text or (None if calls else "")}
    if reasoning and message.reasoning:
        answer["reasoning_content"] = message.reasoning
    if calls:
        answer["tool_calls"] = calls
    return answer


def _written_result(result: ToolResult) -> dict[str, Any]:
    parts = [*([Text(result.content)] if result.content else []), *result.parts]
    return {"role": "tool", "tool_call_id": result.tool_call_id, "content": _written_content(parts)}


def _written_content(parts: Sequence[Part]) -> str | list[dict[str, Any]]:
    """One text as it is; of anything more a list of parts."""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(parts[0], Text):
        return parts[0].text
    return [_written_part(part) for part in parts]


def _written_part(part: Part) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case Image():
            detail = ((part.metadata or {}).get(_VENDOR) or {}).get("detail")
            url = part.url or data_url(part.data, part.media_type or "image/png")
            return {"type": "image_url", "image_url": {"url": url, **({"detail": detail} if detail else {})}}
        case Audio() if part.data:
            name = _AUDIO_FORMATS.get(part.media_type) or part.media_type.rpartition("/")[2] or "wav"
            data = base64.b64encode(part.data).decode()
            return {"type": "input_audio", "input_audio": {"data": data, "format": name}}
        case Document():
            return {"type": "file", "file": _written_file(part)}
    raise InvalidRequest(f"OpenAI's form cannot express a part {type(part).__name__} here")


def _written_file(part: Document) -> dict[str, Any]:
    file_id = ((part.metadata or {}).get(_VENDOR) or {}).get("file_id")
    if file_id:
        return {"file_id": file_id}
    name = {"filename": part.filename} if part.filename else {}
    return {**name, "file_data": part.url or data_url(part.data, part.media_type or "application/pdf")}
