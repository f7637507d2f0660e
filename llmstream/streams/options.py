"""Converts the caller's prompt and options to a vendor-neutral `Request`."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast, get_args

import msgspec

from llmstream.chats.content import Audio, Document, Image, Text
from llmstream.chats.message import Message, Role, copy_messages
from llmstream.errors import InvalidRequest
from llmstream.first_use import prepared
from llmstream.other_sdks import hint_for, listed
from llmstream.request import (
    Effort,
    NamedTool,
    ProviderTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.streams.attempts import Retry
from llmstream.streams.reading import is_stream
from llmstream.transport.deadlines import Deadlines

if TYPE_CHECKING:
    from llmstream.chats.chat import Chat
    from llmstream.streams.observations import Observe
    from llmstream.tools import AnyTool, ToolSet

__all__ = [
    "CallOptions",
    "ChatOptions",
    "CommonOptions",
    "ModelOptions",
    "Options",
    "Prompt",
    "StreamOptions",
    "Transport",
    "as_messages",
    "asked_settings",
    "check_messages",
    "check_options",
    "checked_chat",
    "checked_defaults",
    "given_prompt",
    "make_request",
    "tool_set",
    "with_defaults",
    "with_output",
    "with_system",
]

Transport: TypeAlias = Literal["http", "websocket"]
"""The transport of requests."""

Prompt: TypeAlias = "str | Message | Iterable[Message | Mapping[str, Any]] | Chat"
"""The prompt of a request. Mappings are messages of OpenAI's Chat Completions; see `chats.from_openai`."""


class CommonOptions(TypedDict, total=False):
    """The options that a `Model`, a stream and an `Agent` all take. None means not given.

    tools:             `@tool` objects, plain typed functions, `ToolSpec`s or `ProviderTool`s. Default: none
    tool_choice:       "auto", "none", "required" or the name of a tool. Default: the vendor's, usually "auto"
    settings:          a `Settings`; its fields may also be passed as options. Default: none
    temperature:       how freely to sample; ranges differ by vendor. Default: the vendor's
    top_p:             sample from the most likely tokens of this total probability. Default: the vendor's
    top_k:             sample from this many most likely tokens. Default: the vendor's
    max_output_tokens: the longest response, in tokens, usually including reasoning. Default: the vendor's, or
                       32,000 where the vendor requires a number
    stop:              texts that end the response; they are not part of it. Default: none
    seed:              sample reproducibly, as far as the vendor can. Default: none
    presence_penalty:  lower the probability of tokens that have occurred. Default: the vendor's
    frequency_penalty: the same, more for tokens that have occurred often. Default: the vendor's
    parallel_tool_calls: whether a response may have several tool calls. Default: the vendor's
    reasoning:         an effort such as "low", a budget in tokens, or a `ReasoningOptions`. Default: the
                       vendor's
    provider_options:  fields for the vendor's own body, keyed by provider. Default: none
    include_raw:       also yield each wire event, parsed, as `Raw`. Default: False
    background:        have the vendor store the answer if it can (OpenAI's Responses, in the background),
                       and resume it after a break; else there is a warning. Default: False
    adapt:             repeat a request without a setting that the model refuses, if that is only a hint:
                       effort, sampling, display, parallel calls, strict. Default: True
    errors:            "raise" after `finish`, or "events": only report them as events. Default: "raise"
    """

    tools: Iterable[AnyTool] | None
    tool_choice: str | NamedTool | None
    settings: Settings | Mapping[str, Any] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    max_output_tokens: int | None
    stop: str | Iterable[str] | None
    seed: int | None
    presence_penalty: float | None
    frequency_penalty: float | None
    parallel_tool_calls: bool | None
    reasoning: ReasoningOptions | str | int | None
    provider_options: Mapping[str, Mapping[str, Any]] | None
    include_raw: bool
    background: bool
    adapt: bool
    errors: Literal["raise", "events"]


class ModelOptions(CommonOptions, total=False):
    """The options that a `Model` may have as defaults, except `output`.

    instructions: the system prompt, added to a conversation that does not begin with it. Default: none
    """

    instructions: str | None


