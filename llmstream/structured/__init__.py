"""Structured output: a response that is a value of a type. How it is requested, and text becomes a value.

It is requested by the vendor's own mode, by a tool, or by an instruction. Vendors accept an object at the
root of a schema, and plain keywords. `growth.py` reads a value while it streams.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import re
import types
import typing
from collections.abc import Sequence
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Final,
    Generic,
    Literal,
    NamedTuple,
    TypeAlias,
    cast,
    overload,
)

import msgspec

from llmstream import events as ev
from llmstream.chats.content import OWN_KEY
from llmstream.chats.message import Message
from llmstream.dialects.base import Decoder, OutputAbility, Place, can_continue
from llmstream.errors import InvalidOutput, InvalidRequest, LLMStreamError
from llmstream.json_types import (
    convert,
    decoder,
    is_model,
    readable,
    schemas,
    unsupported_type,
    with_whole_numbers,
    without_empty_nulls,
)
from llmstream.request import NamedTool, Request, ResponseFormat, ToolSpec

__all__ = [
    "ANSWER_KEY",
    "Output",
    "OutputMode",
    "OutputToolDecoder",
    "RequestInMode",
    "as_output",
    "fitted",
    "in_mode",
    "output_schema",
    "wrapped",
]


# The type of a response: its JSON schema for the vendor, and the conversion of text to a value.

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


OutputMode: TypeAlias = Literal["json_schema", "tool", "prompt"]

_SETS: Final = (set, frozenset, collections.abc.Set, collections.abc.MutableSet)
_SEQUENCES: Final = (list, *_SETS, collections.abc.Sequence)
_FENCE: Final = "```"

# How much of a message of msgspec goes into an error, and so back to the model.
_ERROR_CHARS: Final = 400

# The `type` of a response format on OpenAI's wire; no JSON schema has one of these.
_OPENAI_FORMS: Final = ("json_object", "json_schema", "text")

_UNREADABLE: Final = (msgspec.MsgspecError, ValueError, TypeError, RecursionError)


class Output(Generic[T]):
    """The type of a response with further options: the value of `output=` where a type alone is not enough.

    type:        a msgspec Struct, dataclass, TypedDict or pydantic model, a list of them, a union, Literal
                 or scalar; or a JSON schema, or "json" for any JSON object, whose answers are plain JSON
                 values
    mode:        how it is requested: "json_schema" (the vendor's own mode), "tool" (a tool whose input
                 is the answer) or "prompt" (a system message); by default what the provider does best
    name:        of the schema or tool; by default the type's
    description: what the model reads about it; by default the type's docstring
    strict:      whether the vendor must enforce the schema, if it can
    repair:      how often the model may repair a response that does not fit; see `EventStream.objects`
    raises:      InvalidRequest if the type has no JSON schema

    A value that is not an object is wrapped in one, as {"items": [...]} or {"value": ...}.
    """

    @overload
    def __init__(
        self,
        type: type[T],
        *,
        mode: OutputMode | None = None,
        name: str | None = None,
        description: str | None = None,
        strict: bool = True,
        repair: int = 1,
    ) -> None: ...

    @overload
    def __init__(
        self: Output[Any],
        type: Any,
        *,
        mode: OutputMode | None = None,
        name: str | None = None,
        description: str | None = None,
        strict: bool = True,
        repair: int = 1,
    ) -> None: ...

    def __init__(
        self,
        type: Any,
        *,
        mode: OutputMode | None = None,
        name: str | None = None,
        description: str | None = None,
        strict: bool = True,
        repair: int = 1,
    ) -> None:
        if mode not in (None, *typing.get_args(OutputMode)):
            raise InvalidRequest(f'mode is "json_schema", "tool" or "prompt"; got {mode!r}')
        if repair < 0:
            raise InvalidRequest(f"repair is the number of further attempts, 0 or more; got {repair}")
        own = _given_schema(type)
        self.given = type
        self.type = type if own is None else Any
        self.item_type = _item_type(self.type)
        self.is_set = _is_set(self.type)
        self.repair = repair
        self.wrapper: str | None = None
        if own is None:
            own = output_schema(type)
            self.schema, self.wrapper = wrapped(own)
            name = fitted(name or _name(type))
            description = own.get("description") if description is None else description
            mode_asked: OutputMode | Literal["auto"] | None = mode or "auto"
        else:  # sent to the vendor unchanged
            self.schema, name, mode_asked = own, fitted(name or "response"), mode
        self._plain = own
        self._decoder = _decoder(self.type, self.wrapper)
        self.format = ResponseFormat(
            # Without a schema the request is for any JSON object.
            schema=self.schema or None,
            name=name,
            description=description,
            strict=strict,
            mode=mode_asked,
        )

    def __repr__(self) -> str:
        return f"Output({self.given!r}, mode={self.format.mode!r})"

    def read(self, text: str) -> Any:
        """Returns the value in the text of a response; prose and code fences around it are ignored.

        raises: InvalidOutput, with a message from which the model can repair it
        """
        if not text.strip():
            raise InvalidOutput("The answer is empty.", reason="empty")
        # Of all candidates the error of one is reported.
        first: Exception | None = None
        for candidate in _candidates(text):
            try:
                return self._decoded(candidate)
            except _UNREADABLE as error:
                # The first candidate that is valid JSON gives the model the most useful error.
                if first is None or not isinstance(first, msgspec.ValidationError):
                    first = error
        raise self._invalid(first) from None

    def item(self, raw: Any) -> Any:
        """Returns one element of the list from parsed JSON.

        raises: msgspec.ValidationError
        """
        items = self._plain.get("items", {})
        # Of a nested type the element refers to `$defs`, which stand beside `items`.
        schema = {**items, "$defs": self._plain.get("$defs", {})} if isinstance(items, dict) else {}
        return _converted(raw, self.item_type, schema)

    def value(self, raw: Any) -> Any:
        """Returns the value from parsed JSON, without its wrapper.

        raises: msgspec.ValidationError
        """
        return _converted(raw, self.type, self._plain)

    def _decoded(self, text: str) -> Any:
        wrapper = self.wrapper
        # Nearly every response is valid unchanged; only a failure needs a second pass.
        try:
            found = self._decoder.decode(text)
        except msgspec.ValidationError:
            value = msgspec.json.decode(text)
            if wrapper is not None and not (isinstance(value, dict) and wrapper in value):
                value = {wrapper: value}  # it gave the value itself
            # Strict modes send null for omitted values, and some models 3.0 for 3.
            value = with_whole_numbers(without_empty_nulls(value, self.schema))
            found = self._decoder.decode(msgspec.json.encode(value))
        return found if wrapper is None else getattr(found, wrapper)

    def _invalid(self, error: Exception | None) -> InvalidOutput:
        if isinstance(error, msgspec.ValidationError):
            message = f"The answer does not fit {self.format.name}: {_shortened(str(error))}."
            return InvalidOutput(message, reason="schema")
        return InvalidOutput(f"The answer is not JSON: {error}.", reason="json")


def as_output(value: Any) -> Output | None:
    """Returns the `output=` option as an `Output`; None without the option.

    raises: InvalidRequest for anything but a type
    """
    return value if value is None or isinstance(value, Output) else Output(value)


def _given_schema(value: Any) -> dict[str, Any] | None:
    """Returns the JSON schema that was given in place of a type: {} for "json", None for a type.

    raises: InvalidRequest for any other text, and for a schema in OpenAI's wrapper
    """
    if isinstance(value, str):
        if value == "json":
            return {}
        raise InvalidRequest(
            f'output={value!r} is not a type. Write output="json" for any JSON object, or pass a type, '
            "a JSON schema or an Output."
        )
    if not isinstance(value, collections.abc.Mapping):
        return None
    if value.get("type") in _OPENAI_FORMS:
        raise InvalidRequest(
            f'output={{"type": {value["type"]!r}}} is OpenAI\'s response_format. Pass a type or the JSON '
            'schema itself, or "json" for any JSON object.'
        )
    return dict(value)


def _converted(raw: Any, output_type: Any, schema: dict[str, Any]) -> Any:
    try:
        return convert(raw, output_type)
    except msgspec.ValidationError:
        return convert(with_whole_numbers(without_empty_nulls(raw, schema)), output_type)


def _candidates(text: str) -> typing.Iterator[str]:
    """Yields what may be the JSON in a text: all of it, fenced code, or from the first brace to the last."""
    # First: a value may hold braces and fences in its strings.
    yield text.strip()
    yield from _fenced(text)
    for opening, closing in ("{}", "[]"):
        begin, end = text.find(opening), text.rfind(closing)
        if 0 <= begin < end:
            yield text[begin : end + 1]


def _fenced(text: str) -> typing.Iterator[str]:
    """Returns the text between two code fences, without the line that names the language."""
    for piece in text.split(_FENCE)[1:-1]:  # one may close, or open: an inline fence needs no pair
        info, line_end, block = piece.partition("\n")
        info = info.strip()
        if line_end and (not info or (info.isascii() and info.isalpha())):
            yield block.strip()


def _decoder(output_type: Any, wrapper: str | None) -> msgspec.json.Decoder[Any]:
    if wrapper is None:
        return decoder(output_type)
    # A wrapped value is read as a Struct, so that msgspec checks type and wrapper in one pass.
    return decoder(msgspec.defstruct("Answer", [(wrapper, readable(output_type))]))


def _item_type(output_type: Any) -> Any:
    """Returns the type of the elements of a list, set or open tuple; None for any other type."""
    if typing.get_origin(output_type) is Annotated:
        return _item_type(typing.get_args(output_type)[0])
    origin, args = typing.get_origin(output_type) or output_type, typing.get_args(output_type)
    if origin is tuple:
        return args[0] if len(args) == 2 and args[1] is Ellipsis else (None if args else Any)
    if origin in _SEQUENCES:
        return args[0] if args else Any
    return None


def _is_set(output_type: Any) -> bool:
    if typing.get_origin(output_type) is Annotated:
        return _is_set(typing.get_args(output_type)[0])
    return (typing.get_origin(output_type) or output_type) in _SETS


def _name(output_type: Any) -> str:
    item = _item_type(output_type)
    if item is not None:
        inner = getattr(item, "__name__", "")
        return f"{inner}_list" if inner and isinstance(item, type) else "list"
    if typing.get_origin(output_type) in (typing.Union, types.UnionType, Literal, Annotated):
        return "response"
    return str(getattr(output_type, "__name__", "response"))


def _shortened(message: str) -> str:
    """Shortens a message of msgspec, which may quote a key of any length; the path is at its end."""
    if len(message) <= _ERROR_CHARS:
        return message
    return f"{message[: _ERROR_CHARS // 2]}...{message[-_ERROR_CHARS // 2 :]}"


# Refused by strict modes; a default that is left out applies all the same when the answer is read.
_DROPPED: Final = frozenset({"default", "discriminator"})

# Their values are data, in which a key `default` is no keyword.
_NOT_SCHEMAS: Final = frozenset({"enum", "const", "required", "examples"})
# Their keys are names of the user's types, which may be those of keywords.
_NAMED: Final = frozenset({"properties", "$defs"})
# source: OpenAI, response_format: "a-z, A-Z, 0-9, underscores and dashes, with a maximum length of 64"
_MAX_NAME: Final = 64


def output_schema(output_type: Any) -> dict[str, Any]:
    """Returns the schema of a type; nested types are in `$defs`, and a reference at the root is resolved.

    raises: InvalidRequest if the type has no JSON form
    """
    try:
        (schema,), components = schemas([output_type])
    except (TypeError, NameError, ValueError, RecursionError) as error:
        raise InvalidRequest(
            f"output: no JSON schema can be made of {output_type!r}. {_remedy(output_type, error)}"
        ) from None
    found, defs = _plain(schema), {name: _plain(each) for name, each in components.items()}
    root = found.get("$ref")
    if isinstance(root, str):
        name = root.rpartition("/")[2]
        found = {**defs[name]}
        # A type that refers to itself still needs its entry.
        if not _refers(defs, root):
            del defs[name]
    if defs:
        found["$defs"] = defs
    return cast(dict[str, Any], found)


def _remedy(output_type: Any, error: Exception) -> str:
    kind = type(output_type)
    if dataclasses.is_dataclass(kind) or issubclass(kind, msgspec.Struct) or is_model(kind):
        return f"It is a value; write output={kind.__name__}, its type."
    if found := unsupported_type(error):
        part = "" if found == repr(output_type) else f"It has a part of the type {found}. "
        return (
            f"{part}Use a dataclass, a TypedDict, a msgspec Struct, a pydantic model, or types made of these."
        )
    if "type union" in str(error).lower():  # nothing in the JSON would show which member it is
        return f"{error}. Use pydantic models, or tagged Structs: class City(msgspec.Struct, tag=True)."
    return str(error)


def wrapped(schema: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Returns the schema with an object at its root, and the name of the property with the value."""
    if schema.get("type") == "object":
        return schema, None
    name = "items" if schema.get("type") == "array" else "value"
    inner = {key: value for key, value in schema.items() if key != "$defs"}
    outer: dict[str, Any] = {"type": "object", "properties": {name: inner}, "required": [name]}
    # OpenAI's strict mode refuses an object that is open.
    outer["additionalProperties"] = False
    # References point to the root of the schema.
    if "$defs" in schema:
        outer["$defs"] = schema["$defs"]
    return outer, name


