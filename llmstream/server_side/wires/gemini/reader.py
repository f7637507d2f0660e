"""A Gemini request as ours: the reverse of `request.py`, checked as the vendor checks it.

source: responses seen on the wire, and "Troubleshooting" in the documents of the Gemini API
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from itertools import chain, groupby
from typing import Any, Final

import msgspec

from llmstream.chats.content import (
    OWN_KEY,
    Custom,
    File,
    Metadata,
    Part,
    Reasoning,
    Text,
    ToolCall,
    ToolResult,
)
from llmstream.chats.message import Message, Role
from llmstream.dialects.gemini.messages import camel, read_response
from llmstream.dialects.gemini.parts import snake
from llmstream.dialects.gemini.request import FIELDS, encode_request, json_schema
from llmstream.dialects.gemini.wire import CODE_EXECUTION, model_of
from llmstream.dialects.google import KEY, SIDE_FIELDS
from llmstream.dialects.history_parts import mint_call_id
from llmstream.dialects.media import base64_bytes, part_of_media
from llmstream.dialects.requests import merged
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gemini import GEMINI, GeminiRules
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


# Checks.

_NAME: Final = re.compile(r"[a-zA-Z_][a-zA-Z0-9_.:-]{0,63}")
# Fields that stand beside the content of a part, which needs exactly one other.
_BESIDE: Final = frozenset(camel(name) for name in SIDE_FIELDS) | {"thought"}
_RANGES: Final = {"temperature": (0.0, 2.0), "topP": (0.0, 1.0)}
_PENALTIES: Final = ("presencePenalty", "frequencyPenalty")
_INTEGERS: Final = ("maxOutputTokens", "topK", "seed", "candidateCount")
_LACKS_SIGNATURE: Final = (
    "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
    "correctly, and missing thought_signature may lead to degraded model performance. Additional data, "
    "function call `default_api:{name}` , position {place}."
)


def check_contents(contents: list[dict[str, Any]], rules: GeminiRules, *, vertex: bool) -> None:
    """Checks roles, parts, signatures, and that every call has its result.

    raises: BadRequest
    """
    if not contents:
        raise refusal("* GenerateContentRequest.contents: contents is not specified\n")
    for number, content in enumerate(contents):
        if content.get("role") not in ("user", "model", "function", None):
            raise refusal("Please use a valid role: user, model.")
        parts = content.get("parts")
        if not isinstance(parts, list) or not parts:
            path = f"GenerateContentRequest.contents[{number}].parts"
            raise refusal(f"* {path}: contents.parts must not be empty.\n")
        for place, part in enumerate(parts):
            _check_part(f"contents[{number}].parts[{place}]", part, vertex)
    turns = _turns(contents)
    if turns[-1][0] and not rules.prefix:
        raise refusal(
            "Please ensure that single turn requests end with a user role or the role field is empty."
        )
    _check_calls(turns)
    if rules.signs_calls:
        _check_signatures(turns)


def check_tools(
    declarations: list[dict[str, Any]], hosted: bool, body: dict[str, Any], rules: GeminiRules
) -> None:
    """Checks names of functions, and what an older model does not combine.

    raises: BadRequest
    """
    names: set[str] = set()
    for number, declaration in enumerate(declarations):
        name = declaration.get("name")
        path = f"GenerateContentRequest.tools[0].function_declarations[{number}]"
        if not isinstance(name, str) or not _NAME.fullmatch(name):
            raise refusal(
                f"* {path}.name: Invalid function name. Must start with a letter or an underscore. Must be "
                "alphanumeric (a-z, A-Z, 0-9), underscores (_), dots (.), colons (:), or dashes (-), with a "
                "maximum length of 64.\n"
            )
        if "parameters" in declaration and "parametersJsonSchema" in declaration:
            raise refusal(f"* {path}: parameters and parameters_json_schema are mutually exclusive.\n")
        if name in names:
            raise refusal(f"Duplicate function declaration found: {name}")
        names.add(name)
    if declarations and hosted and rules.mixes_tools is False:
        raise refusal("Tool use with function calling is unsupported")
    calling = (body.get("toolConfig") or {}).get("functionCallingConfig") or {}
    if not declarations and calling.get("mode") not in (None, "MODE_UNSPECIFIED", "NONE"):
        raise refusal("Function calling config is set without function_declarations.")
    for name in calling.get("allowedFunctionNames") or ():
        if name not in names:
            raise refusal(
                "* GenerateContentRequest.tool_config.function_calling_config.allowed_function_names: "
                "allowed_function_names should be a subset of the provided function_declarations, "
                f"found {name}.\n"
            )


def check_config(config: dict[str, Any], declarations: bool, rules: GeminiRules) -> None:
    """Checks ranges and types of the settings.

    raises: BadRequest
    """
    for name, (low, high) in _RANGES.items():
        value = config.get(name)
        if value is None:
            continue
        # A bool is an int to Python, but none in JSON.
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise _wrong_kind(name, "TYPE_FLOAT", value)
        if not low <= value <= high:
            raise refusal(
                f"* GenerateContentRequest.generation_config.{name}: {name} must be in the range "
                f"[{low}, {high}].\n"
            )
    for name in _INTEGERS:
        value = config.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, (int, float))):
            raise _wrong_kind(name, "TYPE_INT32", value)
    # Google's own examples have levels in lower case.
    level = (config.get("thinkingConfig") or {}).get("thinkingLevel")
    if rules.thinking == "level" and isinstance(level, str) and level.lower() not in rules.levels:
        raise refusal(f"Thinking level {level.upper()} is not supported for this model.")
    if not rules.penalties and any(config.get(name) is not None for name in _PENALTIES):
        raise refusal("Penalty is not enabled for this model")
    cap = config.get("maxOutputTokens")
    if cap is not None and cap < 1:
        raise refusal(
            "* GenerateContentRequest.generation_config.max_output_tokens: max_output_tokens must be "
            f"positive, got {cap}.\n"
        )
    stops = config.get("stopSequences")
    if isinstance(stops, list) and len(stops) > 5:
        raise refusal(
            "* GenerateContentRequest.generation_config.stop_sequences: at most 5 stop sequences.\n"
        )
    thinking = config.get("thinkingConfig") or {}
    if thinking.get("thinkingBudget") is not None and thinking.get("thinkingLevel") is not None:
        raise refusal("You can only set only one of thinking budget and thinking level.")
    if declarations and config.get("responseMimeType") == "application/json" and rules.mixes_tools is False:
        raise refusal("Function calling with a response mime type: 'application/json' is unsupported")


def _wrong_kind(name: str, kind: str, value: object) -> Exception:
    return refusal(f"Invalid value at 'generation_config.{name}' ({kind}), {value!r}")


def _check_part(path: str, part: Any, vertex: bool) -> None:
    data = set(part) - _BESIDE if isinstance(part, dict) else set()
    if not data:
        raise refusal(
            f"* GenerateContentRequest.{path}.data: required oneof field 'data' must have one initialized "
            "field\n"
        )
    for kind, name in (("functionCall", "function_call"), ("functionResponse", "function_response")):
        inner = part.get(kind)
        if inner is None:
            continue
        if not isinstance(inner, dict) or not inner.get("name"):
            raise refusal(f"* GenerateContentRequest.{path}.{name}.name: Name cannot be empty.\n")
        # Vertex AI has no ids of calls.
        if vertex and inner.get("id"):
            raise refusal(
                f"Invalid JSON payload received. Unknown name \"id\" at '{path}.{name}': Cannot find field."
            )
        values = inner.get("args" if kind == "functionCall" else "response", {})
        if values is not None and not isinstance(values, dict):
            raise refusal(f"Invalid value at '{path}.{name}' (type.googleapis.com/google.protobuf.Struct)")


def _turns(contents: list[dict[str, Any]]) -> list[tuple[bool, list[dict[str, Any]]]]:
    """Merges consecutive contents of one role. Whether the turn is the model's, and its parts."""
    out: list[tuple[bool, list[dict[str, Any]]]] = []
    for content in contents:
        by_model = content.get("role") == "model"
        if out and out[-1][0] == by_model:
            out[-1][1].extend(content["parts"])
        else:
            out.append((by_model, list(content["parts"])))
    return out


