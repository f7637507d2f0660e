"""A request of the Interactions API as ours: the reverse of `request.py`, checked as the vendor does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Custom,
    Document,
    File,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.gemini_interactions.request import FIELDS, encode_request
from llmstream.dialects.gemini_interactions.wire import KEY, OpenStep, step_kind
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.media import base64_bytes, sampled_type
from llmstream.dialects.requests import merged
from llmstream.exchange import HttpRequest
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    ToolChoice,
    ToolSpec,
)
from llmstream.server_side.wires import checked_settings, read_function
from llmstream.server_side.wires.errors import google_refusal as refusal

__all__ = ["decode_request"]


# The input of an interaction as our messages: the reverse of the dialect's `request.py`.

_CONTENTS: Final = frozenset({"text", "image", "audio", "video", "document"})
_MEDIA_FIELDS: Final = frozenset({"type", "data", "uri", "mime_type"})
# In our form part of the media type of raw audio.
_SAMPLING: Final = frozenset({"sample_rate", "channels"})


class StepReader:
    """Reads steps in order; consecutive steps of one side become one message."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._messages: list[Message] = []
        self._parts: list[list[Part]] = []  # of each step

    def read(self, given: Any) -> list[Message]:
        """Reads an `input`: a text, a list of contents, or a list of steps.

        raises: BadRequest
        """
        if isinstance(given, str) and given:
            return [Message.user(given)]
        steps = [given] if isinstance(given, dict) else given
        if not isinstance(steps, list) or not steps:
            raise refusal("Invalid input at 'input'.")
        # A list of contents alone is short for one step of the user.
        plain = all(isinstance(step, dict) and step.get("type") in _CONTENTS for step in steps)
        if plain:
            steps = [{"type": "user_input", "content": steps}]
        for number, step in enumerate(steps):
            if not isinstance(step, dict) or not isinstance(step.get("type"), str):
                raise refusal(f"Invalid input at 'input[{number}].type'.")
            self._step(step, f"input[{number}]", fresh=True)
        for message, parts in zip(self._messages, self._parts, strict=True):
            message.parts = tuple(parts)
        return self._messages

    def _step(self, step: dict[str, Any], path: str, *, fresh: bool) -> None:
        kind = step["type"]
        if kind in ("user_input", "model_output"):
            role = Role.USER if kind == "user_input" else Role.ASSISTANT
            content = step.get("content")
            pieces = [{"type": "text", "text": content}] if isinstance(content, str) else content or []
            for number, piece in enumerate(pieces):
                self._piece(role, piece, f"{path}.content[{number}]", fresh=fresh and number == 0)
        elif kind == "function_result":
            self._add(Role.TOOL, self._result(step, path))
        elif kind in _CONTENTS:
            self._piece(Role.USER, step, path, fresh=False)
        else:
            self._add(Role.ASSISTANT, self._made(step, path))

    def _piece(self, role: Role, piece: Any, path: str, *, fresh: bool) -> None:
        if not isinstance(piece, dict) or not isinstance(piece.get("type"), str):
            raise refusal(f"Invalid input at '{path}.type'.")
        if piece["type"] == "function_result":
            self._add(Role.TOOL, self._result(piece, path))
        else:
            self._add(role, _content(piece, path, role), fresh=fresh and role == Role.USER)

    def _add(self, role: Role, part: Part, *, fresh: bool = False) -> None:
        if fresh or not self._messages or self._messages[-1].role != role:
            self._messages.append(Message("", role))
            self._parts.append([])
        self._parts[-1].append(part)

    def _made(self, step: dict[str, Any], path: str) -> Part:
        """Reads a step of the model."""
        opened = OpenStep(step_kind(step["type"]), step)
        if opened.kind == "thought":
            texts = [p.get("text") for p in step.get("summary") or () if isinstance(p, dict)]
            return Reasoning("".join(text for text in texts if isinstance(text, str)), opened.signature)
        if opened.kind == "call":
            if not opened.name:
                raise refusal(f"Invalid input at '{path}.name'.")
            return ToolCall(
                self._id(step, "id"), opened.name, _text(step.get("arguments")), False, opened.signature
            )
        if opened.kind == "vendor-call":
            metadata = opened.rest("id", "arguments")
            return ToolCall(self._id(step, "id"), opened.name, _text(step.get("arguments")), True, metadata)
        if opened.kind == "vendor-result":
            result = step.get("result")
            return ToolResult(
                self._id(step, "call_id"),
                result if isinstance(result, str) else msgspec.json.encode(result).decode(),
                step.get("is_error") is True,
                opened.name,
                result=result,
                provider_executed=True,
                metadata=opened.rest("call_id", "result", "is_error"),
            )
        return Custom(f"{KEY}.{opened.type}", opened.rest("type"))

    def _result(self, step: dict[str, Any], path: str) -> ToolResult:
        if not isinstance(step.get("call_id"), str):
            raise refusal(f"Invalid input at '{path}.call_id'.")
        result, name = step.get("result"), step.get("name")
        content, parts, metadata = _result_content(result, path)
        return ToolResult(
            step["call_id"],
            content,
            step.get("is_error") is True,
            name if isinstance(name, str) else "",
            parts,
            metadata=metadata,
        )

    def _id(self, step: dict[str, Any], key: str) -> str:
        return str(step.get(key) or self._new_call_id())