def fitted(name: str) -> str:
    """Returns a name that vendors accept for a schema or a tool."""
    return re.sub(r"[^A-Za-z0-9_-]+", "_", name).strip("_")[:_MAX_NAME] or "response"


def _refers(schema: Any, ref: str) -> bool:
    if isinstance(schema, dict):
        return schema.get("$ref") == ref or any(_refers(inner, ref) for inner in schema.values())
    return isinstance(schema, list) and any(_refers(inner, ref) for inner in schema)


def _plain(schema: Any) -> Any:
    """Removes keywords that strict modes refuse; objects with named properties are closed."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key in _NAMED:
            out[key] = {name: _plain(inner) for name, inner in value.items()}
        elif key not in _DROPPED:
            out[key] = value if key in _NOT_SCHEMAS else _plain(value)
    # As strict modes require; an object without named properties is a dict with any keys.
    if "properties" in out:
        out.setdefault("additionalProperties", False)
    return out


# How output with a schema is requested.

# An answer that came as the input of a tool becomes text events, so that every mode has the same events.

# In the metadata under "llmstream": this text is the answer, regardless of other text.
ANSWER_KEY: Final = "answer"


class OutputToolDecoder:
    """A decoder around another: calls of one tool become blocks of text.

    The call itself is left out, so that it is not run and the conversation, which stores the
    text, needs no result for it. A response without other calls finishes with "stop".

    decoder: the wrapped decoder
    """

    def __init__(self, decoder: Decoder, tool: str) -> None:
        self.decoder = decoder
        self._tool = tool
        self._open: dict[str, bool] = {}  # call id -> whether it has any input yet
        self._answered = False
        self._other_calls = False
        self._mirror()

    def feed(self, chunk: bytes) -> list[ev.Event]:
        """Decodes a slice of the body; returns the events that it completes."""
        return self._converted(self.decoder.feed(chunk))

    def close(self) -> list[ev.Event]:
        """Ends the input; returns the events held back."""
        return self._converted(self.decoder.close())

    @property
    def next_place(self) -> Place | None:
        """That of the wrapped decoder; see `ContinuingDecoder`."""
        return self.decoder.next_place if can_continue(self.decoder) else None

    @property
    def gap(self) -> LLMStreamError | None:
        """That of the wrapped decoder."""
        return self.decoder.gap if can_continue(self.decoder) else None

    @property
    def unfinished(self) -> ev.Metadata | None:
        """That of the wrapped decoder."""
        return self.decoder.unfinished if can_continue(self.decoder) else None

    def next_body(self) -> None:
        """Prepares for another body."""
        if can_continue(self.decoder):
            self.decoder.next_body()
            self._mirror()

    def _mirror(self) -> None:
        inner = self.decoder
        self.usage, self.failure = inner.usage, inner.failure
        self.complete, self.done = inner.complete, inner.done

    def _converted(self, events: list[ev.Event]) -> list[ev.Event]:
        self._mirror()
        out: list[ev.Event] = []
        for event in events:
            out += self._as_text(event)
        return out

    def _as_text(self, event: ev.Event) -> list[ev.Event]:
        match event:
            case ev.ToolInputStart(name, id) if name == self._tool and not event.provider_executed:
                self._open[id] = False
                return [ev.TextStart(id, {OWN_KEY: {ANSWER_KEY: True}})]
            case ev.ToolInputDelta(delta, id) if id in self._open:
                self._open[id] = self._open[id] or bool(delta)
                return [ev.TextDelta(delta, id)]
            case ev.ToolInputEnd(id) if id in self._open:
                end = ev.TextEnd(id, event.incomplete)
                # A tool without input may come without any delta, but the text of an answer is JSON.
                empty = not self._open[id] and not event.incomplete
                return [ev.TextDelta("{}", id), end] if empty else [end]
            case ev.ToolCall(name, _, id) if id in self._open:
                self._answered = True
                return []
            case ev.ToolCall():
                # A call that the vendor runs needs no further step.
                self._other_calls = self._other_calls or not event.provider_executed
            case ev.Finish("tool-calls") if self._answered and not self._other_calls:
                return [msgspec.structs.replace(event, finish_reason="stop")]
        return [event]


_DESCRIPTION: Final = "Give the answer, as the input of this tool."


class RequestInMode(NamedTuple):
    """A request with its mode, and the tool whose input is the answer."""

    request: Request
    tool: str | None = None

    def reading(self, decoder: Decoder) -> Decoder:
        """Returns the decoder of the response, whose answer is text in every mode."""
        return decoder if self.tool is None else OutputToolDecoder(decoder, self.tool)


def in_mode(request: Request, able: Sequence[OutputAbility]) -> RequestInMode:
    """Returns the request in the mode that its response format names, or in the vendor's best.

    A schema without a mode goes to the vendor unchanged, if the model has any mode for
    JSON; if it has none (older Claudes, those of Vertex), it is requested as with "auto".

    able: how the dialect can enforce JSON in this request, best first
    """
    wanted = request.response_format
    if wanted is None or wanted.schema is None:
        return RequestInMode(request)
    mode = wanted.mode
    # The caller's own schema goes out unchanged where the vendor has any mode for it.
    if mode is None and ("json_schema" in able or "json_object" in able):
        return RequestInMode(request)
    if mode is None or mode == "auto":
        # JSON mode alone does not enforce a schema; a prompt with it does as much.
        mode = next((a for a in able if a != "json_object"), "prompt")
    if mode == "tool":
        return _by_tool(request, wanted)
    if mode == "prompt":
        return RequestInMode(_by_prompt(request, wanted.schema, knows_json="json_object" in able))
    return RequestInMode(msgspec.structs.replace(request, response_format=_without_mode(wanted)))


def _by_tool(request: Request, wanted: ResponseFormat) -> RequestInMode:
    taken = {tool.name for tool in request.tools}
    # A tool of the caller may have the name of the type.
    name = wanted.name
    while name in taken:
        name += "_answer"
    tool = ToolSpec(name, wanted.description or _DESCRIPTION, wanted.schema or {})
    # With other tools the model may call those first; without others, this tool is the only way to answer.
    changed = msgspec.structs.replace(
        request,
        tools=(*request.tools, tool),
        tool_choice="required" if request.tools else NamedTool(name),
        response_format=None,
    )
    return RequestInMode(changed, name)


def _by_prompt(request: Request, schema: dict[str, object], *, knows_json: bool) -> Request:
    instruction = (
        "Answer with a JSON object and nothing else: no prose, no code fence. "
        f"It has to fit this JSON schema: {msgspec.json.encode(schema).decode()}"
    )
    return msgspec.structs.replace(
        request,
        # First: instructions of the caller may refine it.
        messages=(Message.system(instruction), *request.messages),
        response_format=ResponseFormat() if knows_json else None,
    )


def _without_mode(wanted: ResponseFormat) -> ResponseFormat:
    return msgspec.structs.replace(wanted, mode=None)
