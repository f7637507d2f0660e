"""A request to a model, independent of any vendor."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import msgspec

from llmstream.chats.message import Message
from llmstream.exchange import redact_headers

__all__ = [
    "Effort",
    "NamedTool",
    "ProviderTool",
    "ReasoningOptions",
    "Request",
    "ResponseFormat",
    "Settings",
    "ToolChoice",
    "ToolSpec",
]


# Unknown names are refused: a misspelt setting would be silently ignored.
class Settings(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How to sample and when to stop. None leaves the choice to the vendor.

    temperature:       how freely to sample; ranges differ by vendor
    top_p:             sample from the most likely tokens of this total probability
    top_k:             sample from this many most likely tokens
    max_output_tokens: the longest response, in tokens, usually including reasoning
    stop:              texts that end the response; they are not part of it
    seed:              sample reproducibly, as far as the vendor can
    presence_penalty:  lower the probability of tokens that have occurred
    frequency_penalty: the same, more for tokens that have occurred often
    parallel_tool_calls: whether a response may have several tool calls
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    parallel_tool_calls: bool | None = None


Effort: TypeAlias = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class ReasoningOptions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How much the model may think. Give an effort or a budget; a dialect maps what it can.

    effort:        "none" switches reasoning off where the vendor allows it
    budget_tokens: cap of the tokens spent on reasoning
    """

    effort: Effort | None = None
    budget_tokens: int | None = None


class ResponseFormat(msgspec.Struct, frozen=True, omit_defaults=True):
    """Ask for JSON: any object, or one that fits a JSON schema.

    mode: None lets the dialect decide how to request a schema, if the model has any JSON mode; otherwise it
    is requested by the vendor's own mode, by a tool whose input is the answer, in the prompt, or ("auto") by
    the vendor's best method
    """

    schema: dict[str, Any] | None = None
    name: str = "response"
    description: str | None = None
    strict: bool = True
    mode: Literal["auto", "json_schema", "tool", "prompt"] | None = None


class ToolSpec(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool as the model sees it. `input_schema` is a JSON schema of an object."""

    name: str
    description: str = ""
    input_schema: dict[str, Any] = msgspec.field(default_factory=dict)
    strict: bool | None = None


class ProviderTool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A tool that the vendor runs itself. `options` goes to the wire as it is."""

    type: str
    name: str = ""
    options: dict[str, Any] = msgspec.field(default_factory=dict)


class NamedTool(msgspec.Struct, frozen=True):
    """The model has to call this tool."""

    name: str


ToolChoice: TypeAlias = Literal["auto", "none", "required"] | NamedTool


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One request to one model.

    model:            the vendor's name of the model
    messages:         the conversation; system messages may be anywhere
    provider_options: fields for the vendor's own body, keyed by provider; they override ours
    headers:          more HTTP headers
    """

    model: str
    messages: tuple[Message, ...] = ()
    tools: tuple[ToolSpec | ProviderTool, ...] = ()
    tool_choice: ToolChoice | None = None
    settings: Settings = Settings()
    response_format: ResponseFormat | None = None
    reasoning: ReasoningOptions | None = None
    provider_options: dict[str, dict[str, Any]] = msgspec.field(default_factory=dict)
    headers: dict[str, str] = msgspec.field(default_factory=dict)
    include_raw: bool = False

    def __repr__(self) -> str:
        return (
            f"Request(model={self.model!r}, {len(self.messages)} messages, {len(self.tools)} tools, "
            f"headers={redact_headers(self.headers)})"
        )
