"""Checks a request as the vendor does, with its messages.

source: the Converse reference, and responses seen on the wire
"""

from __future__ import annotations

import re
from typing import Any, Final

import msgspec

from llmstream.dialects.bedrock_converse.wire import SERVER_TOOL
from llmstream.errors import BadRequest

__all__ = ["Turn", "check_inference", "check_tools", "check_turns", "member", "refusal", "shape_refusal"]


# source: Converse reference, ToolSpecification, ToolUseBlock, DocumentBlock
_TOOL_NAME: Final = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_CALL_ID: Final = re.compile(r"[a-zA-Z0-9_.:-]{1,64}")
_DOCUMENT_NAME: Final = re.compile(r"(?!.*\s\s)[a-zA-Z0-9\s\-()\[\]]{1,200}", re.DOTALL)
_SOURCED: Final = frozenset({"image", "document", "video", "audio"})


class Turn(msgspec.Struct):
    """One message as the body has it."""

    role: str
    content: list[dict[str, Any]]


def refusal(message: str) -> BadRequest:
    """Returns the error of a request that the vendor rejects."""
    return BadRequest(message, provider="bedrock", status=400, reason="ValidationException")


def shape_refusal(error: Exception) -> BadRequest:
    """Returns the error of a body that is not JSON, or has a wrong type."""
    return refusal(f"The request body could not be read: {error}. Check its JSON, and try again.")


def member(path: str, block: dict[str, Any]) -> tuple[str, Any]:
    """Returns the member of a union, whose name is the kind of the block.

    raises: BadRequest if there is none, or more than one
    """
    members = [(name, value) for name, value in block.items() if value is not None]
    if len(members) != 1:
        raise refusal(f"The value at {path} is a union: set exactly one of its members, and try again.")
    name, value = members[0]
    # Text is the only member that is no object.
    if isinstance(value, str) != (name == "text"):
        raise refusal(f"The value at {path}.{name} has the wrong type. Correct it, and try again.")
    return name, value


def check_turns(turns: list[Turn]) -> set[str]:
    """Checks roles, contents, and that every call has its result; returns the kinds of blocks.

    raises: BadRequest
    """
    dialogue = [turn for turn in turns if turn.role != "system"]
    if not dialogue or dialogue[0].role != "user":
        raise refusal(
            "A conversation must start with a user message. Try again with a conversation that starts "
            "with a user message."
        )
    kinds: set[str] = set()
    for number, turn in enumerate(turns):
        path = f"messages.{number}"
        if turn.role not in ("user", "assistant", "system"):
            raise refusal(
                f"1 validation error detected: Value '{turn.role}' at '{path}.role' failed to satisfy "
                "constraint: Member must satisfy enum value set: [user, assistant, system]"
            )
        if not turn.content:
            raise refusal(
                f"The content field in the Message object at {path} is empty. Add a ContentBlock object "
                "to the content field and try again."
            )
        kinds |= {_check_block(f"{path}.content.{i}", block) for i, block in enumerate(turn.content)}
        names = [set(block) for block in turn.content]
        # source: Bedrock, API reference, DocumentBlock: a message with a document needs a text block
        if turn.role == "user" and {"document"} in names and {"text"} not in names:
            raise refusal(f"Add a text block beside the document at {path}.content, and try again.")
    _check_calls(turns)
    return kinds


def check_inference(fields: dict[str, Any]) -> None:
    """Checks limits of numbers.

    raises: BadRequest
    """
    # An Integer of AWS has 32 bits with a sign.
    limits = {"maxTokens": (1, 2**31 - 1), "temperature": (0, 1), "topP": (0, 1)}
    for name, (least, most) in limits.items():
        value = fields.get(name)
        if value is None or least <= value <= most:
            continue
        bound = f"greater than or equal to {least}" if value < least else f"less than or equal to {most}"
        raise refusal(
            f"1 validation error detected: Value '{value}' at 'inferenceConfig.{name}' failed to satisfy "
            f"constraint: Member must have value {bound}"
        )


def check_tools(config: dict[str, Any] | None, kinds: set[str]) -> None:
    """Checks names and schemas of the tools, that a choice has tools, and that calls have tools.

    raises: BadRequest
    """
    if config is None:
        # Also if no tool may be called: clients that drop the tools at the last step fail here.
        if kinds & {"toolUse", "toolResult"}:
            raise refusal(
                "The toolConfig field must be defined when using toolUse and toolResult content blocks."
            )
        return
    tools = config.get("tools")
    if not isinstance(tools, list) or not tools:
        raise refusal(
            "1 validation error detected: Value at 'toolConfig.tools' failed to satisfy constraint: "
            "Member must have length greater than or equal to 1"
        )
    names = [_check_tool(f"toolConfig.tools.{i}", tool) for i, tool in enumerate(tools)]
    chosen = [name for name in names if name]
    if len(set(chosen)) < len(chosen):
        raise refusal("The toolConfig field contains duplicate tool names. Give each tool a name of its own.")
    match config.get("toolChoice"):
        case None | {"auto": dict()} | {"any": dict()}:
            return
        case {"tool": {"name": str(name)}} if name in chosen:
            return
        case {"tool": {"name": str(name)}}:
            raise refusal(f"The tool '{name}' in toolConfig.toolChoice is not among toolConfig.tools.")
    raise refusal("The value at toolConfig.toolChoice is a union: set one of auto, any and tool.")


