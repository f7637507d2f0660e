"""The script for no script: it uses the tools it is offered, and answers from what it is told."""

from __future__ import annotations

import msgspec

from llmstream.chats.content import Text, ToolResult
from llmstream.chats.role import Role
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec
from llmstream.simulator.sample_input import sample_value
from llmstream.simulator.script import Call, Turn

__all__ = ["Demo"]

_EXCERPT_CHARS = 400


class Demo(msgspec.Struct, frozen=True):
    """Decides from the request alone, and always the same.

    With tools and no results yet: reasoning, a sentence and a call. With results: an answer that
    quotes them. Else: an answer that takes up the prompt, or JSON where a schema asks for it.
    """

    def turn(self, request: Request, number: int) -> Turn:
        """The answer to a request."""
        results = _results(request)
        tool = _tool(request)
        if tool is not None and not results:
            return self._call(request, tool)
        if request.response_format is not None:
            value = sample_value(request.response_format.schema or {"properties": {"answer": {}}})
            return Turn(reasoning=_thought(request, "JSON is wanted."), text=_json(value))
        if results:
            said = " ".join(f"{r.name or 'The tool'} says: {_excerpt(r.content)}." for r in results)
            return Turn(
                reasoning=_thought(request, "The results are here."), text=f"{said} That is all there is."
            )
        return Turn(reasoning=_thought(request, "An echo will do."), text=_echo(request))

    def _call(self, request: Request, tool: ToolSpec) -> Turn:
        arguments = sample_value({"type": "object", **tool.input_schema}, prompt=_prompt(request))
        return Turn(
            reasoning=f"The tool {tool.name} can help here.",
            text=f"Let me use {tool.name}.",
            calls=(Call(tool.name, arguments),),
        )


def _tool(request: Request) -> ToolSpec | None:
    """The tool to call: the one that is asked for, else the first that a caller can run."""
    choice = request.tool_choice
    tools = [t for t in request.tools if not isinstance(t, ProviderTool)]
    if choice == "none" or not tools:
        return None
    if isinstance(choice, NamedTool):
        return next((t for t in tools if t.name == choice.name), None)
    return tools[0]


def _results(request: Request) -> list[ToolResult]:
    """The results that came since the last thing a person said."""
    out: list[ToolResult] = []
    for message in reversed(request.messages):
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        if message.role == Role.ASSISTANT or (message.role == Role.USER and not results):
            break
        out = results + out
    return out


def _prompt(request: Request) -> str:
    """What the user said last."""
    for message in reversed(request.messages):
        if message.role == Role.USER:
            return "\n".join(p.text for p in message.parts if isinstance(p, Text))
    return ""


def _echo(request: Request) -> str:
    prompt = _excerpt(_prompt(request))
    if not prompt:
        return "Hello from the simulator. Nothing was asked, so there is nothing to answer."
    words = len(prompt.split())
    return (
        f"You said: {prompt}\n\n"
        f"That is {words} word{'' if words == 1 else 's'}. This is the simulator speaking: "
        "no model has read it, but every byte came over real HTTP."
    )


def _thought(request: Request, words: str) -> str:
    asked = request.reasoning is not None and request.reasoning.effort != "none"
    return words if asked else ""


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXCERPT_CHARS else text[:_EXCERPT_CHARS] + "…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