def _check_calls(turns: list[tuple[bool, list[dict[str, Any]]]]) -> None:
    calls = 0
    for _, parts in turns:
        results = sum("functionResponse" in part for part in parts)
        if results and not calls:
            raise refusal(
                "Please ensure that function response turn comes immediately after a function call turn."
            )
        if calls and results != calls:
            raise refusal(
                "Please ensure that the number of function response parts is equal to the number of function "
                "call parts of the function call turn."
            )
        calls = sum("functionCall" in part for part in parts)


def _check_signatures(turns: list[tuple[bool, list[dict[str, Any]]]]) -> None:
    """Checks that in the current turn the first call after each result is signed."""
    # The vendor checks the current turn only: what follows the last message of the user.
    begin = 0
    for number, (by_model, parts) in enumerate(turns):
        if not by_model and any("functionResponse" not in part for part in parts):
            begin = number
    for number, (_, parts) in enumerate(turns[begin:], begin):
        calls = [part for part in parts if "functionCall" in part]
        if calls and not calls[0].get("thoughtSignature"):
            name = calls[0]["functionCall"]["name"]
            raise refusal(_LACKS_SIGNATURE.format(name=name, place=number + 1))


# Reading.

# Contents of a Gemini request as our messages: the reverse of the dialect's `messages.py`.

