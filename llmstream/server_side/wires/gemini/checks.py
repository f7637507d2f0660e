"""Checks a request as the vendor does, with its messages.

source: responses seen on the wire, and "Troubleshooting" in the documents of the Gemini API
"""

from __future__ import annotations

import re
from typing import Any, Final

from llmstream.dialects.gemini.messages import camel
from llmstream.dialects.google import SIDE_FIELDS
from llmstream.model_rules.gemini import GeminiRules
from llmstream.server_side.wires.errors import google_refusal as refusal

__all__ = ["check_config", "check_contents", "check_tools"]


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
