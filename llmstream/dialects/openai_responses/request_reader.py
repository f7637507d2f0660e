"""The reverse of `request.py`: a Request from a client's HTTP request, refused as OpenAI refuses.

What a Request has no word for, and what differs from what we would send (a missing `store`), is
kept in `provider_options`, so that encoding the Request gives the same body.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from llmstream.chats.message import Message
from llmstream.dialects.openai_answers import check_effort, refused
from llmstream.dialects.openai_responses.input_reader import InputReader
from llmstream.dialects.openai_responses.quirks import Quirks
from llmstream.dialects.openai_responses.request import (
    CONTINUING,
    MERGED,
    encode_request,
    mentions_json,
    system_role,
)
from llmstream.dialects.openai_responses.tools_reader import read_tool_choice, read_tools
from llmstream.dialects.openai_schema import strict_problem
from llmstream.errors import CallerError
from llmstream.exchange import HttpRequest
from llmstream.model_rules.gpt import GPT
from llmstream.request import (
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
)

__all__ = ["read_request"]

_RANGES: Final = {"temperature": (0, 2), "top_p": (0, 1)}
_MOVED: Final = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "response_format": "text.format",
    "reasoning_effort": "reasoning.effort",
}
_UNKNOWN: Final = ("stop", "seed", "presence_penalty", "frequency_penalty", "top_k", "n", "functions")
_MIN_OUTPUT_TOKENS: Final = 16
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
_READ_WHOLE: Final = frozenset({"model", "input", "instructions", "tools"})
_HEADERS: Final = frozenset(
    {"content-type", "accept", "content-length", "host", "connection", "user-agent", "accept-encoding"}
)


def read_request(http: HttpRequest, quirks: Quirks, *, key: str) -> Request:
    """What a client asks for.

    key: under which fields that only the vendor knows are kept in `provider_options`

    raises: BadRequest with the vendor's message
    """
    try:
        body = http.json()
    except (msgspec.MsgspecError, ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise refused("We could not parse the JSON body of your request. The body has to be a JSON object.")
    _check(body, quirks)
    messages = _messages(body, quirks)
    tools = read_tools(body.get("tools"))
    request = Request(
        model=body["model"],
        messages=tuple(messages),
        tools=tools,
        tool_choice=read_tool_choice(body.get("tool_choice"), tools),
        settings=_settings(body, quirks),
        response_format=_response_format(body, quirks),
        reasoning=_reasoning(body, quirks),
        headers={k: v for k, v in http.headers.items() if k.lower() not in _HEADERS},
    )
    own = _difference(body, request, quirks, key)
    if not own:
        return request
    return msgspec.structs.replace(request, provider_options={key: own})


def _difference(body: dict[str, Any], request: Request, quirks: Quirks, key: str) -> dict[str, Any]:
    """Fields of the body that encoding the request would leave out, change or add."""
    wanted = {name: value for name, value in body.items() if value is not None}
    shaping: dict[str, Any] = {name: wanted[name] for name in CONTINUING if name in wanted}
    if wanted.get("store") != quirks.store:
        shaping["store"] = wanted.get("store")
    known = msgspec.structs.replace(request, provider_options={key: shaping})
    try:
        sent = encode_request(known, quirks, provider=key).http.json()
    except CallerError as error:  # what the client sent, we could not
        raise refused(error.message) from None
    out: dict[str, Any] = dict(shaping)
    for name in [*wanted, *(name for name in sent if name not in wanted)]:
        if name in _READ_WHOLE or wanted.get(name) == sent.get(name):
            continue
        ours, theirs = sent.get(name), wanted.get(name)
        if name in MERGED and isinstance(ours, dict) and isinstance(theirs, dict):
            keys = [*theirs, *(inner for inner in ours if inner not in theirs)]
            out[name] = {k: theirs.get(k) for k in keys if theirs.get(k) != ours.get(k)}
        else:
            out[name] = theirs
    return out


def _check(body: dict[str, Any], quirks: Quirks) -> None:
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise refused("Missing required parameter: 'model'.", "missing_required_parameter")
    for name, place in _MOVED.items():
        if name in body and not (name == "response_format" and quirks.chat_response_format):
            raise refused(
                f"Unsupported parameter: '{name}'. In the Responses API, this parameter has moved to "
                f"'{place}'. Try again with the new parameter.",
                "unsupported_parameter",
            )
    for name in _UNKNOWN:
        if body.get(name) is not None and name in (quirks.unsupported_settings | {"n", "functions"}):
            raise refused(f"Unknown parameter: '{name}'.", "unknown_parameter")
    if body.get("previous_response_id") is not None and body.get("conversation") is not None:
        raise refused(
            "Mutually exclusive parameters: 'previous_response_id' and 'conversation'. Provide one of them.",
            "mutually_exclusive_parameters",
        )


def _messages(body: dict[str, Any], quirks: Quirks) -> list[Message]:
    instructions = body.get("instructions")
    if instructions is not None and not isinstance(instructions, str):
        raise refused("Invalid type for 'instructions': expected a string.", "invalid_type")
    continued = any(body.get(name) is not None for name in CONTINUING)
    if "input" not in body and not continued:
        raise refused("Missing required parameter: 'input'.", "missing_required_parameter")
    reader = InputReader(
        role=system_role(body["model"], quirks),
        leading=quirks.system == "instructions" and not instructions,
        continued=continued,
    )
    messages = reader.read(body.get("input", []))
    return [Message.system(instructions), *messages] if instructions else messages


def _settings(body: dict[str, Any], quirks: Quirks) -> Settings:
    found: dict[str, Any] = {}
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    sampling = GPT.find(body["model"]).sampling
    samples = sampling == "always" or (sampling == "at-none" and effort == "none")
    for name, (low, high) in _RANGES.items():
        value = body.get(name)
        if value is None:
            continue
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refused(f"Invalid type for '{name}': expected a number.", "invalid_type")
        if not low <= value <= high:
            bound, word = (low, "minimum") if value < low else (high, "maximum")
            raise refused(
                f"Invalid '{name}': decimal value out of range. Expected a value with {word} {bound}, "
                f"but got {value} instead.",
                f"decimal_{'below_min' if value < low else 'above_max'}_value",
            )
        if quirks.reasoning_model_rules and not samples:
            raise refused(f"Unsupported parameter: '{name}' is not supported with this model.", None, name)
        found[name] = value
    most = body.get("max_output_tokens")
    if most is not None:
        if not isinstance(most, int) or isinstance(most, bool):
            raise refused("Invalid type for 'max_output_tokens': expected an integer.", "invalid_type")
        if most < _MIN_OUTPUT_TOKENS:
            raise refused(
                "Invalid 'max_output_tokens': integer below minimum value. "
                f"Expected a value >= {_MIN_OUTPUT_TOKENS}, but got {most} instead.",
                "integer_below_min_value",
            )
        found["max_output_tokens"] = most
    if isinstance(body.get("parallel_tool_calls"), bool):
        found["parallel_tool_calls"] = body["parallel_tool_calls"]
    return Settings(**found)


def _response_format(body: dict[str, Any], quirks: Quirks) -> ResponseFormat | None:
    text = body.get("text")
    wanted = text.get("format") if isinstance(text, dict) else None
    if quirks.chat_response_format and isinstance(body.get("response_format"), dict):
        wanted = {**body["response_format"], **(body["response_format"].get("json_schema") or {})}
    if wanted is None:
        return None
    kind = wanted.get("type") if isinstance(wanted, dict) else None
    if kind == "text":
        return None
    if kind == "json_object":
        if not mentions_json(body.get("input")):
            raise refused(
                "Response input messages must contain the word 'json' in some form to use 'text.format' "
                "of type 'json_object'."
            )
        return ResponseFormat()
    if kind != "json_schema":
        raise refused(
            f"Invalid value: {kind!r}. Supported values are: 'json_object', 'json_schema', and 'text'.",
            "invalid_value",
        )
    name, schema = wanted.get("name"), wanted.get("schema")
    for field, value, wanted_type in (("name", name, str), ("schema", schema, dict)):
        if not isinstance(value, wanted_type):
            raise refused(f"Missing required parameter: 'text.format.{field}'.", "missing_required_parameter")
    strict = wanted.get("strict") is True
    problem = strict_problem(schema) if strict else None
    if problem:
        raise refused(f"Invalid schema for response_format '{name}': {problem}", "invalid_json_schema")
    return ResponseFormat(schema, name, wanted.get("description"), strict)


def _reasoning(body: dict[str, Any], quirks: Quirks) -> ReasoningOptions | None:
    reasoning = body.get("reasoning")
    effort = reasoning.get("effort") if isinstance(reasoning, dict) else None
    if effort is None:
        return None
    if effort not in _EFFORTS:
        raise refused(
            f"Invalid value: {effort!r}. Supported values are: {', '.join(map(repr, _EFFORTS))}.",
            "invalid_value",
        )
    if quirks.reasoning_model_rules:
        check_effort("reasoning.effort", effort, GPT.find(body["model"]).efforts)
    return ReasoningOptions(effort=effort)