# The part of a chunk without content.
_NOTHING: Final = {"text": ""}


def read_system(instruction: dict[str, Any] | None) -> list[Message]:
    """Reads the system instruction as a message."""
    parts = [part for part in (instruction or {}).get("parts") or () if isinstance(part, dict)]
    texts = [Text(part["text"]) for part in parts if isinstance(part.get("text"), str)]
    return [Message("", Role.SYSTEM, tuple(texts))] if texts else []


class ContentReader:
    """Reads contents in order; calls without an id get one, and results find theirs by name and order."""

    def __init__(self, new_call_id: Callable[[], str]) -> None:
        self._new_call_id = new_call_id
        self._open: dict[str, deque[str]] = {}  # by name, the ids of calls, in order
        self._answered: set[str] = set()
        self._running: tuple[str, str] = ("", "")  # the vendor's last call: wire id and ours

    def read(self, contents: list[dict[str, Any]]) -> list[Message]:
        """Returns our messages; results are messages of their own."""
        out: list[Message] = []
        for is_model, turn in groupby(contents, lambda content: content.get("role") == "model"):
            # Clients send a response back chunk by chunk.
            if is_model:
                out.append(self._response(turn))
            else:
                out += [message for content in turn for message in self._question(content)]
        return out

    def _response(self, contents: Iterable[dict[str, Any]]) -> Message:
        """Reads consecutive contents of the model as one message."""
        # Results belong to the calls of the latest turn; an older name must not catch them.
        self._open, self._answered = {}, set()
        parts = chain.from_iterable(content["parts"] for content in contents)
        return Message("", Role.ASSISTANT, tuple([self._model_part(p) for p in parts if p != _NOTHING]))

    def _question(self, content: dict[str, Any]) -> list[Message]:
        parts: list[dict[str, Any]] = content["parts"]
        results = tuple([self._result(part) for part in parts if "functionResponse" in part])
        others = tuple([self._user_part(part) for part in parts if "functionResponse" not in part])
        found = (Message("", Role.TOOL, results), Message("", Role.USER, others))
        return [message for message in found if message.parts]

    def _model_part(self, part: dict[str, Any]) -> Part:
        metadata = _beside(part)
        match part:
            case {"functionCall": dict(call)}:
                call_id = str(call.get("id") or self._new_call_id())
                self._open.setdefault(call["name"], deque()).append(call_id)
                return ToolCall(call_id, call["name"], _text(call.get("args") or {}), False, metadata)
            case {"text": str(text)} if part.get("thought"):
                return Reasoning(text, metadata)
            case {"executableCode": dict(code)}:
                payload = {key: value for key, value in code.items() if key != "id"}
                return self._vendor_call(CODE_EXECUTION, code.get("id"), payload, metadata)
            case {"codeExecutionResult": dict(result)}:
                payload = {key: value for key, value in result.items() if key != "id"}
                failed = payload.get("outcome") not in ("OUTCOME_OK", None)
                return self._vendor_result(CODE_EXECUTION, result.get("id"), payload, failed, metadata)
            case {"toolCall": dict(call)}:
                kind = str(call.get("toolType"))
                return self._vendor_call(
                    kind.lower(), call.get("id"), call.get("args", {}), _typed(kind, metadata)
                )
            case {"toolResponse": dict(result)}:
                kind = str(result.get("toolType"))
                payload = result.get("response", {})
                return self._vendor_result(
                    kind.lower(), result.get("id"), payload, False, _typed(kind, metadata)
                )
            case {"inlineData": dict(blob)}:
                media_type, data = _bytes(blob)
                return File(media_type, data=data, metadata=_drafted(part, metadata))
            case {"fileData": dict(file)}:
                uri = str(file.get("fileUri"))
                return File(str(file.get("mimeType") or ""), url=uri, metadata=_drafted(part, metadata))
        return self._user_part(part)

    def _user_part(self, part: dict[str, Any]) -> Part:
        metadata = _beside(part)
        match part:
            case {"text": str(text)}:
                return Text(text, metadata)
            case {"inlineData": dict(blob)}:
                media_type, data = _bytes(blob)
                media = part_of_media(media_type, data=data)
            case {"fileData": dict(file)}:
                media = part_of_media(str(file.get("mimeType") or ""), url=str(file.get("fileUri") or ""))
            case _:
                kind = next(key for key in part if key not in ("thought", *map(camel, SIDE_FIELDS)))
                inner = part[kind] if isinstance(part[kind], dict) else {"value": part[kind]}
                return Custom(f"{KEY}.{snake(kind)}", {KEY: {**inner, **(metadata or {}).get(KEY, {})}})
        return msgspec.structs.replace(media, metadata=metadata)

    def _result(self, part: dict[str, Any]) -> ToolResult:
        wire = part["functionResponse"]
        name = wire["name"]
        waiting = self._open.get(name)
        # A result with an id may have answered a call out of order.
        while waiting and waiting[0] in self._answered:
            waiting.popleft()
        call_id = str(wire.get("id") or (waiting[0] if waiting else self._new_call_id()))
        self._answered.add(call_id)
        content, failed, metadata = read_response(wire.get("response") or {})
        files = []
        for piece in wire.get("parts") or ():
            if isinstance(piece, dict) and isinstance(piece.get("inlineData"), dict):
                media_type, data = _bytes(piece["inlineData"])
                files.append(part_of_media(media_type, data=data))
        return ToolResult(call_id, content, failed, name, tuple(files), metadata=metadata)

    def _vendor_call(self, name: str, wire_id: Any, payload: Any, metadata: Metadata | None) -> ToolCall:
        call_id = str(wire_id or self._new_call_id())
        self._running = (str(wire_id or ""), call_id)
        return ToolCall(call_id, name, _text(payload), True, metadata)

    def _vendor_result(
        self, name: str, wire_id: Any, payload: Any, failed: bool, metadata: Metadata | None
    ) -> ToolResult:
        # Without ids, a result belongs to the vendor's last call.
        call_id = str(wire_id or self._running[1] or self._new_call_id())
        return ToolResult(
            call_id, _text(payload), failed, name, result=payload, provider_executed=True, metadata=metadata
        )


