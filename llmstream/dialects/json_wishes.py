"""How an answer in JSON is wished for in words: where there is no field, or it is not enough.

A vendor that answers in JSON of any shape wants to read the word in the conversation as well. OpenAI
and those like it refuse the request without; with others the model may write white space for ever.
source: "JSON mode" in the documents of OpenAI, DeepSeek, Cohere and Ollama
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from llmstream.chats.content import Text
from llmstream.chats.message import Message
from llmstream.request import ResponseFormat

__all__ = ["ANSWER_IN_JSON", "described_schema", "in_words", "says_json"]

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