class CallOptions(CommonOptions, total=False):
    """The options of one call, of a model or of an agent.

    headers:   for this request, in addition to the model's. Default: none
    retry:     how often to repeat a refused request. Default: the model's, else `Retry()`
    deadlines: timeouts; for an agent, `total_s` is the time of the complete run. Default: the model's, else
               `Deadlines()`
    refresh:   have a `cache` around the model send the request, and store the new answer. Default: False
    """

    headers: Mapping[str, str] | None
    retry: Retry | None
    deadlines: Deadlines | None
    refresh: bool


class StreamOptions(ModelOptions, CallOptions, total=False):
    """The options of `stream`, `Model.stream`, `Model.ask` and `Model.events`, except `output` and `chat`.

    observe: an observer in addition to the model's. Default: none
    """

    observe: Observe


class ChatOptions(StreamOptions, total=False):
    """The options of `stream`, `Model.stream` and `Model.ask`, except `output`.

    chat: a `Chat` that the prompt goes on with: its messages are sent before the prompt, and it gets the
          prompt, the answer and the results of tools as they come. Default: none
    """

    chat: Chat | None


class Options(StreamOptions, total=False):
    """All options of a call, as a mapping.

    output: the form of the answer: a type, a JSON schema, "json", or an `Output`. In functions it is a
            separate parameter, because their return type depends on it. Default: none
    """

    output: Any


_SETTINGS: Final = frozenset(Settings.__struct_fields__)
_DEFAULTS: Final = Settings()
_NAMES: Final = frozenset(Options.__annotations__)
_LISTED: Final = 8

# The expected value of each option, for errors; the other options are numbers.
_KINDS: Final = {
    **dict.fromkeys(("max_output_tokens", "top_k", "seed"), "an integer"),
    "stop": "a str or a list of them",
    "parallel_tool_calls": "True or False",
}

_EFFORTS: Final = get_args(Effort)


def given_prompt(prompt: Prompt | None, options: Mapping[str, Any]) -> Prompt:
    """The prompt of a call, which type checkers require.

    raises: InvalidRequest without one; with a hint if the prompt was given as `messages=` or `input=`
    """
    if prompt is not None:
        return prompt
    unknown = min(options.keys() - _NAMES, default=None)
    raise _unknown(unknown) if unknown else InvalidRequest("the prompt is missing: stream(model, prompt)")


def as_messages(prompt: Prompt) -> list[Message]:
    """The messages of a prompt, copied.

    raises: InvalidRequest for an invalid prompt
    """
    given: list[Any]
    match prompt:
        case bytes() | bytearray():
            raise InvalidRequest("a prompt must be a str, got bytes. Decode it: prompt.decode()")
        case "":
            raise InvalidRequest("the prompt is empty: pass a text, or at least one message")
        case str():
            return [Message.user(prompt)]
        case Message() | Mapping():
            given = [prompt]
        case list() | tuple():
            given = list(prompt)
        case _:
            given = _listed_messages(prompt)
    messages = _read(given)
    check_messages(messages)
    return copy_messages(messages)


def _listed_messages(prompt: Any) -> list[Any]:
    """The messages of a chat or another iterable; a list with the value itself where it is none."""
    from llmstream.chats.chat import Chat  # imported only on use

    if isinstance(prompt, Chat):
        return prompt.messages()
    return list(prompt) if hasattr(prompt, "__iter__") and not is_stream(prompt) else [prompt]


def _read(given: list[Any]) -> list[Message]:
    """The same messages, with dicts read as messages in OpenAI's form."""
    if not any(isinstance(message, Mapping) for message in given):
        return given
    from llmstream.chats.openai_form import from_openai  # imported only for such messages

    found: list[Message] = []
    for is_dict, run in itertools.groupby(given, key=lambda message: isinstance(message, Mapping)):
        messages = list(run)
        found += from_openai(messages) if is_dict else messages
    return found


