"""The scripts of `sim:demo`, which calls offered tools with sample input, and of `sim:probe`, which obeys."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from llmstream.chats.content import Image, Text, ToolResult
from llmstream.chats.message import Message, Role
from llmstream.request import NamedTool, ProviderTool, Request, ToolSpec
from llmstream.simulator.script import Call, Refuse, Turn
from llmstream.simulator.timeline import custom_tools

__all__ = ["Demo", "Obedient", "sample_value"]

# A tool may return a file; the demo repeats what a person reads on one screen.
_EXCERPT_CHARS = 400


class Demo(msgspec.Struct, frozen=True):
    """Responds from the request alone, deterministically.

    With tools and no results: a sentence and a tool call; a forced call has no sentence, as at the
    vendors. With results: a text that quotes them. Otherwise: a text that quotes the prompt, or
    JSON for a schema. Reasoning is included only if requested.
    """

    def turn(self, request: Request, number: int) -> Turn:
        """Returns the turn for a request."""
        results = _results(request)
        tool = _tool(request)
        if tool is not None and not results:
            return self._call(request, tool)
        if request.response_format is not None:
            value = sample_value(request.response_format.schema or {"properties": {"answer": {}}})
            return Turn(reasoning=_thought(request, "JSON is wanted."), text=_json(value))
        if results:
            quotes = " ".join(f"{r.name or 'The tool'} says: {_excerpt(r.content)}." for r in results)
            return Turn(
                reasoning=_thought(request, "The results are here."), text=f"{quotes} That is all there is."
            )
        return Turn(reasoning=_thought(request, "An echo will do."), text=_echo(request))

    def _call(self, request: Request, tool: ToolSpec | str) -> Turn:
        if isinstance(tool, str):
            name, arguments = tool, _prompt(request)
        else:
            name = tool.name
            # The schema of a tool may lack a type, but arguments are always an object.
            arguments = sample_value({"type": "object", **tool.input_schema}, prompt=_prompt(request))
        forced = request.tool_choice == "required" or isinstance(request.tool_choice, NamedTool)
        return Turn(
            reasoning=_thought(request, f"The tool {name} can help here."),
            text="" if forced else f"Let me use {name}.",
            calls=(Call(name, arguments),),
        )


def _tool(request: Request) -> ToolSpec | str | None:
    """Returns the tool to call: the chosen one, else the first that the client can run.

    A name stands for a tool with plain text input.
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
    """Returns the tool results after the last user message."""
    out: list[ToolResult] = []
    for message in reversed(request.messages):
        results = [p for p in message.parts if isinstance(p, ToolResult)]
        # Anthropic and Google send results as user messages, with nothing else or beside text.
        if message.role == Role.ASSISTANT or (message.role == Role.USER and not results):
            break
        out = results + out
    return out


def _prompt(request: Request) -> str:
    """Returns the text of the last user message."""
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


def _thought(request: Request, text: str) -> str:
    return text if _is_thinking_requested(request) else ""


def _is_thinking_requested(request: Request) -> bool:
    """Whether reasoning is requested: by effort, by budget, or by a vendor's own option."""
    if request.reasoning is not None:
        return request.reasoning.effort != "none"
    for own in request.provider_options.values():
        # Bedrock's field for options of the model.
        beside = own.get("additionalModelRequestFields")
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


# Recursive schemas have no deepest value.
_MAX_DEPTH: Final = 12
# Depth from which whatever may be absent is absent, so that recursive types end. A type that refers to itself
# three times has half a million values down to the deepest one.
_DEEP: Final = 3

# Values and padding in one sample. A few bytes of a schema, a `minItems` or a required reference to itself,
# can ask for more than the memory holds, and one request would stop the simulator for all clients.
_MAX_SIZE: Final = 20_000

# Pattern of a property name to a plausible string.
_STRINGS: Final = (
    ("city|town|place|location", "Paris"),
    ("country", "France"),
    ("date", "2026-01-31"),
    ("time", "12:00"),
    ("unit", "celsius"),
    ("currency", "EUR"),
    ("url|link", "https://example.com/"),
    ("mail", "someone@example.com"),
    ("path|file", "notes.txt"),
    ("language|lang", "en"),
    ("expression|formula", "6 * 7"),
    ("name", "Ada"),
)

# Strings that the last capitalized word inside a sentence of the prompt replaces.
_PROPER: Final = ("Paris", "France", "Ada")

