"""A cache of answers, by request."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import AsyncGenerator, MutableMapping
from pathlib import Path
from typing import Any, Final, Protocol, TypeAlias

import anyio.to_thread
import msgspec

from llmstream.chats.content import read_whole, write_whole
from llmstream.chats.message import Message
from llmstream.chats.saved import message_to_json
from llmstream.errors import LLMStreamError
from llmstream.events import Event, Finish, ResponseMetadata, decode, encode
from llmstream.grammar import check
from llmstream.middleware.wrapping import Ask, Middleware
from llmstream.request import Request
from llmstream.streams.call import unmarked
from llmstream.streams.model import Model

__all__ = ["cache", "cache_key"]


# What makes two requests the same: a digest of everything that is asked, of whom, and for whom.

# Raised when the same request gets another key.
_VERSION = 2


def cache_key(model: Model, request: Request) -> str:
    """A SHA-256, as hexadecimal digits, of provider, address, account, model and the complete request.

    The account is the API key, all headers, and the environment variables that set headers or select who
    pays: vendors store state by account, and another key may belong to somebody else. Only their digest is
    used. A key returned by a function does not count, because it changes for the same account.

    raises: InvalidRequest for messages, and TypeError for options, that JSON cannot represent
    """
    asked: dict[str, Any] = {
        name: msgspec.to_builtins(getattr(request, name))
        for name in Request.__struct_fields__
        if name not in ("messages", "headers")
    }
    asked["messages"] = [_content_only(message) for message in request.messages]
    whom = [_VERSION, model.provider.name, _address(model, request), _account(model, request)]
    return hashlib.sha256(msgspec.json.encode([*whom, asked], order="deterministic")).hexdigest()


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
        key = next((found for name in provider.key_env if (found := os.environ.get(name))), None)
    variables = {name: os.environ.get(name) for name in provider.account_env}
    return {"key": key if isinstance(key, str) else None, "headers": headers, "variables": variables}


# Where answers are stored: a folder with a file for each, or a mapping in memory.

Kept: TypeAlias = "str | os.PathLike[str] | MutableMapping[str, bytes]"
"""A folder, or a mapping from keys to the JSON lines of answers."""


class CacheStore(Protocol):
    """Stores answers, as bytes, by key."""

    async def get(self, key: str) -> bytes | None:
        """The stored answer, or None. A mapping of the caller's may raise anything."""
        ...

    async def put(self, key: str, data: bytes) -> None:
        """Stores an answer, replacing an earlier one. A mapping of the caller's may raise anything."""
        ...


def as_store(kept: Kept) -> CacheStore:
    """The store of the caller's argument."""
    return _Memory(kept) if isinstance(kept, MutableMapping) else _Folder(Path(kept))


class _Memory:
    def __init__(self, kept: MutableMapping[str, bytes]) -> None:
        self._kept = kept

    async def get(self, key: str) -> bytes | None:
        found: object = self._kept.get(key)
        if not isinstance(found, bytes | None):
            raise TypeError(f"the mapping holds {type(found).__name__}, not bytes")
        return found

    async def put(self, key: str, data: bytes) -> None:
        self._kept[key] = data


class _Folder:
    """One file `<key>.jsonl` per answer, written atomically, mode 0600; the folder has mode 0700."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def get(self, key: str) -> bytes | None:
        try:
            return await anyio.to_thread.run_sync(read_whole, self._file(key))
        except FileNotFoundError:
            return None

    async def put(self, key: str, data: bytes) -> None:
        await anyio.to_thread.run_sync(self._write, key, data)

    def _write(self, key: str, data: bytes) -> None:
        self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._file(key), data)

    def _file(self, key: str) -> Path:
        return self._path / f"{key}.jsonl"


_log = logging.getLogger("llmstream")

# Finish reasons of answers that nothing cut short.
_WHOLE: Final = frozenset({"stop", "tool-calls", "other", "unknown"})

_HEAD: Final = b'{"format":"llmstream.cache","version":1}'


def cache(kept: Kept) -> Middleware:
    """Returns the answer to an earlier, equal request as a stream, without a request to the vendor.

    Only complete answers are stored: none that failed, was left, or was cut by a limit or a filter. A
    replay yields all events of the answer at once, usage included; a `response-metadata` with
    {"llmstream": {"cached": true}} marks it. Requests are equal if provider, address, key, headers,
    model, messages, tools and settings are, so tenants with their own keys share nothing; a key
    returned by a function does not count. Nothing is ever removed. Equal requests at the same time
    are all sent, and the answer that ends last is stored.

    kept: a folder, with one file of JSON lines for each answer (mode 0600: answers may be private), or
          a mapping. What cannot be read or written is logged, and the request is sent
    """
    store = as_store(kept)

    async def cached(request: Request, ask: Ask) -> AsyncGenerator[Event]:
        key = _key(request, ask)
        found = await _found(store, key) if key else None
        if found is not None:
            for event in found:
                yield event
            return
        lines: list[bytes] | None = None if key is None else [_HEAD]
        finish: Finish | None = None  # given when it is clear whether an error follows
        try:
            async for event in ask(request):
                # Before the event goes out: a reader may change what it gets.
                lines = _with(lines, event)
                if isinstance(event, Finish):
                    finish = event
                else:
                    yield event
        except LLMStreamError:
            if finish is not None:
                yield finish
            raise
        # Before the finish goes out, after which a reader may leave.
        if key and lines and finish is not None and finish.finish_reason in _WHOLE:
            await _put(store, key, b"\n".join([*lines, b""]))
        if finish is not None:
            yield finish

    cached.__name__ = "cache"
    return cached


def _key(request: Request, ask: Ask) -> str | None:
    try:
        return cache_key(ask.model, request)
    except (LLMStreamError, TypeError, ValueError, OverflowError) as error:
        _log.info("a request is not cached: %s", error)
        return None


def _with(lines: list[bytes] | None, event: Event) -> list[bytes] | None:
    """The lines and one more; None once there is something that JSON cannot hold."""
    if lines is None:
        return None
    try:
        lines.append(encode(event))
    except (TypeError, ValueError, OverflowError) as error:
        _log.info("an answer is not stored: %s", error)
        return None
    return lines


async def _found(store: CacheStore, key: str) -> list[Event] | None:
    """The events of the stored answer, marked as a replay; None if there is none that can be read."""
    try:
        data = await store.get(key)
        if data is None:
            return None
        events = _events(data)
    except Exception as error:  # the mapping is the caller's, and may raise anything
        _log.warning("the stored answer %s cannot be read, and the request is sent: %s", key, error)
        return None
    mark = ResponseMetadata(provider_metadata={"llmstream": {"cached": True}})
    return [events[0], mark, *events[1:]]


def _events(data: bytes) -> list[Event]:
    head, *lines = data.rstrip(b"\n").split(b"\n")
    if head != _HEAD:
        raise ValueError("it is of another version or no answer at all")
    events = [decode(line) for line in lines]
    # A truncated file may end between two lines, each of them valid.
    if broken := check(events):
        raise ValueError(broken[0])
    return events


async def _put(store: CacheStore, key: str, data: bytes) -> None:
    try:
        await store.put(key, data)
    except Exception as error:
        _log.warning("an answer cannot be stored: %s", error)