def _beside(part: dict[str, Any]) -> Metadata | None:
    fields = {name: part[camel(name)] for name in SIDE_FIELDS if part.get(camel(name)) is not None}
    return {KEY: fields} if fields else None


def _typed(kind: str, metadata: Metadata | None) -> Metadata:
    return {KEY: {"tool_type": kind, **(metadata or {}).get(KEY, {})}}


def _drafted(part: dict[str, Any], metadata: Metadata | None) -> Metadata | None:
    return {**(metadata or {}), OWN_KEY: {"reasoning": True}} if part.get("thought") else metadata


def _bytes(blob: dict[str, Any]) -> tuple[str, bytes]:
    try:
        data = base64_bytes(str(blob.get("data") or ""))
    except ValueError:
        raise refusal("Invalid value at 'inline_data.data' (TYPE_BYTES), Base64 decoding failed") from None
    return str(blob.get("mimeType") or ""), data


def _text(value: Any) -> str:
    return msgspec.json.encode(value).decode()


_EFFORTS: Final = ("minimal", "low", "medium", "high")
# A function with other fields is passed back unchanged, in `provider_options`.
_DECLARED: Final = frozenset({"name", "description", "parameters", "parametersJsonSchema"})
_READ: Final = frozenset(
    {"contents", "systemInstruction", "tools", "model", "generationConfig", "toolConfig"}
)


