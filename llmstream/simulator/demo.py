"""The script for no script: it uses the tools it is offered, and answers from what it is told."""

from __future__ import annotations

import msgspec

from llmstream.chats.content import Text, ToolResult
from llmstream.chats.message import Role
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec
from llmstream.simulator.sample_input import sample_value
from llmstream.simulator.script import Call, Turn
from llmstream.simulator.utterance import custom_tools

__all__ = ["Demo"]

_EXCERPT_CHARS = 400


class Demo(msgspec.Struct, frozen=True):
    """Decides from the request alone, and always the same.

    With tools and no results yet: a sentence and a call; the call alone where it was forced, as the
    vendors do it. With results: an answer that quotes them. Else: an answer that takes up the prompt,
    or JSON where a schema asks for it. Reasoning comes before it only where it was asked for.
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

    def _call(self, request: Request, tool: ToolSpec | str) -> Turn:
        if isinstance(tool, str):
            name, arguments = tool, _prompt(request)
        else:
            name = tool.name
            arguments = sample_value({"type": "object", **tool.input_schema}, prompt=_prompt(request))
        forced = request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)
        return Turn(
            reasoning=_thought(request, f"The tool {name} can help here."),
            text="" if forced else f"Let me use {name}.",
            calls=(Call(name, arguments),),
        )


def _tool(request: Request) -> ToolSpec | str | None:
    """The tool to call: the one that is asked for, else the first that a caller can run.

    A name alone is a tool that takes plain text.
    """
    choice = request.tool_choice
    tools = [t for t in request.tools if not isinstance(t, ProviderTool)]
    plain = custom_tools(request)
    if choice == "none" or not (tools or plain):
        return None
    if isinstance(choice, NamedTool):
        named = next((t for t in tools if t.name == choice.name), None)
        return named or (choice.name if choice.name in plain else None)
    return tools[0] if tools else plain[0]


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
    return words if _is_thinking_asked(request) else ""


def _is_thinking_asked(request: Request) -> bool:
    """By an effort or a budget, or by a vendor's own option, which leaves the effort to the model."""
    if request.reasoning is not None:
        return request.reasoning.effort != "none"
    for own in request.provider_options.values():
        beside = own.get("additionalModelRequestFields")  # where Bedrock has what is a model's own
        own = beside if isinstance(beside, dict) else own
        thinking = own.get("thinking")
        kind = thinking.get("type") if isinstance(thinking, dict) else None
        if own.get("think") is True or kind in ("adaptive", "enabled"):
            return True
    return False


def _excerpt(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _EXCERPT_CHARS else text[:_EXCERPT_CHARS] + "…"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
