"""From what a caller passes to a vendor-neutral `Request`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, TypedDict, cast

import msgspec

from llmstream.chats.chat import Chat
from llmstream.chats.copying import copy_messages
from llmstream.chats.message import Message
from llmstream.errors import InvalidRequest
from llmstream.request import (
    NamedTool,
    ProviderTool,
    Reasoning,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)
from llmstream.streams.observations import Observe
from llmstream.streams.option_checks import check_messages, check_options, check_schema
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.retry import Retry

if TYPE_CHECKING:
    from llmstream.tools import AnyTool

__all__ = ["Options", "Prompt", "as_messages", "make_request"]

Prompt: TypeAlias = str | Message | Iterable[Message] | Chat


class Options(TypedDict, total=False):
    """The options of `stream`, `Model.stream` and `Model.events`. None is as if not given.

    tools:            `@tool` objects, plain typed functions, `ToolSpec`s or `ProviderTool`s
    tool_choice:      "auto", "none", "required" or the name of a tool
    system:           a system prompt, put before the conversation
    settings:         a `Settings`; its fields may be given by themselves as well
    response_format:  "json", a JSON schema, a `ResponseFormat`, a type, or a `Structured`
    reasoning:        an effort such as "low", a budget in tokens, or a `Reasoning`
    provider_options: fields for the vendor's own body, keyed by provider
    resume:           have the answer kept, where the vendor can (OpenAI's Responses, in the background),
                      and read it on after a break; elsewhere a warning says that it is not
    adapt:            send a request once more without a setting that the model refuses, where that is a hint:
                      effort, sampling, display, parallel calls, strict; True unless False is given
    observe:          called as that of the model, which it does not replace
    errors:           "raise" after finish (the default), or "events": end quietly
    """

    tools: Iterable[AnyTool] | None
    tool_choice: str | NamedTool | None
    system: str | None
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
    response_format: Any
    reasoning: Reasoning | str | int | None
    provider_options: Mapping[str, Mapping[str, Any]] | None
    headers: Mapping[str, str] | None
    include_raw: bool
    retry: Retry | None
    deadlines: Deadlines | None
    resume: bool
    adapt: bool
    observe: Observe
    errors: Literal["raise", "events"]


_SETTINGS: Final = frozenset(Settings.__struct_fields__)
_DEFAULTS: Final = Settings()
_NAMES: Final = frozenset(Options.__annotations__)
_EFFORTS: Final = ("none", "minimal", "low", "medium", "high", "xhigh", "max")


def as_messages(prompt: Prompt) -> list[Message]:
    """The conversation that a prompt stands for, copied.

    raises: InvalidRequest where it is none
    """
    match prompt:
        case str():
            return [Message.user(prompt)]
        case Message():
            messages = [prompt]
        case Chat():
            messages = prompt.messages()
        case _:
            messages = list(prompt) if isinstance(prompt, Iterable) else [prompt]
    check_messages(messages)
    return copy_messages(messages)


def make_request(
    model: str, messages: Iterable[Message], options: Options, *, answered: bool = False
) -> Request:
    """The request that the options describe.

    answered: it is for the decoding of an answer that is there already, so the prompt may be missing
    raises: InvalidRequest for an option that does not exist or cannot mean anything
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if not options.keys() <= _NAMES:
        raise InvalidRequest(
            f"unknown option {min(options.keys() - _NAMES)!r}. Options: {', '.join(sorted(_NAMES))}. "
            "What only one vendor knows goes into provider_options."
        )
    system = given.pop("system", None)
    conversation = ((Message.system(system),) if system else ()) + tuple(messages)
    asked = _asked(given) if given else {}
    if not conversation and not answered:
        raise InvalidRequest("the prompt is empty: pass at least one message")
    return Request(model=model, messages=conversation, **asked)


def _asked(given: dict[str, Any]) -> dict[str, Any]:
    """The fields of a request that the options give; what is not for the wire is checked only."""
    check_options(given)
    tools = _tool_specs(given.get("tools") or ())
    return {
        "tools": tools,
        "tool_choice": _tool_choice(given.get("tool_choice"), tools),
        "settings": _settings(given),
        "response_format": _response_format(given.get("response_format")),
        "reasoning": _reasoning(given.get("reasoning")),
        "provider_options": {k: dict(v) for k, v in given.get("provider_options", {}).items()},
        "headers": dict(given.get("headers", ())),
        "include_raw": bool(given.get("include_raw")),
    }


def _tool_specs(tools: Iterable[AnyTool]) -> tuple[ToolSpec | ProviderTool, ...]:
    if not tools:
        return ()
    from llmstream.tools import tool_specs  # loaded by those who use tools

    return tool_specs(tools)


def _settings(given: dict[str, Any]) -> Settings:
    base = given.get("settings") or _DEFAULTS
    fields = {name: given[name] for name in sorted(_SETTINGS & given.keys())}
    if base is _DEFAULTS and not fields:
        return base
    if "stop" in fields:
        stop = fields["stop"]
        fields["stop"] = (stop,) if isinstance(stop, str) else _listed(stop)
    try:
        if isinstance(base, Settings):
            base = {name: getattr(base, name) for name in Settings.__struct_fields__}
        settings = msgspec.convert({**base, **fields}, Settings)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidRequest(f"settings: {error}") from None
    for name in Settings.__struct_fields__:
        if isinstance(value := getattr(settings, name), float) and not math.isfinite(value):
            raise InvalidRequest(f"settings: {name} is {value}, which is no number")
    return settings


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
    raise InvalidRequest(
        f'tool_choice {value!r} is neither "auto", "none" nor "required", nor the name of a tool given'
    )


def _reasoning(value: Reasoning | str | int | None) -> Reasoning | None:
    match value:
        case None | Reasoning():
            return value
        case bool():
            return Reasoning(effort="medium" if value else "none")
        case int():
            return Reasoning(budget_tokens=value)
        case str() if value in _EFFORTS:
            return msgspec.convert({"effort": value}, Reasoning)
        case _:
            raise InvalidRequest(
                f"reasoning is one of {', '.join(_EFFORTS)}, or a number of tokens; got {value!r}"
            )


def _response_format(value: Any) -> ResponseFormat | None:
    if value is None or isinstance(value, ResponseFormat):
        return value
    if value == "json":
        return ResponseFormat()
    if isinstance(value, Mapping):
        check_schema(value)
        return ResponseFormat(schema=dict(value))
    from llmstream.structured.output import as_structured  # loaded by those who ask for a type

    typed = as_structured(value)
    return None if typed is None else typed.format