def _check_tool(path: str, tool: Any) -> str:
    """Checks a tool; returns its name, or "" for other entries of the list."""
    kind, value = member(path, tool if isinstance(tool, dict) else {})
    # A cache point is in the list of tools, and has no name.
    if kind == "cachePoint":
        return ""
    name = value.get("name") if isinstance(value, dict) else None
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise refusal(
            f"1 validation error detected: Value '{name}' at '{path}.member.{kind}.name' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if kind == "toolSpec":
        given = value.get("inputSchema")
        schema = given.get("json") if isinstance(given, dict) else None
        if not isinstance(schema, dict) or schema.get("type") != "object":
            raise refusal(
                f"The value at {path}.toolSpec.inputSchema.json.type must be one of the following: object."
            )
        if value.get("description") == "":
            raise refusal(
                f"1 validation error detected: Value '' at '{path}.member.toolSpec.description' failed to "
                "satisfy constraint: Member must have length greater than or equal to 1"
            )
    return name


def _check_block(path: str, block: dict[str, Any]) -> str:
    """Checks a block; returns its kind."""
    kind, value = member(path, block)
    if kind == "text":
        if not value.strip():
            raise refusal(
                f"The text field in the ContentBlock object at {path} is blank. Add text to the text field, "
                "and try again."
            )
        return kind
    if not isinstance(value, dict):
        raise refusal(f"The value at {path}.{kind} has the wrong type. Correct it, and try again.")
    if kind in _SOURCED and not isinstance(value.get("source"), dict):
        raise refusal(f"The source field at {path}.{kind} must be defined.")
    if kind == "document" and not _DOCUMENT_NAME.fullmatch(str(value.get("name", ""))):
        raise refusal(
            "The document file name can only contain alphanumeric characters, whitespace characters, "
            "hyphens, parentheses, and square brackets. The name can't contain more than one consecutive "
            "whitespace character."
        )
    if kind in ("toolUse", "toolResult"):
        _check_call(f"{path}.{kind}", kind, value)
    return kind


def _check_call(path: str, kind: str, value: dict[str, Any]) -> None:
    call_id = value.get("toolUseId")
    if not isinstance(call_id, str) or not _CALL_ID.fullmatch(call_id):
        raise refusal(
            f"1 validation error detected: Value '{call_id}' at '{path}.toolUseId' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_.:-]+"
        )
    if kind == "toolResult":
        content = value.get("content")
        if not isinstance(content, list):
            raise refusal(f"The content field at {path} must be defined.")
        for number, piece in enumerate(content):
            member(f"{path}.content.{number}", piece if isinstance(piece, dict) else {})
        return
    name = value.get("name")
    if not isinstance(name, str) or not _TOOL_NAME.fullmatch(name):
        raise refusal(
            f"1 validation error detected: Value '{name}' at '{path}.name' failed to satisfy "
            "constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+"
        )
    if not isinstance(value.get("input"), dict):
        raise refusal(
            f"The format of the value at {path}.input is invalid. Provide a json object for the field and "
            "try again."
        )


def _check_calls(turns: list[Turn]) -> None:
    """Checks that each call has one result in the next turn, and each result a call."""
    waiting: list[str] = []
    for number, turn in enumerate(turns):
        path = f"messages.{number}.content"
        if turn.role == "assistant":
            _reject_missing(path, waiting)
            uses = [block["toolUse"] for block in turn.content if block.get("toolUse")]
            # The vendor itself has run its tools; their results are in the same turn.
            waiting = [use["toolUseId"] for use in uses if use.get("type") != SERVER_TOOL]
            continue
        results = [block["toolResult"]["toolUseId"] for block in turn.content if block.get("toolResult")]
        if len(set(results)) < len(results):
            raise refusal(f"The toolResult blocks at {path} contain duplicate Ids: {', '.join(results)}")
        if set(results) - set(waiting):
            raise refusal(
                f"The number of toolResult blocks at {path} exceeds the number of toolUse blocks of previous "
                "turn."
            )
        if turn.role == "user":
            _reject_missing(path, [call_id for call_id in waiting if call_id not in results])
            waiting = []
    _reject_missing("messages", waiting)


def _reject_missing(path: str, lacking: list[str]) -> None:
    if lacking:
        raise refusal(f"Expected toolResult blocks at {path} for the following Ids: {', '.join(lacking)}")
