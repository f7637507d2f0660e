"""The script of `sim:probe`: a model that obeys plain instructions, so that a check shows the wire alone."""

from __future__ import annotations

import re
import zlib
from typing import Any, Final

import msgspec

from llmstream.chats.content import Image
from llmstream.chats.message import Message, Role
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec
from llmstream.simulator.demo import Demo, sample_value
from llmstream.simulator.script import Call, Refuse, Turn

__all__ = ["Obedient"]

# Those that the probe of images gives to choose from.
_COLOURS: Final = {
    (255, 0, 0): "red",
    (0, 255, 0): "green",
    (0, 0, 255): "blue",
    (255, 255, 0): "yellow",
    (0, 0, 0): "black",
    (255, 255, 255): "white",
}
# Names that begin with it are refused.
_MISSING: Final = "no-such-model"

# A word with the space before it; a leading run of space is a token of its own.
_TOKEN: Final = re.compile(r"\s?\S+|\s")


class Obedient(msgspec.Struct, frozen=True):
    """Obeys: counts, repeats, remembers a number, names a colour, calls the tools that a prompt names.

    It obeys the system prompt "Begin every answer with the word X", stop sequences, the limit of tokens (a
    word each), tool_choice and schemas. Whatever else it is asked, `Demo` answers.
    """

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the answer to a request."""
        if request.model.startswith(_MISSING):
            return Turn(fault=Refuse(status=404, message=f"The model {request.model!r} does not exist"))
        calls = _calls(request)
        demo = Demo().turn(msgspec.structs.replace(request, tools=()), number)
        if calls:
            return Turn(reasoning=demo.reasoning, calls=calls)
        text = _answer(request, _last_prompt(request))
        if text is None or request.response_format is not None:
            text = demo.text
        return _limited(request, demo.reasoning, _opening(request) + text)


def _answer(request: Request, prompt: str) -> str | None:
    """The obedient answer; None for a prompt that instructs nothing."""
    # The phrases of the probes in endpoint_check/.
    if found := re.match(r"Count from (\d+) to (\d+)", prompt):
        return ", ".join(map(str, range(int(found[1]), int(found[2]) + 1)))
    if found := re.match(r"(?:Repeat|Copy)[^\n]*:\n(.+)", prompt, re.DOTALL):
        return found[1]
    if "lucky number?" in prompt:
        earlier = [number for m in request.messages[:-1] for number in re.findall(r"\d+", m.text)]
        return earlier[-1] if earlier else None
    if "colour" in prompt:
        return next(
            (_colour(part) for m in request.messages for part in m.parts if isinstance(part, Image)), None
        )
    return None


def _last_prompt(request: Request) -> str:
    """The user's last message, unless tools have answered since."""
    last = request.messages[-1] if request.messages else Message.user("")
    return last.text if last.role == Role.USER else ""


def _opening(request: Request) -> str:
    """The word with which each answer has to begin, by the system prompt."""
    if request.response_format is not None:
        return ""
    system = " ".join(m.text for m in request.messages if m.role == Role.SYSTEM)
    found = re.search(r"Begin every answer with the word (\w+)", system)
    return f"{found[1]} " if found else ""


def _limited(request: Request, reasoning: str, text: str) -> Turn:
    """The turn up to a stop sequence and to the limit of tokens."""
    for stop in request.settings.stop:
        text = text.partition(stop)[0]
    limit = request.settings.max_output_tokens
    tokens = _TOKEN.findall(text)
    if limit is not None and len(tokens) > limit:
        return Turn(reasoning=reasoning, text="".join(tokens[:limit]), finish_reason="length")
    return Turn(reasoning=reasoning, text=text)


def _calls(request: Request) -> tuple[Call, ...]:
    """The calls that the prompt or the choice demands, none after their results."""
    prompt, choice = _last_prompt(request), request.tool_choice
    tools = [tool for tool in request.tools if not isinstance(tool, ProviderTool)]
    if isinstance(choice, NamedTool):
        return tuple(_call(tool, prompt) for tool in tools if tool.name == choice.name)
    if choice == "none" or not tools or not prompt:
        return ()
    names = "|".join(re.escape(tool.name) for tool in tools)
    asked = re.findall(rf"({names}) for ([A-Z]\w+)", prompt)
    by_name = {tool.name: tool for tool in tools}
    if asked:
        return tuple(_call(by_name[name], prompt, city) for name, city in asked)
    named = [tool for tool in tools if tool.name in prompt]
    if named or choice == "required":
        return (_call((named or tools)[0], prompt),)
    return ()


def _call(tool: ToolSpec, prompt: str, city: str = "") -> Call:
    arguments: Any = sample_value({"type": "object", **tool.input_schema}, prompt=prompt)
    if city and "city" in arguments:
        arguments["city"] = city
    if ": " in prompt and "text" in arguments:
        arguments["text"] = prompt.partition(": ")[2]
    return Call(tool.name, arguments)


def _colour(image: Image) -> str | None:
    """The colour of the first pixel of a PNG in RGB, by the names of `_COLOURS`."""
    at = image.data.find(b"IDAT")
    if at < 4:
        return None
    size = int.from_bytes(image.data[at - 4 : at], "big")
    try:
        # The first byte of a row names its filter; then come the pixels.
        red, green, blue = zlib.decompress(image.data[at + 4 : at + 4 + size])[1:4]
    except (zlib.error, ValueError):
        return None
    return _COLOURS.get((red, green, blue))
