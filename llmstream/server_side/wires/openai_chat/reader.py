"""The reverse of `request.py`: a Request from a client's HTTP request, rejected as OpenAI rejects."""

from __future__ import annotations

import base64
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    Audio,
    Document,
    Image,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message
from llmstream.dialects.openai_chat.messages import sent_as
from llmstream.dialects.openai_chat.quirks import Quirks, ThinkingQuirks
from llmstream.dialects.requests import Field
from llmstream.dialects.tool_calls import CUSTOM_CALL
from llmstream.errors import NotFound
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gpt import GPT, GPTRules
from llmstream.request import (
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.server_side.wires import (
    json_object,
    leave_stream,
    read_function,
    read_settings,
    with_rest,
)
from llmstream.server_side.wires.errors import check_effort, out_of_range, wrong_type
from llmstream.server_side.wires.errors import openai_refusal as refused

__all__ = [
    "check_model",
    "read_request",
]

_SAMPLING: Final = ("temperature", "top_p", "presence_penalty", "frequency_penalty")


def check_model(body: dict[str, Any], model: str, quirks: Quirks) -> None:
    """Efforts, settings and tools that the model does not take here.

    body:   without model and messages, as the client sent it
    raises: BadRequest; NotFound for a model that is not served here
    """
    rules = GPT.find(model)
    # Rules of OpenAI's own endpoint; others serve the same models otherwise.
    if quirks.wire_rules and not rules.chat:
        raise NotFound(
            "This is not a chat model and thus not supported in the v1/chat/completions endpoint. Use "
            "v1/responses instead.",
            status=404,
        )
    effort = body.get("reasoning_effort")
    if isinstance(effort, str):
        check_effort("reasoning_effort", effort, rules.chat_efforts)
    if rules.reasons and body.get("max_tokens") is not None:
        raise refused(
            "Unsupported parameter: 'max_tokens' is not supported with this model. Use "
            "'max_completion_tokens' instead.",
            "unsupported_parameter",
            "max_tokens",
        )
    _check_settings(body, rules, effort)
    tools = body.get("tools")
    functions = isinstance(tools, list) and any(isinstance(t, dict) and "function" in t for t in tools)
    if quirks.wire_rules and functions and not _takes_tools(rules, effort):
        raise refused(
            f"Function tools with reasoning_effort are not supported for {model} in /v1/chat/completions. To "
            "use function tools, use /v1/responses or set reasoning_effort to 'none'.",
            None,
            "reasoning_effort",
        )


def _check_settings(body: dict[str, Any], rules: GPTRules, effort: object) -> None:
    samples = rules.sampling == "always" or (rules.sampling == "at-none" and effort == "none")
    barred = [] if samples else [name for name in _SAMPLING if body.get(name) is not None]
    if not rules.stop and body.get("stop") is not None:
        barred.append("stop")
    for name in barred:
        raise refused(
            f"Unsupported parameter: '{name}' is not supported with this model.",
            "unsupported_parameter",
            name,
        )


def _takes_tools(rules: GPTRules, effort: object) -> bool:
    if rules.chat_tools == "without-effort":
        return effort in (None, "none")
    return rules.chat_tools == "always" or (rules.chat_tools == "at-none" and effort == "none")


# The reverse of `messages.py`: the wire's messages to ours, checked as OpenAI checks them.

_ROLES: Final = ("system", "assistant", "user", "tool", "developer")
_SIGNED: Final = ("reasoning_details", "reasoning_opaque")
# OpenAI's two formats; others are those of other servers.
_AUDIO_TYPES: Final = {"mp3": "audio/mpeg", "wav": "audio/wav"}


class MessageReader:
    """Reads the messages of one request.

    key: key in metadata of the vendor's own fields
    """

    def __init__(self, key: str) -> None:
        self._key = key
        self._out: list[Message] = []
        self._names: dict[str, str] = {}
        self._awaited: list[str] = []

    def read(self, messages: object) -> tuple[Message, ...]:
        """Returns our messages; results of one turn become one message.

        raises: BadRequest with the vendor's message
        """
        if not isinstance(messages, list):
            raise refused("Invalid type for 'messages': expected an array of objects.", "invalid_type")
        if not messages:
            raise refused(
                "Invalid 'messages': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for index, message in enumerate(messages):
            self._message(index, message)
        self._need_results(len(messages))
        return tuple(self._out)

    def _message(self, index: int, message: object) -> None:
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        role = message.get("role")
        if role is None:
            raise refused(f"Missing required parameter: '{where}.role'.", "missing_required_parameter")
        if role not in _ROLES:
            raise refused(
                f"Invalid value: {role!r}. Supported values are: {', '.join(map(repr, _ROLES))}.",
                "invalid_value",
            )
        if role == "tool":
            self._tool(where, message)
            return
        self._need_results(index)
        if role == "assistant":
            self._assistant(where, message)
        elif "content" not in message:
            raise refused(f"Missing required parameter: '{where}.content'.", "missing_required_parameter")
        else:
            # "developer" is the name of "system" for reasoning models.
            our_role = "user" if role == "user" else "system"
            parts = self._marked(self._content(where, message["content"]), message)
            self._out.append(Message("", our_role, parts))

    def _need_results(self, index: int) -> None:
        if self._awaited:
            raise refused(
                "An assistant message with 'tool_calls' must be followed by tool messages responding to "
                "each 'tool_call_id'. The following tool_call_ids did not have response messages: "
                f"{', '.join(self._awaited)} (before messages[{index}])"
            )

    def _tool(self, where: str, message: dict[str, Any]) -> None:
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str):
            raise refused(
                f"Missing required parameter: '{where}.tool_call_id'.", "missing_required_parameter"
            )
        if call_id not in self._awaited:
            raise refused(
                f"Invalid parameter: {where} with role 'tool' must be a response to a preceding message "
                "with 'tool_calls'."
            )
        self._awaited.remove(call_id)
        parts = self._content(where, message.get("content"))
        text = "".join(part.text for part in parts if isinstance(part, Text))
        result = ToolResult(call_id, text, name=self._names[call_id])
        last = self._out[-1]
        if last.role == "tool":
            self._out[-1] = Message("", "tool", (*last.parts, result))
        else:
            self._out.append(Message.tool([result]))

    def _assistant(self, where: str, message: dict[str, Any]) -> None:
        parts: list[Part] = []
        thought, mark = sent_as(self._key, message)
        signed = {name: message[name] for name in _SIGNED if message.get(name)}
        if thought or signed:
            own = {**({self._key: signed} if signed else {}), **mark}
            parts.append(Reasoning(thought, own or None))
        parts.extend(self._marked(self._content(where, message.get("content")), message))
        if isinstance(message.get("refusal"), str) and message["refusal"]:
            parts.append(Text(message["refusal"]))
        # OpenAI takes null for no calls, but refuses an empty list.
        calls = message.get("tool_calls")
        if calls == []:
            raise refused(
                f"Invalid '{where}.tool_calls': empty array. Expected an array with minimum length 1, "
                "but got an empty array instead.",
                "empty_array",
            )
        for call in calls or ():
            parts.append(self._call(where, call))
        self._out.append(Message("", "assistant", tuple(parts)))

    def _call(self, where: str, call: object) -> ToolCall:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(call, dict) and isinstance(call.get("custom"), dict):
            return self._custom_call(where, call, call["custom"])
        if not isinstance(call, dict) or not isinstance(function, dict):
            raise refused(
                f"Missing required parameter: '{where}.tool_calls[0].function'.", "missing_required_parameter"
            )
        for name, holder in (("id", call), ("name", function), ("arguments", function)):
            if not isinstance(holder.get(name), str):
                raise refused(f"Invalid type for '{where}.tool_calls[0].{name}': expected a string.")
        self._awaited.append(call["id"])
        self._names[call["id"]] = function["name"]
        own = {name: call[name] for name in ("extra_content", "cache_control") if call.get(name)}
        metadata = {self._key: own} if own else None
        return ToolCall(call["id"], function["name"], function["arguments"], metadata=metadata)

    def _custom_call(self, where: str, call: dict[str, Any], custom: dict[str, Any]) -> ToolCall:
        """Reads a call whose input is plain text."""
        for name, holder in (("id", call), ("name", custom), ("input", custom)):
            if not isinstance(holder.get(name), str):
                raise refused(f"Invalid type for '{where}.tool_calls[0].{name}': expected a string.")
        self._awaited.append(call["id"])
        self._names[call["id"]] = custom["name"]
        return ToolCall(
            call["id"], custom["name"], custom["input"], metadata=self._metadata_of("type", CUSTOM_CALL)
        )

    def _content(self, where: str, content: object) -> tuple[Part, ...]:
        if isinstance(content, str):
            return (Text(content),) if content else ()
        if content is None:
            return ()
        if not isinstance(content, list):
            raise refused(f"Invalid type for '{where}.content': expected a string or an array.")
        return tuple(self._part(f"{where}.content[{i}]", part) for i, part in enumerate(content))

    def _marked(self, parts: tuple[Part, ...], message: dict[str, Any]) -> tuple[Part, ...]:
        """Reads a cache mark of a message as one of its last part."""
        mark = message.get("cache_control")
        if not mark or not parts or not isinstance(parts[-1], (Text, Image, Audio, Document)):
            return parts
        last = parts[-1]
        own = {"cache_control": mark, **(last.metadata or {}).get(self._key, {})}
        return (*parts[:-1], msgspec.structs.replace(last, metadata={self._key: own}))

    def _part(self, where: str, part: object) -> Part:
        if not isinstance(part, dict):
            raise refused(f"Invalid type for '{where}': expected an object.", "invalid_type")
        kind = part.get("type")
        inner = part.get(kind) if isinstance(kind, str) else None
        metadata = self._metadata_of("cache_control", part.get("cache_control"))
        if kind in ("text", "refusal") and isinstance(inner, str):
            return Text(inner, metadata)
        if not isinstance(inner, dict):
            raise refused(f"Invalid value for '{where}.type': {kind!r}.", "invalid_value")
        if kind == "image_url":
            return self._image(where, inner, metadata)
        if kind == "input_audio":
            return self._audio(where, inner, metadata)
        if kind == "file":
            return self._file(where, inner, metadata)
        raise refused(f"Invalid value for '{where}.type': {kind!r}.", "invalid_value")

    def _image(self, where: str, image: dict[str, Any], metadata: Metadata | None) -> Image:
        url = image.get("url")
        if not isinstance(url, str):
            raise refused(f"Missing required parameter: '{where}.image_url.url'.")
        if image.get("detail"):
            metadata = {self._key: {**(metadata or {}).get(self._key, {}), "detail": image["detail"]}}
        if not url.startswith("data:"):
            return Image(url=url, metadata=metadata)
        media_type, data = _data_uri(where, url)
        return Image(data=data, media_type=media_type, metadata=metadata)

    def _audio(self, where: str, audio: dict[str, Any], metadata: Metadata | None) -> Audio:
        """Reads base64, or for some servers a URL, which may be a data URI."""
        name, data = str(audio.get("format")), audio.get("data")
        media_type = _AUDIO_TYPES.get(name, f"audio/{name}")
        if isinstance(data, str) and data.startswith(("https://", "http://")):
            return Audio(url=data, media_type=media_type, metadata=metadata)
        if isinstance(data, str) and data.startswith("data:"):
            return Audio(data=_data_uri(where, data)[1], media_type=media_type, metadata=metadata)
        return Audio(data=_bytes(where, data), media_type=media_type, metadata=metadata)

    def _file(self, where: str, file: dict[str, Any], metadata: Metadata | None) -> Document:
        name, data = str(file.get("filename") or ""), file.get("file_data")
        if isinstance(file.get("file_id"), str):
            return Document(filename=name, metadata=self._metadata_of("file_id", file["file_id"]))
        if not isinstance(data, str):
            raise refused(f"Missing required parameter: '{where}.file.file_data'.")
        if not data.startswith("data:"):
            return Document(url=data, filename=name, metadata=metadata)
        media_type, content = _data_uri(where, data)
        return Document(data=content, media_type=media_type, filename=name, metadata=metadata)

    def _metadata_of(self, name: str, value: object) -> Metadata | None:
        return {self._key: {name: value}} if value else None


def _data_uri(where: str, uri: str) -> tuple[str, bytes]:
    head, _, data = uri[5:].partition(",")
    return head.partition(";")[0], _bytes(where, data)


def _bytes(where: str, data: object) -> bytes:
    try:
        # "?" is no base64, so a wrong type is refused in the same way.
        return base64.b64decode(data if isinstance(data, str) else "?", validate=True)
    except ValueError:
        raise refused(f"Invalid '{where}': expected base64-encoded data.", "invalid_base64") from None


# What OpenAI takes. Our dialect writes the field that a vendor's quirks name.
_FIELDS: Final = (
    Field("temperature", "temperature", low=0, high=2),
    Field("top_p", "top_p", low=0, high=1),
    Field("presence_penalty", "presence_penalty", low=-2, high=2),
    Field("frequency_penalty", "frequency_penalty", low=-2, high=2),
    Field("max_output_tokens", "max_completion_tokens", low=1),
    Field("max_output_tokens", "max_tokens", low=1),
    Field("seed", "seed"),
    Field("top_k", "top_k"),
    Field("stop", "stop"),
)
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
# Styles with the object `thinking`.
_BY_SWITCH: Final = frozenset({"thinking", "thinking-effort", "effort-or-budget"})


def read_request(http: HttpRequest, quirks: Quirks, *, key: str) -> Request:
    """Reads a client's request.

    quirks: of the vendor; thinking is read from its fields alone
    key:    key in `provider_options` of fields without an option of ours

    raises: BadRequest with the vendor's message
    """
    body = json_object(http)
    if body is None:
        raise refused("We could not parse the JSON body of your request. The body has to be a JSON object.")
    model = body.pop("model", None)
    if not isinstance(model, str) or not model:
        raise refused("you must provide a model parameter")
    if "messages" not in body:
        raise refused("Missing required parameter: 'messages'.", "missing_required_parameter")
    messages = MessageReader(key).read(body.pop("messages"))
    if quirks.reasoning_model_rules:
        check_model(body, model, quirks)
    tools = _tools(body)
    choice = _tool_choice(body, tools)
    settings = _settings(body)
    response_format = _response_format(body)
    reasoning = _reasoning(body, quirks.for_model(model).thinking)
    _stream(body)
    own = {name: value for name, value in body.items() if value is not None}
    request = Request(
        model=model,
        messages=messages,
        tools=tools,
        tool_choice=choice,
        settings=settings,
        response_format=response_format,
        reasoning=reasoning,
    )
    return with_rest(request, http, key, own)


def _stream(body: dict[str, Any]) -> None:
    """Leaves in the body only what differs from what `encode` writes: a stream, with usage."""
    leave_stream(body)
    options = body.pop("stream_options", None)
    if options is not None and body.get("stream") is False:
        raise refused("The 'stream_options' parameter is only allowed when 'stream' is enabled.")
    if options is not None and not isinstance(options, dict):
        raise refused("Invalid type for 'stream_options': expected an object.", "invalid_type")
    # Encoding requests usage, so a client that did not is noted.
    if options != {"include_usage": True} and "stream" not in body:
        body["stream_options"] = options or {"include_usage": False}


def _settings(body: dict[str, Any]) -> Settings:
    found = read_settings(body, _FIELDS, wrong_type=wrong_type, out_of_range=out_of_range, one_stop=True)
    parallel = body.pop("parallel_tool_calls", None)
    return Settings(parallel_tool_calls=parallel if isinstance(parallel, bool) else None, **found)


def _tools(body: dict[str, Any]) -> tuple[ToolSpec | ProviderTool, ...]:
    tools = body.pop("tools", None)
    if tools is None:
        return ()
    if not isinstance(tools, list) or not tools:
        raise refused(
            "Invalid 'tools': empty array. Expected an array with minimum length 1, "
            "but got an empty array instead.",
            "empty_array",
        )
    return tuple(_tool(index, tool) for index, tool in enumerate(tools))


def _tool(index: int, tool: object) -> ToolSpec | ProviderTool:
    if not isinstance(tool, dict) or not isinstance(tool.get("type"), str):
        raise refused(f"Missing required parameter: 'tools[{index}].type'.", "missing_required_parameter")
    if tool["type"] != "function":
        return ProviderTool(tool["type"], options={k: v for k, v in tool.items() if k != "type"})
    function = tool.get("function")
    if not isinstance(function, dict) or not isinstance(function.get("name"), str):
        raise refused(
            f"Missing required parameter: 'tools[{index}].function.name'.", "missing_required_parameter"
        )
    schema, strict = function.get("parameters"), function.get("strict")
    return read_function(function["name"], function.get("description"), schema, strict)


def _tool_choice(body: dict[str, Any], tools: tuple[ToolSpec | ProviderTool, ...]) -> ToolChoice | None:
    choice = body.get("tool_choice")
    if choice is None:
        return None
    if not tools:
        raise refused(
            "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
        )
    if choice in ("auto", "none", "required"):
        del body["tool_choice"]
        known: ToolChoice = choice
        return known
    function = choice.get("function") if isinstance(choice, dict) else None
    if not isinstance(function, dict):
        if isinstance(choice, dict) and choice.get("type") in ("allowed_tools", "custom"):
            # Left to the vendor's own fields.
            return None
        raise refused(f"Invalid value for 'tool_choice': {choice!r}.", "invalid_value")
    name = str(function.get("name"))
    if name not in [tool.name for tool in tools]:
        raise refused(f"Tool choice '{name}' not found in 'tools' parameter.")
    del body["tool_choice"]
    return NamedTool(name)


def _response_format(body: dict[str, Any]) -> ResponseFormat | None:
    wanted = body.get("response_format")
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind not in ("text", "json_object", "json_schema"):
        raise refused(f"Invalid value for 'response_format.type': {kind!r}.", "invalid_value")
    del body["response_format"]
    if kind == "text":
        return None
    if kind == "json_object":
        return ResponseFormat()
    inner = wanted.get("json_schema")
    if not isinstance(inner, dict) or not isinstance(inner.get("schema"), dict):
        raise refused(
            "Missing required parameter: 'response_format.json_schema.schema'.", "missing_required_parameter"
        )
    return ResponseFormat(
        inner["schema"],
        str(inner.get("name") or "response"),
        inner.get("description"),
        inner.get("strict") is True,
    )


def _reasoning(body: dict[str, Any], quirks: ThinkingQuirks) -> ReasoningOptions | None:
    """Reads how thinking is requested: by `reasoning_effort`, or in the fields of the vendor's style."""
    style, effort = quirks.style, body.get("reasoning_effort")
    switch = _template_switch(body, quirks) if style == "chat-template" else None
    if effort in _EFFORTS:
        del body["reasoning_effort"]
        if style in _BY_SWITCH and body.get("thinking") == {"type": "enabled"}:
            del body["thinking"]
        if style == "groq" and body.get("reasoning_format") == "parsed":
            del body["reasoning_format"]
        return ReasoningOptions(effort=effort)
    own = body.get("reasoning")
    if style == "openrouter" and isinstance(own, dict) and set(own) <= {"effort", "max_tokens"}:
        del body["reasoning"]
        return ReasoningOptions(
            effort=own["effort"] if own.get("effort") in _EFFORTS else None,
            budget_tokens=own.get("max_tokens"),
        )
    thinking = body.get("thinking")
    if style in _BY_SWITCH and isinstance(thinking, dict) and set(thinking) <= {"type", "budget_tokens"}:
        del body["thinking"]
        return _thinking(thinking.get("type") != "disabled", thinking.get("budget_tokens"))
    if switch is not None:
        return _thinking(switch, None)
    if style == "enable-thinking" and isinstance(body.get("enable_thinking"), bool):
        return _thinking(body.pop("enable_thinking"), body.pop("thinking_budget", None))
    return None


def _template_switch(body: dict[str, Any], quirks: ThinkingQuirks) -> bool | None:
    """Removes the model template's thinking switch from the body; returns its value, None without one."""
    values = body.get(quirks.template_field)
    if not isinstance(values, dict) or set(values) != {quirks.switch}:
        return None
    if values[quirks.switch] not in quirks.switch_values:
        return None
    del body[quirks.template_field]
    return bool(values[quirks.switch] == quirks.switch_values[1])


def _thinking(enabled: bool, budget: object) -> ReasoningOptions:
    tokens = budget if isinstance(budget, int) else None
    if not enabled:
        return ReasoningOptions(effort="none", budget_tokens=tokens)
    return ReasoningOptions(effort=None if tokens is not None else "medium", budget_tokens=tokens)