def _result_content(
    result: Any, path: str
) -> tuple[str, tuple[Image | Document | Audio, ...], Metadata | None]:
    """Reads the text and files of a result; any other value goes to the metadata."""
    if isinstance(result, str):
        return result, (), None
    kinds = (
        [p.get("type") if isinstance(p, dict) else None for p in result] if isinstance(result, list) else []
    )
    if not kinds or any(kind not in ("text", "image") for kind in kinds):
        return msgspec.json.encode(result).decode(), (), {KEY: {"result": result}}
    texts = [piece["text"] for piece in result if piece["type"] == "text"]
    images = [_content(piece, path, Role.USER) for piece in result if piece["type"] == "image"]
    # Other orders are lost in our result, so the wire's list goes back unchanged.
    exact = images and kinds == ["text"] * min(1, len(texts)) + ["image"] * len(images)
    parts = tuple(image for image in images if isinstance(image, Image))
    return "\n".join(texts), parts, None if exact else {KEY: {"result": result}}


def _content(piece: dict[str, Any], path: str, role: Role) -> Part:
    kind = piece["type"]
    if kind == "text":
        if not isinstance(piece.get("text"), str):
            raise refusal(f"Invalid input at '{path}.text'.")
        return Text(piece["text"])
    if kind not in _CONTENTS:
        return Custom(f"{KEY}.{kind}", {KEY: {key: value for key, value in piece.items() if key != "type"}})
    plain = str(piece.get("mime_type") or "")
    media_type = sampled_type(plain, piece.get("sample_rate"), piece.get("channels"))
    own = _MEDIA_FIELDS if media_type == plain else _MEDIA_FIELDS | _SAMPLING
    rest = {key: value for key, value in piece.items() if key not in own}
    metadata: Metadata | None = {KEY: rest} if rest else None
    data, url = b"", str(piece.get("uri") or "")
    if piece.get("data"):
        try:
            data = base64_bytes(str(piece["data"]))
        except ValueError:
            raise refusal(f"Invalid input at '{path}.data'.") from None
    if not data and not url:
        raise refusal(f"Invalid input at '{path}'.")
    if role == Role.ASSISTANT:
        return File(media_type, url, data, metadata)
    if kind == "image":
        return Image(url, data, media_type, metadata)
    if kind == "audio":
        return Audio(url, data, media_type, metadata)
    return Document(url, data, media_type, metadata=metadata)