# Names and addresses that RFC 2606 and RFC 5737 reserve for examples.
_FORMATS: Final = {
    "date": "2026-01-31",
    "date-time": "2026-01-31T12:00:00Z",
    "time": "12:00:00Z",
    "email": "someone@example.com",
    "uri": "https://example.com/",
    "uuid": "00000000-0000-4000-8000-000000000000",
    "ipv4": "192.0.2.1",
}


def sample_value(schema: Any, *, prompt: str = "") -> Any:
    """Returns a value that fits a schema, by the common keywords.

    prompt: source of free text for strings with unknown names
    """
    root = schema if isinstance(schema, Mapping) else {}
    return _Sampler(root, " ".join(prompt.split())[:80]).value(schema, "", 0)


class _Sampler:
    def __init__(self, root: Mapping[str, Any], prompt: str) -> None:
        self.root = root
        self.prompt = prompt
        self.named: list[str] = re.findall(r"(?<=[a-z,] )[A-Z][\w-]+", prompt)
        self.left = _MAX_SIZE

    def value(self, schema: Any, name: str, depth: int) -> Any:
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self.left < 0:
            return None
        schema = self.resolved(schema, depth)
        for key in ("const", "default"):
            if key in schema:
                return schema[key]
        for key in ("enum", "examples"):
            if schema.get(key):
                return schema[key][0]
        if depth > _DEEP and _is_nullable(schema):
            return None
        for key in ("anyOf", "oneOf"):
            options = [o for o in schema.get(key) or () if isinstance(o, Mapping) and o.get("type") != "null"]
            if options:
                return self.value(options[0], name, depth + 1)
        match _kind(schema):
            case "object":
                return self.object(schema, depth)
            case "array":
                count = max(0 if depth > _DEEP else 1, int(schema.get("minItems") or 0))
                items = schema.get("items", {"type": "string"})
                return [self.value(items, name, depth + 1) for _ in range(min(count, self.left))]
            case "integer" | "number":
                return _number(schema)
            case "boolean":
                return True
            case "string":
                return self.string(schema, name)
            case _:
                return None

    def object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        properties = schema.get("properties") or {}
        wanted = schema.get("required") or (list(properties) if depth <= _DEEP else [])
        # A schema may require names that it does not describe.
        return {key: self.value(properties.get(key, {"type": "string"}), key, depth + 1) for key in wanted}

    def resolved(self, schema: Mapping[str, Any], depth: int) -> Mapping[str, Any]:
        """Resolves the reference of a schema and merges its `allOf`."""
        for _ in range(_MAX_DEPTH):
            ref = schema.get("$ref")
            if not isinstance(ref, str) or not (ref == "#" or ref.startswith("#/")):
                break
            target: Any = self.root
            for step in ref.split("/")[1:]:
                # A reference to nothing is answered like a schema without rules.
                target = target.get(step) if isinstance(target, Mapping) else None
            schema = target if isinstance(target, Mapping) else {}
        for part in schema.get("allOf") or ():
            self.left -= 1
            if isinstance(part, Mapping) and depth < _MAX_DEPTH and self.left > 0:
                schema = {**schema, **self.resolved(part, depth + 1)}
        return schema

    def string(self, schema: Mapping[str, Any], name: str) -> str:
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]]
        text = next((s for pattern, s in _STRINGS if re.search(pattern, name.lower())), "")
        if text in _PROPER and self.named:
            text = self.named[-1]
        text = text or self.prompt or f"a {name or 'text'}"
        padding = max(0, min(int(schema.get("minLength") or 0) - len(text), self.left))
        self.left -= padding
        text += "." * padding
        longest = schema.get("maxLength")
        return text[: int(longest)] if longest is not None else text


def _is_nullable(schema: Mapping[str, Any]) -> bool:
    kinds = schema.get("type")
    return (isinstance(kinds, list) and "null" in kinds) or any(
        isinstance(option, Mapping) and option.get("type") == "null"
        for key in ("anyOf", "oneOf")
        for option in schema.get(key) or ()
    )


def _kind(schema: Mapping[str, Any]) -> str:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((k for k in kind if k != "null"), "null")
    if kind is None:
        return "object" if "properties" in schema else "array" if "items" in schema else "string"
    return str(kind)


def _number(schema: Mapping[str, Any]) -> int | float:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    if low is None:
        value = 1 if high is None or high > 1 else high - 1
    else:
        value = low + 1 if "exclusiveMinimum" in schema else low
    step = schema.get("multipleOf")
    if step:
        # Rounded up, to stay at or above the minimum.
        value = -(-value // step) * step
    return int(value) if schema.get("type") == "integer" else value


# The script of `sim:probe`: a model that obeys plain instructions, so that a check shows the wire alone.


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
