"""Fields of the vendor's own that a caller adds to a request."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Self

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.events import OtherWarning, Warning
from llmstream.request import Request, ResponseFormat

__all__ = [
    "ANSWER_IN_JSON",
    "RequestWarnings",
    "described_schema",
    "in_words",
    "merged",
    "options_of",
    "says_json",
]


def options_of(request: Request, key: str, provider: str) -> dict[str, Any]:
    """`provider_options` for a dialect's key, with those for the provider by its own name on top."""
    ours = dict(request.provider_options.get(key, {}))
    return ours if provider == key else merged(ours, request.provider_options.get(provider, {}))


def merged(base: dict[str, Any], over: dict[str, Any]) -> dict[str, Any]:
    """Both, objects field by field; what is in `over` wins."""
    out = dict(base)
    for key, value in over.items():
        known = out.get(key)
        out[key] = merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return out


# The warnings of one request, in which each is found at once.


class RequestWarnings(list[Warning]):
    """A list that knows which texts are in it: a long history may give a warning for each of its calls.

    It grows by `append`, `extend` and `+=` only.
    """

    def __init__(self) -> None:
        super().__init__()
        self._texts: set[str] = set()

    def append(self, warning: Warning) -> None:
        """One more."""
        super().append(warning)
        if isinstance(warning, OtherWarning):
            self._texts.add(warning.message)

    def extend(self, warnings: Iterable[Warning]) -> None:
        """Several more."""
        for warning in warnings:
            self.append(warning)

    def __iadd__(self, warnings: Iterable[Warning]) -> Self:  # type: ignore[override,misc]  # as extend
        self.extend(warnings)
        return self

    def __contains__(self, warning: object) -> bool:
        if isinstance(warning, OtherWarning):
            return warning.message in self._texts
        return super().__contains__(warning)


# How an answer in JSON is wished for in words: where there is no field, or it is not enough.
#
# A vendor that answers in JSON of any shape wants to read the word in the conversation as well. OpenAI
# and those like it refuse the request without; with others the model may write white space for ever.
# source: "JSON mode" in the documents of OpenAI, DeepSeek, Cohere and Ollama

ANSWER_IN_JSON: Final = "Answer with a JSON object and nothing else."


def says_json(messages: Iterable[Message]) -> bool:
    """Whether the conversation has the word."""
    return any(
        "json" in part.text.lower()
        for message in messages
        for part in message.parts
        if isinstance(part, Text)
    )


def in_words(wanted: ResponseFormat) -> str:
    """The whole wish as an instruction."""
    if wanted.schema is None:
        return ANSWER_IN_JSON
    schema = msgspec.json.encode(described_schema(wanted)).decode()
    return f"{ANSWER_IN_JSON} It has to fit this JSON schema: {schema}"


def described_schema(wanted: ResponseFormat) -> dict[str, Any]:
    """The schema with the description of the format in it, for wires that have no other place."""
    schema = wanted.schema or {}
    if not wanted.description:
        return schema
    own = schema.get("description")
    words = f"{wanted.description} {own}" if isinstance(own, str) and own else wanted.description
    return {**schema, "description": words}
