"""What makes two requests the same: a digest of everything that is asked, of whom, and of no secret."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from llmstream.chats.message import Message
from llmstream.chats.saved import message_to_json
from llmstream.errors import LLMStreamError
from llmstream.exchange import carries_secret
from llmstream.request import Request
from llmstream.streams.model import Model
from llmstream.streams.response import unmarked

__all__ = ["cache_key"]

_VERSION = 1
"""Raised when the same request gets another key."""


def cache_key(model: Model, request: Request) -> str:
    """A SHA-256, as hexadecimal digits, of provider, address, model and the whole request.

    Keys, and headers whose names say that they carry one, do not count.

    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot hold
    """
    asked: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in Request.__struct_fields__
        if name not in ("messages", "headers")
    }
    asked["messages"] = [_said(message) for message in request.messages]
    asked["headers"] = {k.lower(): v for k, v in request.headers.items() if not carries_secret(k)}
    whom = [_VERSION, model.provider.name, _address(model)]
    return hashlib.sha256(msgspec.json.encode([*whom, asked], order="deterministic")).hexdigest()


def _said(message: Message) -> Any:
    """The message without the ids of the answer it was: the same answer, asked for anew, has others."""
    bare = msgspec.structs.replace(message, metadata=unmarked(message.metadata))
    return msgspec.json.decode(message_to_json(bare))


def _address(model: Model) -> str:
    """Where the model is asked; "" where that is found out only then."""
    try:
        return model.provider.address(model.base_url)
    except LLMStreamError:
        return model.base_url or ""