def _text(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments or "{}"
    return msgspec.json.encode({} if arguments is None else arguments).decode()


_EFFORTS: Final = ("minimal", "low", "medium", "high")
_READ: Final = frozenset(
    {"model", "input", "system_instruction", "tools", "stream", "generation_config", "response_format"}
)
# A function with other fields is passed back unchanged.
_DECLARED: Final = frozenset({"type", "name", "description", "parameters"})


def decode_request(http: HttpRequest, *, new_call_id: Callable[[], str] = mint_call_id) -> Request:
    """Reads a client's request; other fields go to `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        found = msgspec.json.decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"Invalid JSON payload received. {error}") from None
    if not isinstance(found, dict):
        raise refusal("Invalid JSON payload received. The root must be an object.")
    body = {name: value for name, value in found.items() if value is not None}
    model = body.get("model") or ""
    if not isinstance(model, str) or not (model or body.get("agent")):
        raise refusal("Either 'model' or 'agent' must be specified.")
    config = body.get("generation_config") or {}
    if not isinstance(config, dict):
        raise refusal("Invalid input at 'generation_config'.")
    _check(config)
    tools = [_tool(tool, number) for number, tool in enumerate(body.get("tools") or ())]
    request = Request(
        model=model,
        messages=(*_system(body.get("system_instruction")), *_input(body, new_call_id)),
        tools=tuple(tools),
        tool_choice=_choice(config.get("tool_choice")),
        settings=checked_settings(config, FIELDS),
        response_format=_format(body.get("response_format")),
        reasoning=_reasoning(config),
    )
    options = {name: value for name, value in body.items() if name not in _READ}
    options = merged(options, _leftovers(body, request))
    return msgspec.structs.replace(request, provider_options={KEY: options} if options else {})


def _check(config: dict[str, Any]) -> None:
    temperature = config.get("temperature")
    if temperature is not None and (
        isinstance(temperature, bool)
        or not isinstance(temperature, (int, float))
        or not 0 <= temperature <= 2
    ):
        raise refusal("Invalid input at 'generation_config.temperature'.")
    for name in ("max_output_tokens", "top_k", "seed"):
        value = config.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise refusal(f"Invalid input at 'generation_config.{name}'.")


def _input(body: dict[str, Any], new_call_id: Callable[[], str]) -> list[Message]:
    """Reads the conversation; a request that continues a stored interaction has none."""
    # The vendor has the conversation that a token continues.
    if "input" not in body and body.get("continuation_token") and body.get("previous_interaction_id"):
        return []
    return StepReader(new_call_id).read(body.get("input"))


def _system(instruction: Any) -> list[Message]:
    if instruction is None:
        return []
    if not isinstance(instruction, str):
        raise refusal("Invalid input at 'system_instruction'.")
    return [Message.system(instruction)] if instruction else []


def _tool(tool: Any, number: int) -> ToolSpec | ProviderTool:
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refusal(f"Invalid input at 'tools[{number}].type'.")
    if tool["type"] != "function" or not _DECLARED.issuperset(tool):
        name = tool.get("name")
        options = {key: value for key, value in tool.items() if key not in ("type", "name")}
        return ProviderTool(tool["type"], name if isinstance(name, str) else "", options)
    if not isinstance(tool.get("name"), str) or not tool["name"]:
        raise refusal(f"Invalid input at 'tools[{number}].name'.")
    schema = tool.get("parameters")
    description = tool.get("description")
    return read_function(tool["name"], description, schema)


def _choice(choice: Any) -> ToolChoice | None:
    match choice:
        case {"allowed_tools": {"mode": "any", "tools": [str(name)]}}:
            return NamedTool(name)
        case "any":
            return "required"
        case "none":
            return "none"
        case "auto":
            return "auto"
    return None


def _format(wanted: Any) -> ResponseFormat | None:
    wanted = wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted
    match wanted:
        case {"type": "text", "mime_type": "application/json"}:
            schema = wanted.get("schema")
            return ResponseFormat(schema if isinstance(schema, dict) else None)
    return None


def _reasoning(config: dict[str, Any]) -> ReasoningOptions | None:
    level = config.get("thinking_level")
    return ReasoningOptions(effort=level) if level in _EFFORTS else None


def _leftovers(body: dict[str, Any], request: Request) -> dict[str, Any]:
    """Returns fields that our settings do not restore when the request is sent on."""
    plain = msgspec.structs.replace(request, messages=(Message("", Role.USER, Message.user(".").parts),))
    again = encode_request(plain, provider=KEY).http.json().get("generation_config") or {}
    sent = body.get("generation_config") or {}
    out: dict[str, Any] = {}
    config = {name: value for name, value in sent.items() if value is not None and value != again.get(name)}
    # Encoding would request summaries that the client did not.
    if "thinking_summaries" in again and "thinking_summaries" not in sent:
        config["thinking_summaries"] = "none"
    if config:
        out["generation_config"] = config
    if request.response_format is None and "response_format" in body:
        out["response_format"] = body["response_format"]
    return out
