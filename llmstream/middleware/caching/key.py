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

__all__ = ["asked_for", "cache_key"]

# Raised when the same request gets another key.
_VERSION = 2


def cache_key(model: Model, request: Request, same: Request | str | None = None) -> str:
    """A SHA-256, as hexadecimal digits, of provider, address, account, model and the complete request.

    The account is the API key, all headers, and the environment variables that set headers or select who
    pays: vendors store state by account, and another key may belong to somebody else. Only their digest is
    used. A key returned by a function does not count, because it changes for the same account.

    same:   takes the place of the request's content, for a caller who knows what does not count
    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot represent
    """
    asked = same if isinstance(same, str) else asked_for(same or request)
    whom = [_VERSION, model.provider.name, _address(model, request), _account(model, request)]
    # Without the order, the same options in another order would be another request.
    return hashlib.sha256(msgspec.json.encode([*whom, asked], order="deterministic")).hexdigest()


def asked_for(request: Request) -> dict[str, Any]:
    """The content of a request as JSON values, without headers.

    raises: as `cache_key`
    """
    asked: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in Request.__struct_fields__
        if name not in ("messages", "headers")
    }
    asked["messages"] = [_content_only(message) for message in request.messages]
    return asked


def _content_only(message: Message) -> Any:
    """The message without the ids of the answer it was: the same answer, asked for anew, has others."""
    bare = msgspec.structs.replace(message, metadata=unmarked(message.metadata))
    return msgspec.json.decode(message_to_json(bare))


def _address(model: Model, request: Request) -> str:
    """Where the request goes, with region and project, as far as that is known before it is sent."""
    provider = model.provider
    address = model.base_url or ""
    try:
        address = provider.address(model.base_url)
        asked = Request(
            model=request.model, messages=(Message.user("."),), provider_options=request.provider_options
        )  # hashed, because the file name must not contain the conversation
        http = provider.dialect.encode(asked, provider=provider.name).http
        return provider.route(address, http, request.model, os.environ).url
    except LLMStreamError:
        return address  # the call itself reports the error


def _account(model: Model, request: Request) -> dict[str, Any]:
    """Identifies who pays."""
    provider, key = model.provider, model._api_key
    headers = {name: os.environ.get(variable) for name, variable in provider.header_env.items()}
    headers |= {name.lower(): value for name, value in {**model._headers, **request.headers}.items()}
    if key is None:
        # The key that the call itself would find.
        key = next((found for name in provider.key_env if (found := os.environ.get(name))), None)
    variables = {name: os.environ.get(name) for name in provider.account_env}
    return {"key": key if isinstance(key, str) else None, "headers": headers, "variables": variables}
