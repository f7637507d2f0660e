"""What makes two requests the same: a digest of everything that is asked, of whom, and for whom."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import msgspec

from llmstream.chats.message import Message
from llmstream.chats.saved import message_to_json
from llmstream.errors import LLMStreamError
from llmstream.request import Request
from llmstream.streams.call import unmarked
from llmstream.streams.model import Model

__all__ = ["cache_key"]

_VERSION = 2
"""Raised when the same request gets another key."""


def cache_key(model: Model, request: Request) -> str:
    """A SHA-256, as hexadecimal digits, of provider, address, account, model and the whole request.

    The account is the API key, all headers, and the variables of the environment that send one or say who
    pays: vendors keep state by them, and who has another key may be somebody else. They go into the
    digest only. A key that a function gives does not count: it changes, for the same account.

    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot hold
    """
    asked: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in Request.__struct_fields__
        if name not in ("messages", "headers")
    }
    asked["messages"] = [_said(message) for message in request.messages]
    whom = [_VERSION, model.provider.name, _address(model, request), _account(model, request)]
    return hashlib.sha256(msgspec.json.encode([*whom, asked], order="deterministic")).hexdigest()


def _said(message: Message) -> Any:
    """The message without the ids of the answer it was: the same answer, asked for anew, has others."""
    bare = msgspec.structs.replace(message, metadata=unmarked(message.metadata))
    return msgspec.json.decode(message_to_json(bare))


def _address(model: Model, request: Request) -> str:
    """Where the request goes, with region and project; as far as it is known before it is sent."""
    provider = model.provider
    address = model.base_url or ""
    try:
        address = provider.address(model.base_url)
        asked = Request(
            model=request.model, messages=(Message.user("."),), provider_options=request.provider_options
        )  # of which the path is: no need to write all that was said
        http = provider.dialect.encode(asked, provider=provider.name).http
        return provider.route(address, http, request.model, os.environ).url
    except LLMStreamError:
        return address  # the call itself says what is wrong


def _account(model: Model, request: Request) -> dict[str, Any]:
    """For whom it is asked."""
    provider, key = model.provider, model._api_key
    headers = {name: os.environ.get(variable) for name, variable in provider.header_env.items()}
    headers |= {name.lower(): value for name, value in {**model._headers, **request.headers}.items()}
    if key is None:
        key = next((found for name in provider.key_env if (found := os.environ.get(name))), None)
    variables = {name: os.environ.get(name) for name in provider.account_env}
    return {"key": key if isinstance(key, str) else None, "headers": headers, "variables": variables}
