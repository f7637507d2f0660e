"""What prompts and options cannot mean is said on the spot, not by whoever stumbles over it later."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, TypeAlias

import msgspec

from llmstream.chats.content import Audio, Document, Image
from llmstream.chats.message import Message
from llmstream.dialects.base import talks_over_sockets
from llmstream.errors import InvalidRequest, Unsupported
from llmstream.providers.base import Provider
from llmstream.transport.deadlines import Deadlines
from llmstream.transport.retry import Retry

__all__ = ["Transport", "check_messages", "check_options", "check_transport"]

Transport: TypeAlias = Literal["http", "websocket"]
"""How requests travel."""


def check_messages(messages: Iterable[object]) -> None:
    """Whether they are messages, made of parts.

    raises: InvalidRequest
    """
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidRequest(
                "a prompt is a str, a Message, a list of Messages or a Chat; "
                f"got {type(message).__name__} in it. Write Message.user(text), or "
                'a dict {"role": "user", "content": text}.'
            )
        for part in message.parts:
            _check_part(part)


def _check_part(part: object) -> None:
    name = type(part).__name__
    if not isinstance(part, msgspec.Struct) and not hasattr(part, "part_kind"):
        raise InvalidRequest(f"a message is made of parts such as Text or Image; got {name} in it")
    if isinstance(part, Image | Audio | Document):
        if not isinstance(part.url, str) or not isinstance(part.data, bytes | bytearray | memoryview):
            raise InvalidRequest(f"{name}: url is a str, data is bytes. Of a file: data=path.read_bytes()")
        if not part.url and not part.data and not part.metadata:
            raise InvalidRequest(f"{name}: neither data nor a url is given")


def _check_one_answer(fields: Mapping[str, Any]) -> None:
    """Refuses to ask for several answers: of what a vendor sends then, only the first would be read.

    raises: InvalidRequest
    """
    config = fields.get("generationConfig")
    found = {**(config if isinstance(config, Mapping) else {}), **fields}
    for name in ("n", "candidateCount"):
        if isinstance(found.get(name), int) and found[name] > 1:
            raise InvalidRequest(
                f"{name}={found[name]} asks for several answers, and a stream is one. Leave it out and make "
                "as many calls, side by side with asyncio.gather()."
            )


def check_options(given: Mapping[str, Any]) -> None:
    """Whether the options that no type of their own checks have the right form; None is as if not given.

    raises: InvalidRequest
    """
    for name, kind in (("deadlines", Deadlines), ("retry", Retry)):
        if not isinstance(given.get(name), kind | None):
            field = "max_retries" if kind is Retry else "total_s"
            raise InvalidRequest(
                f"{name} is a {kind.__name__}, got {given[name]!r}. "
                f"Write {name}=ls.{kind.__name__}({field}=...)."
            )
    if given.get("errors") not in (None, "raise", "events"):
        raise InvalidRequest(f'errors is "raise" or "events", got {given["errors"]!r}')
    for name in ("provider_options", "headers"):
        if not isinstance(given.get(name), Mapping | None):
            raise InvalidRequest(f"{name} is a mapping, got {type(given[name]).__name__}")
    for provider, fields in (given.get("provider_options") or {}).items():
        if not isinstance(fields, Mapping):
            raise InvalidRequest(
                f"provider_options holds a mapping for each provider: {{{provider!r}: {{...}}}}"
            )
        _check_one_answer(fields)


def check_transport(transport: str, provider: Provider) -> None:
    """Whether a provider's answers can travel so.

    raises: InvalidRequest, Unsupported
    """
    if transport not in ("http", "websocket"):
        raise InvalidRequest(f'transport is "http" or "websocket", got {transport!r}')
    if transport == "websocket" and not talks_over_sockets(provider.dialect):
        raise Unsupported(
            f'{provider.name} does not answer over WebSockets. Leave out transport="websocket", or take '
            "openai-responses, azure-responses or xai-responses.",
            provider=provider.name,
        )