def decode_request(
    http: HttpRequest, *, vertex: bool, new_call_id: Callable[[], str] = mint_call_id
) -> Request:
    """Reads a client's request; other fields go to `provider_options`.

    raises: BadRequest with the vendor's message
    """
    try:
        found = msgspec.json.decode(http.body)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        raise refusal(f"Invalid JSON payload received. {error}") from None
    if not isinstance(found, dict):
        raise refusal("Invalid JSON payload received. Unknown name: Root element must be a message.")
    body = _normal(found)
    model = model_of(http.url) or ""
    rules = GEMINI.find(model)
    declarations, hosted = _tools(body)
    config: dict[str, Any] = body.get("generationConfig") or {}
    check_contents(body["contents"], rules, vertex=vertex)
    check_tools(declarations, bool(hosted), body, rules)
    check_config(config, bool(declarations), rules)
    request = Request(
        model=model,
        messages=(
            *read_system(body.get("systemInstruction")),
            *ContentReader(new_call_id).read(body["contents"]),
        ),
        tools=(*(_spec(one) for one in declarations), *hosted),
        tool_choice=_choice((body.get("toolConfig") or {}).get("functionCallingConfig") or {}),
        settings=checked_settings(config, FIELDS),
        response_format=_format(config),
        reasoning=_reasoning(config.get("thinkingConfig") or {}),
    )
    options = {name: value for name, value in body.items() if name not in _READ}
    options = merged(options, _leftovers(body, request, vertex))
    if any(not _DECLARED.issuperset(one) for one in declarations):
        options["tools"] = body["tools"]
    return msgspec.structs.replace(request, provider_options={KEY: options} if options else {})