def with_system(text: str | None, messages: Iterable[Message]) -> list[Message]:
    """The conversation with a system prompt at its beginning, once.

    A conversation from `stream.messages()`, `run.messages()` or a recovered run already begins with the
    system prompt; a second copy would cost tokens and miss the vendor's cache.

    raises: InvalidRequest for anything but text
    """
    if text is None:
        return list(messages)
    if not isinstance(text, str):
        raise InvalidRequest(f"instructions must be a str, got {text!r}. Only an Agent accepts a function.")
    conversation = list(messages)
    head = itertools.takewhile(lambda message: message.role == Role.SYSTEM, conversation)
    if not text or any(message.parts == (Text(text),) for message in head):
        return conversation
    return [Message.system(text), *conversation]


def make_request(
    model: str,
    messages: Iterable[Message],
    options: Options,
    *,
    answered: bool = False,
    listed: Callable[[Iterable[Message]], tuple[Message, ...]] = tuple,
) -> Request:
    """The request for messages and options.

    answered: only used to decode an existing answer, so the prompt may be missing
    listed: makes the messages of the request from the conversation
    raises: InvalidRequest for an unknown or invalid option
    """
    given: dict[str, Any] = {}
    if options:  # most calls have none
        given = {name: value for name, value in options.items() if value is not None}
        if not options.keys() <= _NAMES:
            raise _unknown(min(options.keys() - _NAMES))
    asked = _asked(given) if given else {}
    instructions = given.get("instructions")
    conversation = listed(messages if instructions is None else with_system(instructions, messages))
    if not conversation and not answered:
        raise InvalidRequest("the prompt is empty: pass at least one message")
    return Request(model=model, messages=conversation, **asked)


def checked_defaults(model: str, options: Options) -> Options:
    """The default options of a model: settings by single names, tools wrapped.

    raises: InvalidRequest for an unknown or invalid option
    """
    given = {name: value for name, value in options.items() if value is not None}
    if not options:
        return options
    if "tools" in given:
        given["tools"] = tool_set(cast(Any, given["tools"])) or ()
    if "output" in given:
        from llmstream.structured import as_output  # loaded only for structured output

        given["output"] = as_output(given["output"])
    if "stop" in given:
        given["stop"] = given["stop"] if isinstance(given["stop"], str) else _listed(given["stop"])
    request = make_request(model, [Message.user("?")], cast(Options, {**options, **given}))
    given.pop("settings", None)
    for name in Settings.__struct_fields__:
        value = getattr(request.settings, name)
        if value != getattr(_DEFAULTS, name):
            given[name] = value
    return cast(Options, given)


def checked_chat(chat: object) -> Chat:
    """The value of the option `chat`.

    raises: InvalidRequest if it is no Chat
    """
    from llmstream.chats.chat import Chat  # imported only on use

    if not isinstance(chat, Chat):
        raise InvalidRequest(f"chat must be a Chat, such as llmstream.store's store.chat(name); got {chat!r}")
    return chat


def with_output(output: Any, options: CommonOptions) -> Options:
    """The options with `output`, which is a separate parameter of functions."""
    return cast(Options, options if output is None else {**options, "output": output})


def with_defaults(defaults: Options, given: Options) -> Options:
    """The options of a call, merged with its model's defaults; None means not given.

    An option of the call replaces the model's; `settings` replace only the fields that they set.
    """
    if not defaults:
        return given
    left = dict(defaults)
    settings = given.get("settings")
    for name in Settings.__struct_fields__ if settings is not None else ():
        chosen = settings.get(name) if isinstance(settings, Mapping) else getattr(settings, name, None)
        if chosen is not None and chosen != getattr(_DEFAULTS, name):
            left.pop(name, None)
    chosen_options = {k: v for k, v in given.items() if v is not None or k not in left}
    return cast(Options, {**left, **chosen_options})


def _unknown(name: str, what: str = "option", known: Collection[str] = _NAMES) -> InvalidRequest:
    hint = hint_for(name, known) or listed(known)
    return InvalidRequest(f"unknown {what} {name!r}. {hint}")


