"""How a vendor is asked for an answer of a schema: by its own mode, by a tool, or in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, OutputAbility
from llmstream.request import NamedTool, Request, ResponseFormat, ToolSpec
from llmstream.structured.output_tool import OutputToolDecoder

__all__ = ["Asked", "asked"]

_DESCRIPTION: Final = "Give the answer, as the input of this tool."


class Asked(NamedTuple):
    """The request as it is encoded, and the tool whose input is then the answer."""

    request: Request
    tool: str | None = None

    def reading(self, decoder: Decoder) -> Decoder:
        """The decoder of the answer, which comes as text in every mode."""
        return decoder if self.tool is None else OutputToolDecoder(decoder, self.tool)


def asked(request: Request, able: Sequence[OutputAbility]) -> Asked:
    """The request in the mode that its response format names, or in the best that the vendor has.

    A schema without a mode goes to the vendor as it is, where the model that is asked has any mode for
    JSON; where it has none (older Claudes, those of Vertex), it is asked for as "auto" would.

    able: what the dialect says of this request, best first
    """
    wanted = request.response_format
    if wanted is None or wanted.schema is None:
        return Asked(request)
    mode = wanted.mode
    if mode is None and ("json_schema" in able or "json_object" in able):
        return Asked(request)
    if mode is None or mode == "auto":
        mode = next((a for a in able if a != "json_object"), "prompt")
    if mode == "tool":
        return _by_tool(request, wanted)
    if mode == "prompt":
        return Asked(_by_prompt(request, wanted.schema, knows_json="json_object" in able))
    return Asked(msgspec.structs.replace(request, response_format=_without_mode(wanted)))


def _by_tool(request: Request, wanted: ResponseFormat) -> Asked:
    taken = {tool.name for tool in request.tools}
    name = wanted.name
    while name in taken:
        name += "_answer"
    tool = ToolSpec(name, wanted.description or _DESCRIPTION, wanted.schema or {})
    changed = msgspec.structs.replace(
        request,
        tools=(*request.tools, tool),
        tool_choice="required" if request.tools else NamedTool(name),
        response_format=None,
    )
    return Asked(changed, name)


def _by_prompt(request: Request, schema: dict[str, object], *, knows_json: bool) -> Request:
    words = (
        "Answer with a JSON object and nothing else: no prose, no code fence. "
        f"It has to fit this JSON schema: {msgspec.json.encode(schema).decode()}"
    )
    return msgspec.structs.replace(
        request,
        messages=(Message.system(words), *request.messages),
        response_format=ResponseFormat() if knows_json else None,
    )


def _without_mode(wanted: ResponseFormat) -> ResponseFormat:
    return msgspec.structs.replace(wanted, mode=None)