def _normal(found: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields with names in camelCase, as snake_case is accepted too; omits empty ones."""
    body = _named(found)
    for name in ("systemInstruction", "generationConfig", "toolConfig"):
        if name in body:
            body[name] = _named(body[name])
    if isinstance(body.get("toolConfig"), dict) and "functionCallingConfig" in body["toolConfig"]:
        body["toolConfig"]["functionCallingConfig"] = _named(body["toolConfig"]["functionCallingConfig"])
    if isinstance(body.get("generationConfig"), dict) and "thinkingConfig" in body["generationConfig"]:
        body["generationConfig"]["thinkingConfig"] = _named(body["generationConfig"]["thinkingConfig"])
    contents = body.get("contents")
    contents = [contents] if isinstance(contents, dict) else contents
    if contents is not None and not isinstance(contents, list):
        raise refusal(
            "Invalid value at 'contents' (type.googleapis.com/google.ai.generativelanguage.v1beta.Content)"
        )
    body["contents"] = [_content(content) for content in contents or ()]
    return body


def _content(content: Any) -> dict[str, Any]:
    out = _named(content)
    parts = out.get("parts")
    parts = [parts] if isinstance(parts, dict) else parts
    if isinstance(parts, list):
        out["parts"] = [_part(part) for part in parts]
    return out


def _part(part: Any) -> dict[str, Any]:
    out = _named(part)
    for kind in ("inlineData", "fileData", "toolCall", "toolResponse"):
        if isinstance(out.get(kind), dict):
            out[kind] = _named(out[kind])
    # JSON of protobuf has the same meaning without a field that is false.
    return {key: value for key, value in out.items() if value is not False}


def _named(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise refusal(f"Invalid JSON payload received. An object was expected, not {value!r}.")
    return {camel(key): inner for key, inner in value.items() if inner is not None}


def _tools(body: dict[str, Any]) -> tuple[list[dict[str, Any]], list[ProviderTool]]:
    declarations: list[dict[str, Any]] = []
    hosted: list[ProviderTool] = []
    for tool in body.get("tools") or ():
        for kind, options in _named(tool).items():
            if kind == "functionDeclarations":
                declarations.extend(_named(one) for one in options)
            else:
                hosted.append(ProviderTool(snake(kind), "", options if isinstance(options, dict) else {}))
    return declarations, hosted


def _spec(declaration: dict[str, Any]) -> ToolSpec:
    schema = declaration.get("parametersJsonSchema")
    # Google's own subset of OpenAPI, with types in capitals.
    if schema is None:
        schema = json_schema(declaration.get("parameters") or {})
    return read_function(declaration["name"], declaration.get("description"), schema)


def _choice(calling: dict[str, Any]) -> ToolChoice | None:
    match calling:
        case {"mode": "ANY", "allowedFunctionNames": [str(name)]}:
            return NamedTool(name)
        case {"mode": "ANY"}:
            return "required"
        case {"mode": "NONE"}:
            return "none"
        case {"mode": "AUTO"}:
            return "auto"
    return None


def _format(config: dict[str, Any]) -> ResponseFormat | None:
    if config.get("responseMimeType") != "application/json":
        return None
    schema = config.get("responseJsonSchema")
    if schema is None:
        schema = json_schema(config.get("responseSchema"))
    return ResponseFormat(schema if isinstance(schema, dict) else None)


def _reasoning(thinking: dict[str, Any]) -> ReasoningOptions | None:
    level = str(thinking.get("thinkingLevel") or "").lower()
    if level in _EFFORTS:
        return ReasoningOptions(effort=level)  # type: ignore[arg-type]  # one of the efforts, see above
    budget = thinking.get("thinkingBudget")
    if budget == 0:
        return ReasoningOptions(effort="none")
    return ReasoningOptions(budget_tokens=budget) if isinstance(budget, int) and budget > 0 else None


def _leftovers(body: dict[str, Any], request: Request, vertex: bool) -> dict[str, Any]:
    """Returns fields that our settings do not restore when the request is sent on."""
    # Only settings are compared, so a long conversation need not be encoded.
    plain = msgspec.structs.replace(request, messages=(Message.user("."),))
    again = encode_request(plain, provider=KEY, vertex=vertex, openapi=False).http.json()
    config = dict(body.get("generationConfig") or {})
    if request.response_format is not None and "responseJsonSchema" in (again.get("generationConfig") or {}):
        config.pop("responseSchema", None)
    sent = {"generationConfig": config, "toolConfig": body.get("toolConfig") or {}}
    out = _difference(sent, again)
    shown = (again.get("generationConfig") or {}).get("thinkingConfig") or {}
    if shown.get("includeThoughts") and not (config.get("thinkingConfig") or {}).get("includeThoughts"):
        out = merged(out, {"generationConfig": {"thinkingConfig": {"includeThoughts": False}}})
    return out


def _difference(sent: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for key, value in sent.items():
        known = again.get(key)
        if isinstance(value, dict) and (isinstance(known, dict) or not value):
            inner = _difference(value, known or {})
            if inner:
                out[key] = inner
        elif value != known:
            out[key] = value
    return out