# Options that do not change the request: `map` passes one with each request.
_NOT_SENT: Final = frozenset({"deadlines", "errors", "refresh", "retry"})


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request from the options; options that are not sent are only checked."""
    check_options(given)
    if given.keys() <= _NOT_SENT:
        return {}
    tools = tool_set(given.get("tools"))
    specs = () if tools is None else tools.current().specs
    return {
        "tools": specs,
        "tool_choice": _tool_choice(given.get("tool_choice"), specs),
        "settings": _settings(given),
        "response_format": _response_format(given.get("output")),
        "reasoning": _reasoning(given.get("reasoning")),
        "provider_options": {k: dict(v) for k, v in given.get("provider_options", {}).items()},
        "headers": dict(given.get("headers", ())),
        "include_raw": bool(given.get("include_raw")),
    }


def asked_settings(options: Options) -> dict[str, Any]:
    """The settings that were chosen, in the form of JSON; others are the vendor's.

    options: checked
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    asked: dict[str, Any] = msgspec.to_builtins(_settings(given))
    if (reasoning := _reasoning(given.get("reasoning"))) is not None:
        asked["reasoning"] = msgspec.to_builtins(reasoning)
    if (choice := given.get("tool_choice")) is not None:
        asked["tool_choice"] = choice.name if isinstance(choice, NamedTool) else choice
    return asked


def tool_set(tools: Iterable[AnyTool] | None) -> ToolSet | None:
    """The tools of an option; None if there are none.

    raises: InvalidRequest if one is not a tool, or two have the same name
    """
    if tools is None or (type(tools) in (list, tuple) and not tools):
        return None
    from llmstream.tools import ToolSet  # loaded only for tools

    return ToolSet.of(tools)


def _settings(given: dict[str, Any]) -> Settings:
    base = given.get("settings") or _DEFAULTS
    fields = {name: given[name] for name in sorted(_SETTINGS & given.keys())}
    if base is _DEFAULTS and not fields:
        return base
    if "stop" in fields:
        stop = fields["stop"]
        fields["stop"] = (stop,) if isinstance(stop, str) else _listed(stop)
    if isinstance(base, Settings):
        base = {name: getattr(base, name) for name in Settings.__struct_fields__}
    elif not isinstance(base, Mapping):
        raise InvalidRequest(f"settings must be Settings or a dict of them, got {base!r}")
    elif not base.keys() <= _SETTINGS:
        raise _unknown(min(map(str, base.keys() - _SETTINGS)), "setting", _SETTINGS)
    fields = {**base, **fields}
    try:
        settings = msgspec.convert(fields, prepared(Settings))
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidRequest(_setting_error(error, fields)) from None
    for name in Settings.__struct_fields__:
        if isinstance(value := getattr(settings, name), float) and not math.isfinite(value):
            raise InvalidRequest(f"settings: {name} must be a finite number, got {value}")
    return settings


def _setting_error(error: Exception, given: Mapping[str, Any]) -> str:
    """The error of an option, phrased for the caller: "temperature must be a number, got '0.2'"."""
    name = str(error).partition(" - at `$.")[2].rstrip("`").partition("[")[0]
    if name not in given:
        return f"settings: {error}"
    return f"{name} must be {_KINDS.get(name, 'a number')}, got {given[name]!r}"


def _listed(value: object) -> object:
    return tuple(value) if isinstance(value, Iterable) else value


def _tool_choice(
    value: str | NamedTool | None, tools: tuple[ToolSpec | ProviderTool, ...]
) -> ToolChoice | None:
    if value is None or isinstance(value, NamedTool):
        return value
    if value in ("auto", "none", "required"):
        return cast(Literal["auto", "none", "required"], value)
    if any(tool.name == value for tool in tools):
        return NamedTool(value)
    names = ", ".join(repr(tool.name) for tool in tools[:_LISTED]) or "there are no tools"
    raise InvalidRequest(
        f'tool_choice must be "auto", "none", "required" or the name of a tool ({names}); got {value!r}.'
        f"{_choice_hint(value)}"
    )


