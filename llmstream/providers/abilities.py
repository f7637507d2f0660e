"""What a provider can do, found by encoding requests with its dialect.

Each small request has one feature more than a plain one. A feature is missing where the request is
refused, or comes back with a warning that the plain one does not have. Nothing is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal

import msgspec

from llmstream.chats.content import Audio, Document, Image
from llmstream.chats.message import Message
from llmstream.errors import CallerError
from llmstream.events import Warning
from llmstream.providers.base import Provider
from llmstream.request import (
    NamedTool,
    ReasoningOptions,
    Request,
    ResponseFormat,
    Settings,
    ToolChoice,
    ToolSpec,
)

__all__ = ["Abilities", "Way", "abilities"]

Way = Literal["bytes", "url"]
"""How a file may be given."""


class Abilities(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Features of requests to a provider; a single model of the vendor may support fewer.

    tools:        the caller's functions
    forced_call:  any tool must be called, if need be without thinking
    named_call:   a named tool must be called
    single_call:  tools are called one at a time
    strict_tools: the input of a call fits its schema
    json_schema:  the answer fits a JSON schema
    json_object:  the answer is JSON
    reasoning:    thinking is set by an effort or a budget, or at least switched on and off
    images:       how images may be given; () is not at all
    documents:    how PDFs may be given
    audio:        how audio may be given
    usage:        tokens are counted in the stream
    """

    tools: bool
    forced_call: bool
    named_call: bool
    single_call: bool
    strict_tools: bool
    json_schema: bool
    json_object: bool
    reasoning: bool
    images: tuple[Way, ...]
    documents: tuple[Way, ...]
    audio: tuple[Way, ...]
    usage: bool


# A capable model for each dialect that decides by the model's name.
_MODELS: Final = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock-converse": "anthropic.claude-sonnet-4-5-20250929-v1:0",
    "gemini": "gemini-3-pro-preview",
    "gemini-interactions": "gemini-3-pro-preview",
}

_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"a": {"type": "string"}},
    "required": ["a"],
    "additionalProperties": False,
}
_TOOL: Final = ToolSpec("look", "Looks.", dict(_SCHEMA))
_STRICT: Final = msgspec.structs.replace(_TOOL, strict=True)
_ANY_TOOL: Final[dict[str, Any]] = {"tools": (_TOOL,)}
_STRICT_TOOL: Final[dict[str, Any]] = {"tools": (_STRICT,)}
_NO_THINKING: Final = ReasoningOptions(effort="none")
_THINKING: Final[tuple[dict[str, Any], ...]] = (
    {"reasoning": ReasoningOptions(effort="high")},
    {"reasoning": ReasoningOptions(budget_tokens=4096)},
    {"reasoning": _NO_THINKING},
)
# The signature alone: a dialect looks at the type of a file, and nothing is sent.
_PNG: Final = b"\x89PNG\r\n\x1a\n"
_FILES: Final[Mapping[str, tuple[type[Image] | type[Document] | type[Audio], str, bytes]]] = {
    "a.png": (Image, "image/png", _PNG),
    "a.pdf": (Document, "application/pdf", b"%PDF-1.7\n%%EOF"),
    "a.wav": (Audio, "audio/wav", b"RIFF\x04\x00\x00\x00WAVE"),
}


def abilities(provider: Provider) -> Abilities:
    """What a provider can do."""
    probe = _Probe(provider)
    tools = probe.takes(tools=(_TOOL,))
    output = provider.dialect.output_abilities(probe.request(response_format=ResponseFormat(dict(_SCHEMA))))
    return Abilities(
        tools=tools,
        forced_call=tools and probe.forces("required"),
        named_call=tools and probe.forces(NamedTool(_TOOL.name)),
        single_call=tools and probe.takes(tools=(_TOOL,), settings=Settings(parallel_tool_calls=False)),
        # Without a warning, but also with another body: a dialect may drop the flag without a warning.
        strict_tools=tools and probe.takes(tools=(_STRICT,)) and probe.differ(_STRICT_TOOL, _ANY_TOOL),
        json_schema="json_schema" in output,
        json_object="json_object" in output,
        # As above.
        reasoning=any(probe.takes(**fields) and probe.differ(fields, {}) for fields in _THINKING),
        images=probe.ways("a.png"),
        documents=probe.ways("a.pdf"),
        audio=probe.ways("a.wav"),
        usage=probe.counts(),
    )


class _Probe:
    """Encodes requests for one provider and reads the warnings."""

    def __init__(self, provider: Provider) -> None:
        self._provider = provider
        # Warnings that a provider gives for every request do not concern a feature.
        self._plain = self._warnings(self.request()) or []

    def request(self, *parts: Image | Document | Audio, **asked: Any) -> Request:
        """A plain request with further parts and fields."""
        model = _MODELS.get(self._provider.dialect.name, "m")
        return Request(model=model, messages=(Message.user("Hi.", *parts),), **asked)

    def takes(self, *parts: Image | Document | Audio, **asked: Any) -> bool:
        """Whether a request is encoded without a warning."""
        warnings = self._warnings(self.request(*parts, **asked))
        return warnings is not None and all(warning in self._plain for warning in warnings)

    def forces(self, choice: ToolChoice) -> bool:
        """Whether a choice of tools is supported; with some vendors only without thinking."""
        asked: dict[str, Any] = {**_ANY_TOOL, "tool_choice": choice}
        return self.takes(**asked) or self.takes(**asked, reasoning=_NO_THINKING)

    def differ(self, one: dict[str, Any], other: dict[str, Any]) -> bool:
        """Whether these fields change the body of the request."""
        dialect, name = self._provider.dialect, self._provider.name
        bodies = {dialect.encode(self.request(**fields), provider=name).http.body for fields in (one, other)}
        return len(bodies) > 1

    def ways(self, file: str) -> tuple[Way, ...]:
        """How a file may be given."""
        kind, media_type, data = _FILES[file]
        attached = kind(data=data, media_type=media_type)
        linked = kind(url=f"https://example.com/{file}", media_type=media_type)
        ways: list[Way] = []
        if self.takes(attached):
            ways.append("bytes")
        if self._provider.dialect.accepts_url(linked) and self.takes(linked):
            ways.append("url")
        return tuple(ways)

    def counts(self) -> bool:
        """Whether tokens are counted in the stream; a dialect that has no such option always counts."""
        return self._provider.dialect.counts_usage

    def _warnings(self, request: Request) -> list[Warning] | None:
        """The warnings of a request; None where it was refused."""
        try:
            return self._provider.dialect.encode(request, provider=self._provider.name).warnings
        except CallerError:
            return None