def _choice_hint(choice: object) -> str:
    """The corrected value for a tool choice written in a vendor's format."""
    if isinstance(choice, Mapping):
        function = choice.get("function")
        name = choice.get("name") or (function.get("name") if isinstance(function, Mapping) else None)
        if isinstance(name, str):
            return f" Write tool_choice={name!r}."
        choice = choice.get("type") or choice.get("mode")
    is_any = isinstance(choice, str) and choice.lower() == "any"
    return ' Write "required" for a call of any tool.' if is_any else ""


def _reasoning(value: ReasoningOptions | str | int | None) -> ReasoningOptions | None:
    match value:
        case None | ReasoningOptions():
            return value
        case bool():
            return ReasoningOptions(effort="medium" if value else "none")
        case int():
            return ReasoningOptions(budget_tokens=value)
        case str() if value in _EFFORTS:
            return msgspec.convert({"effort": value}, prepared(ReasoningOptions))
        case _:
            raise InvalidRequest(
                f"reasoning must be one of {', '.join(_EFFORTS)}, or a number of tokens; got {value!r}"
            )


def _response_format(output: Any) -> ResponseFormat | None:
    if output is None:
        return None
    from llmstream.structured import Output  # imported only for structured output

    return (output if isinstance(output, Output) else Output(output)).format


def check_messages(messages: Iterable[object]) -> None:
    """Whether they are messages, made of parts.

    raises: InvalidRequest
    """
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidRequest(
                "a prompt must be a str, a Message, a list of Messages or a Chat; "
                f"got {type(message).__name__} in it. Write Message.user(text), or "
                'a dict {"role": "user", "content": text}.'
            )
        for part in message.parts:
            _check_part(part)


def _check_part(part: object) -> None:
    name = type(part).__name__
    if not isinstance(part, msgspec.Struct) and not hasattr(part, "part_kind"):
        raise InvalidRequest(f"a message consists of parts such as Text or Image; got {name} in it")
    if isinstance(part, Image | Audio | Document):
        if not isinstance(part.url, str) or not isinstance(part.data, bytes | bytearray | memoryview):
            raise InvalidRequest(f"{name}: url must be a str, data bytes. For a file: data=path.read_bytes()")
        if not part.url and not part.data and not part.metadata:
            raise InvalidRequest(f"{name}: pass data or a url")


def _check_one_answer(fields: Mapping[str, Any]) -> None:
    """Refuses a request for several answers, because only the first would be read.

    raises: InvalidRequest
    """
    config = fields.get("generationConfig")
    found = {**(config if isinstance(config, Mapping) else {}), **fields}
    for name in ("n", "candidateCount"):
        if isinstance(found.get(name), int) and found[name] > 1:
            raise InvalidRequest(
                f"{name}={found[name]} requests several answers, but a stream has only one. Leave it out and "
                "make several calls concurrently with asyncio.gather()."
            )


def check_options(given: Mapping[str, Any]) -> None:
    """Checks options that no type checks; None means not given.

    raises: InvalidRequest
    """
    # Creating a union of types costs more than a check, and this runs for each response with options.
    for name, kind in (("deadlines", Deadlines), ("retry", Retry)):
        if not isinstance(given.get(name), kind) and given.get(name) is not None:
            field = "max_retries" if kind is Retry else "total_s"
            raise InvalidRequest(
                f"{name} must be a {kind.__name__}, got {given[name]!r}. "
                f"Write {name}=ls.{kind.__name__}({field}=...)."
            )
    if given.get("errors") not in (None, "raise", "events"):
        raise InvalidRequest(f'errors must be "raise" or "events", got {given["errors"]!r}')
    if given.get("refresh") not in (None, True, False):
        raise InvalidRequest(f"refresh must be True or False, got {given['refresh']!r}")
    for name in ("provider_options", "headers"):
        if given.get(name) is not None and not isinstance(given[name], Mapping):
            raise InvalidRequest(f"{name} must be a mapping, got {type(given[name]).__name__}")
    for provider, fields in (given.get("provider_options") or {}).items():
        if not isinstance(fields, Mapping):
            raise InvalidRequest(
                f"provider_options must have a mapping for each provider: {{{provider!r}: {{...}}}}"
            )
        _check_one_answer(fields)
